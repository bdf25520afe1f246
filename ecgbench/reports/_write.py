"""The drawing of several reports in one go."""

from collections.abc import Sequence
from pathlib import Path

from ecgbench.files import sweep
from ecgbench.reports import ROOM
from ecgbench.results.study import Study

LAST = "page"
"""The page quotes the other reports, so it is drawn after them."""


def order(only: Sequence[str] | None = None) -> list[str]:
    """The reports to draw, properly spelled, each once, in the room's order with the page last; UnknownName otherwise."""
    asked = ROOM.names() if only is None else [ROOM.resolve(name) for name in only]
    return sorted(set(asked), key=lambda name: (name == LAST, ROOM.names().index(name)))


def write(study: Study, folder: Path, only: list[str] | None = None) -> list[Path]:
    """Draw all reports of the room, or those named, into `folder`; returns every file written, each once."""
    sweep(folder, below=False)  # the reader's folder: what else lies below it is not ours
    reports = [ROOM.get(name) for name in order(only)]
    drawn = [path for report in reports for path in report.draw(report.facts(study), folder)]
    return list(dict.fromkeys(drawn))
