"""The one door to results: a run, an export, a published report."""

from collections.abc import Sequence
from pathlib import Path

from ecgbench.results import tables
from ecgbench.results.precompute import Stage
from ecgbench.results.study import Run, read
from ecgbench.study.plan_file import FILE


def opened(
    folder: Path, metrics: Sequence[str] = (), stage: Stage | None = None, tasks: Sequence[str] = ()
) -> Run:
    """What a folder holds; the others as `results.study.read` says. MissingData where it is none of
    them, BadSetting where an export is not as it was exported.
    """
    if (folder / tables.MAIN).is_file() and not (folder / FILE).exists():
        found = tables.read(folder)
        return found.of(metrics[0]) if metrics else found
    return read(folder, metrics, stage, tasks)
