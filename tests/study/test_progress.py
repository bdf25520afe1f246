"""What a person sees of several jobs at once."""

import io

import pytest
from rich.console import Console

from ecgbench.study.progress import JobDisplay, Terminal

MIXED = [
    (1, ("stage", 1, "left on demo: test windows", 3, "windows")),
    (2, ("stage", 1, "right on demo: test windows", 5, "windows")),
    (1, ("advance", 1, 2)),
    (2, ("note", "fitted")),
    (2, ("advance", 1, 5)),
    (2, ("end", 1)),
    (1, ("advance", 1, 1)),
]


def test_bars_of_two_jobs_share_one_display_and_leave_a_line_each() -> None:
    out = io.StringIO()
    bars = Terminal(bars=True, console=Console(file=out, force_terminal=True, width=100))
    show = JobDisplay(bars)
    for event in MIXED[:5]:
        show(*event)
    assert [task.completed for task in bars._live.tasks] == [2, 5]
    for event in MIXED[5:]:
        show(*event)
    assert "right on demo: test windows: 5/5 windows in " in out.getvalue()
    show.end(1)  # its process died: the bar goes, and the cursor is shown again
    assert not bars._live.tasks
    assert "left on demo: test windows: 3/3 windows in " in out.getvalue()
    assert "fitted" in out.getvalue()
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l")
    show(3, ("stage", 1, "again", 1, "windows"))  # a display that ended begins anew
    show.end(3)
    assert "again: 0/1 windows" in out.getvalue()


def test_what_events_say_is_shown_as_one_line_that_no_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show = JobDisplay(Terminal(bars=False))
    show(1, ("note", "\x1b]0;evil\x07 fitted\n2 cells computed"))
    show(1, ("stage", 1, "\x1b[31mred\nline", 2, "windows"))
    assert (
        capsys.readouterr().err
        == "U+001B]0;evilU+0007 fitted 2 cells computed\nU+001B[31mred line: 2 windows\n"
    )
