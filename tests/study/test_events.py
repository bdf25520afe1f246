"""Events as they travel: by a pipe, by a file that grows, and the bytes that are none."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ecgbench.study import events
from ecgbench.study.events import BadEvent, Event, EventFile, Lines, from_line, to_line

ALL = [
    events.Started("1"),
    events.Note("1", "fitted · ünïcode\nof two lines"),
    events.Stage("1", 1, "test windows", 12, "windows"),
    events.Advance("1", 1, 3),
    events.StageOver("1", 1),
    events.InProgress("1", ("a", "b"), True),
    events.Finished("1", ("a",)),
    events.Skipped("1", ("b",), "it cannot"),
    events.Failed("1", (), "no kernel", "Traceback"),
    events.Disqualified("1", "read lead II", "Traceback", "logs/x.log"),
    events.Over("1", {"policy": None, "seconds": {"training": 1.5}}),
    events.Stopped("1", "BadWeights", "not these"),
    events.Died("1", "its process ended with exit code 3"),
]


def test_every_kind_is_tested_here() -> None:
    assert {type(e).__name__ for e in ALL} == set(events.KINDS)


@pytest.mark.parametrize("event", ALL, ids=lambda e: type(e).__name__)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    line = to_line(event)
    assert line.count(b"\n") == 1
    assert from_line(line) == event


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"[1]",
        b"{}",
        b"",
        b"null",
        b'{"kind": 3}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"kind": "Exploded", "job": "1"}',
        b'{"kind": ["Note"], "job": "1"}',
        b'{"kind": "Note", "job": "1"}',
        b'{"kind": "Note", "job": 1, "text": "x"}',
        b'{"kind": "Note", "job": "1", "text": "x", "more": 1}',
        b'{"kind": "Advance", "job": "1", "stage": 1, "n": true}',
        b'{"kind": "Advance", "job": "1", "stage": 1, "n": 1e400}',
        b'{"kind": "Advance", "job": "1", "stage": 1, "n": 1' + b"0" * 60 + b"}",
        b'{"kind": "Finished", "job": "1", "cells": [3]}',
        b'{"kind": "Finished", "job": "1", "cells": "a"}',
        b'{"kind": "Over", "job": "1", "answer": [1]}',
        b'{"kind": "Event", "job": "1"}',
    ],
)
def test_a_line_that_no_worker_wrote_is_no_event(line: bytes) -> None:
    with pytest.raises(BadEvent):
        from_line(line)


def test_events_come_whole_however_the_bytes_are_cut() -> None:
    data = b"".join(map(to_line, ALL))
    for size in (1, 7, 64, len(data)):
        lines = Lines()
        assert [
            e for at in range(0, len(data), size) for e in lines.feed(data[at : at + size])
        ] == ALL


def until_garbage(coming: Iterable[Event]) -> list[Event]:
    came: list[Event] = []
    with pytest.raises(BadEvent):
        came.extend(coming)
    return came


def test_what_came_before_garbage_is_an_event_and_a_line_without_end_is_garbage() -> None:
    assert until_garbage(Lines().feed(to_line(ALL[0]) + b"garbage\n" + to_line(ALL[1]))) == [ALL[0]]
    assert until_garbage(Lines().feed(b"x" * (events.LONGEST + 1))) == []


def test_events_from_a_file_that_grows(tmp_path: Path) -> None:
    """Not there at first; half of a line is waited for; what was read is not read again; garbage is
    told.
    """
    file = EventFile(tmp_path / "events.jsonl")
    assert list(file.events()) == []
    line = to_line(ALL[1])
    with file.path.open("ab", buffering=0) as out:
        out.write(to_line(ALL[0]) + line[:9])
        assert list(file.events()) == [ALL[0]]
        assert list(file.events()) == []
        out.write(line[9:])
        assert list(file.events()) == [ALL[1]]
        out.write(b"".join(map(to_line, ALL[2:])) + b"garbage\n")
    assert until_garbage(file.events()) == ALL[2:]
