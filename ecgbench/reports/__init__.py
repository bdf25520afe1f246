"""The room of reports: each file turns a run, a profile, a pre-training or an ablation into
sections, which `write` makes files of.

A report is a docstring, a `CARD` and `rows(source)`, a table of unrounded numbers; what of it the
page shows stands in `sections(source, rows)`, and is all of it where there is no such function. A
report reads what `read` gives and writes nothing itself.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ecgbench.contracts import Report
from ecgbench.core.registry import Room
from ecgbench.reports import _made
from ecgbench.reports._columns import difference_cell, difference_column, estimate_column
from ecgbench.reports._figure import COLOURS, LONGEST, drawing, handle, lead_axis, look
from ecgbench.reports._intervals import draw as draw_intervals
from ecgbench.reports._made import made_from, up_to_date
from ecgbench.reports._section import (
    Code,
    Column,
    Facts,
    Figure,
    Format,
    Group,
    Heading,
    Kind,
    Link,
    Notes,
    Opening,
    Part,
    ReportCard,
    Row,
    Score,
    Section,
    Table,
    TableCell,
    Text,
    records,
)
from ecgbench.reports._table import csv_text, terminal_lines
from ecgbench.reports._text import bracket, p_value, points, signed, signed_bracket

__all__ = [
    "COLOURS",
    "LONGEST",
    "ROOM",
    "Code",
    "Column",
    "Facts",
    "Figure",
    "Format",
    "Group",
    "Heading",
    "Kind",
    "Link",
    "Notes",
    "Opening",
    "Part",
    "ReportCard",
    "Row",
    "Score",
    "Section",
    "Table",
    "TableCell",
    "Text",
    "bracket",
    "csv_text",
    "difference_cell",
    "difference_column",
    "draw_intervals",
    "drawing",
    "estimate_column",
    "get",
    "handle",
    "lead_axis",
    "look",
    "made_from",
    "names",
    "p_value",
    "points",
    "read",
    "records",
    "resolve",
    "sections",
    "signed",
    "signed_bracket",
    "summary",
    "terminal_lines",
    "up_to_date",
    "write",
]

ROOM = Room(
    "ecgbench.reports",
    "report",
    Report,
    elsewhere={
        "cost": "ecgbench.profile.page",
        "pretraining": "ecgbench.pretrain.page",
        "ablation": "ecgbench.pretrain.ablation_page",
    },
)
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve


def read(
    folder: Path,
    metrics: Sequence[str] = (),
    stage: Any = None,
    tasks: Sequence[str] = (),
    others: Sequence[Path] = (),
) -> Any:
    """What reports receive of a folder: results.study.Run of a run, profile.stored.Costs of
    what `ecgbench profile` wrote, pretrain.stored.Pretraining of a pre-training,
    pretrain.ablation.Ablation of a study of `ecgbench ablate`. MissingData where the folder is none
    of them.

    metrics: of a run, names or paths; those of the run if left out. BadSetting where the folder is
    no run.
    tasks: of a run, those alone; all if left out.
    stage: of a run, shows what takes long (results.precompute.Stage).
    others: of a run, folders of `ecgbench runs export` whose rows stand beside its own.
    """
    from ecgbench.reports import _kinds

    return _kinds.read(ROOM, folder, metrics, stage, tasks, others)


def sections(name: str, source: Any) -> list[Section]:
    """What a report shows of a source. UnknownName, BadSetting."""
    from ecgbench.reports import _write

    return _write.sections_of(ROOM, resolve(name), source)


def write(
    source: Any,
    folder: Path,
    only: Sequence[str] | None = None,
    also: Sequence[str] = (),
    pictures: Sequence[str] = ("png", "svg", "pdf"),
    made_from: str = "",
) -> list[Path]:
    """Write index.html and the files of all our reports that read this kind of source, or of those
    named `only`.

    also: reports from outside besides, by path or, of another package, by name. pictures: kinds of
    file that figures become beside the page. made_from: of this source and these options, which is
    noted for `up_to_date`, unless a plug-in from outside had a part in it. Returns every file of
    the report, each once. BadSetting where a report reads another kind or a kind of picture is
    unknown, UnknownName, WriteError.
    """
    from ecgbench.metrics import ROOM as METRICS
    from ecgbench.reports import _write

    only = None if only is None else [resolve(name) for name in only]
    also = [resolve(name) for name in also]
    written = _write.write(ROOM, source, folder, only=only, also=also, pictures=pictures)
    # of a plug-in nobody knows what it reads
    rooms = (ROOM, [*(only or ()), *also]), (METRICS, getattr(source, "metrics", ()))
    if made_from and all(room.built_in(name) for room, used in rooms for name in used):
        _made.note(folder, made_from, written)
    return written


def summary(study: Any, width: int | None = None) -> list[str]:
    """What a run prints at its end, in lines: what its page opens with, and the main table, in
    parts that are no wider than `width` characters.
    """
    from ecgbench.reports import _summary

    return _summary.lines(ROOM, study, width)
