"""Workers that say what no worker says: a shell writes bytes into the pipe of events. No line of
them crashes a run, counts a cell, or reaches the terminal as it is.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench import models
from ecgbench.core.cells import Folders, Plan, Request
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import EcgbenchError
from ecgbench.study import plan as planning
from ecgbench.study import worker_process
from ecgbench.study.answers import FOREIGN
from ecgbench.study.engine import Setup, ask
from ecgbench.study.engines import isolated
from ecgbench.study.job import Job, Locate, Look
from ecgbench.study.job_record import Outcome
from ecgbench.study.progress import Bars, Display, Lines
from ecgbench.study.run import Run

Says = Callable[..., None]
ESCAPE = "\x1b[2J\x9b\u202e\ud800 "


def plan() -> Plan:
    models.ROOM.forget()
    asked = Request(
        models=("stmem",),
        tasks=("demo",),
        leads=parse_leads("I,12"),
        seeds=1,
        weights="random",
        limit=60,
        name="x",
    )
    return planning.plan(planning.check(asked), lambda loaded: dict.fromkeys(loaded, "zero"))


def line(kind: str, **fields: Any) -> bytes:
    return (json.dumps({"kind": kind, "job": "1", **fields}) + "\n").encode()


OVER = line("Over", answer={})
FORGED: dict[str, bytes] = {
    "nothing": b"",
    "half a line": b'{"kind": "Over", "job"',
    "binary": bytes(range(256)) + b"\n",
    "an array": b"[1, 2]\n",
    "nested deep": b'{"kind": "Over", "job": "1", "answer": ' + b'{"a":' * 10**5 + b"\n",
    "unknown kind": line("Exploded"),
    "another job": line("Note", text="x").replace(b'"1"', b'"2"'),
    "an end of its own": line("Died", reason="x"),
    "wrong types": line("Stage", stage="1", text=3, total=[], unit=None),
    "a negative total": line("Stage", stage=1, text="x", total=-5, unit="y") + OVER,
    "a step back": line("Stage", stage=1, text="x", total=5, unit="y")
    + line("Advance", stage=1, n=-7)
    + OVER,
    "too many steps": line("Stage", stage=1, text="x", total=1, unit="y")
    + line("Advance", stage=1, n=2**53 - 1) * 3
    + OVER,
    "a huge total": line("Stage", stage=2**52, text="x", total=2**53 - 1, unit="y") + OVER,
    "not a number": b'{"kind": "Advance", "job": "1", "stage": NaN, "n": Infinity}\n',
    "controls": line("Note", text=ESCAPE)
    + line("Stage", stage=1, text=ESCAPE, total=3, unit=ESCAPE)
    + line("Failed", cells=[], reason=ESCAPE, trace=ESCAPE)
    + line("Disqualified", reason=ESCAPE, trace=ESCAPE)
    + OVER,
    "a novel": line("Note", text="word " * 10**4) + OVER,
    "a long reason": line("Disqualified", reason="word " * 10**4, trace="") + OVER,
    "cells of others": line("InProgress", cells=["a|b", ""], together=True)
    + line("Finished", cells=["a|b"])
    + line("Failed", cells=["a|b"], reason="x", trace="")
    + line("Skipped", cells=["a|b"], reason="x"),
    "a library": line("Note", text="word " * 10**5),
}


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Says:
    """says(data): the worker of the next job writes `data` once it has the job, and ends; or it
    waits so many seconds.
    """

    def say(data: bytes, wait: int = 0) -> None:
        (tmp_path / "said").write_bytes(data)
        script = f'read job; cat "{tmp_path / "said"}" >&"$1"; sleep {wait}'
        monkeypatch.setattr(
            worker_process, "command", lambda pipe: ["bash", "-c", script, "bash", str(pipe)]
        )

    return say


def asked(kind: type[Job], folder: Path) -> dict[str, Any]:
    jobs: dict[type[Job], Job] = {
        Look: Look(id="1", model="stmem", weights=None, contract="paper"),
        Locate: Locate(id="1", model="stmem", weights="released"),
    }
    engine = isolated.start(Setup(logs=folder, patience=5.0, show=print))
    try:
        return ask(engine, jobs[kind])
    finally:
        engine.close()


def run(tmp_path: Path, copies: Path, display: Display, patience: float = 5.0) -> Outcome:
    folders = Folders(data=None, prepared=copies, out=tmp_path / "run")
    engine = isolated.start(Setup(logs=tmp_path, patience=patience, show=print))
    try:
        return Run(plan(), folders, display, engine)()
    finally:
        engine.close()


@pytest.mark.parametrize("display", [Lines, Bars])
@pytest.mark.parametrize("name", FORGED)
def test_what_a_worker_forges_costs_its_own_cells(
    name: str,
    display: type[Display],
    says: Says,
    tmp_path: Path,
    copies: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    says(FORGED[name])
    outcome = run(tmp_path, copies, display())
    assert (outcome.computed, outcome.reused, outcome.failures) == (0, 0, 2)
    ((_, reason, _),) = outcome.failed
    for text in (reason, capsys.readouterr().err):
        assert not {"\x1b", "\x9b", "\u202e", "\ud800"} & {*text}
        assert len(text) < 3000


def test_a_job_that_stands_still_names_what_it_was_doing(
    says: Says, tmp_path: Path, copies: Path
) -> None:
    """A worker that goes on to live and says no more."""
    said = line("Started") + line("Stage", stage=1, text=f"test{ESCAPE}", total=3, unit="windows")
    says(said + line("InProgress", cells=[c.identity for c in plan().cells], together=False), 60)
    outcome = run(tmp_path, copies, Lines(), patience=0.5)
    ((_, reason, _),) = outcome.failed
    doing = "testU+001B[2JU+009BU+202EU+D800"
    assert reason == f"no progress for 0.5 s ({doing}), so it was ended (--cell-timeout)"


def test_an_error_of_no_kind_that_we_know_stops_the_run_in_one_line(
    says: Says, tmp_path: Path, copies: Path
) -> None:
    says(line("Stopped", error="difflib", reason="x"))
    with pytest.raises(EcgbenchError, match=r"^x$"):
        run(tmp_path, copies, Lines())


@pytest.mark.parametrize(
    ("job", "answer"),
    [
        (Look, {}),
        (Look, {"policy": 5}),
        (Look, {"policy": "none such"}),
        (Look, {"policy": ["zero"]}),
        (Locate, {"lacks": "a file"}),
        (Locate, {"lacks": 3, "fetch": True}),
        (Locate, {"lacks": "a file", "fetch": "no"}),
    ],
)
def test_an_answer_of_another_kind_is_none(
    job: type[Job], answer: dict[str, Any], says: Says, tmp_path: Path
) -> None:
    says(line("Over", answer=answer))
    assert asked(job, tmp_path) == {"failed": FOREIGN}


@pytest.mark.parametrize(
    ("job", "answer"),
    [
        (Look, {"policy": None}),
        (Look, {"policy": "native"}),
        (Locate, {"lacks": ""}),
        (Locate, {"lacks": "a file", "fetch": True}),
    ],
)
def test_what_is_an_answer_comes_back(
    job: type[Job], answer: dict[str, Any], says: Says, tmp_path: Path
) -> None:
    says(line("Over", answer=answer))
    assert asked(job, tmp_path) == answer
    said = {"failed": f"no room{ESCAPE}"}
    says(line("Over", answer=said))
    assert asked(job, tmp_path) == {"failed": "no roomU+001B[2JU+009BU+202EU+D800"}
