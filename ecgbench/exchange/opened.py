"""The one door to results: a run, an export, a published report, a table of predictions."""

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ecgbench.errors import BadSetting
from ecgbench.exchange import predictions
from ecgbench.results import tables
from ecgbench.results.precompute import Stage
from ecgbench.results.study import Run, read
from ecgbench.study import lent
from ecgbench.study.plan_file import FILE


def opened(
    path: Path,
    metrics: Sequence[str] = (),
    stage: Stage | None = None,
    tasks: Sequence[str] = (),
    to: Path | None = None,
    **of_table: Any,
) -> Run:
    """What lies there; metrics, stage and tasks as `results.study.read` says. MissingData where it
    is no results, BadSetting where an export is not as it was exported.

    Of a table of predictions, tasks is the one that it is of; to: the folder that is written of it
    (a temporary one if left out); of_table: further facts, as `predictions.write` says.
    """
    if path.is_file():
        if len(tasks) != 1:
            raise BadSetting(f"{path} is a table of predictions; say of which task: --task NAME")
        folder = to or Path(tempfile.mkdtemp(prefix="ecgbench-"), path.stem)
        if to is None:
            atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
        predictions.write(path, tasks[0], folder, **of_table)
        return read(folder, metrics, stage)
    if unused := [*of_table.keys() - {"data", "prepared"}, *(["to"] if to else [])]:
        raise BadSetting(f"{unused[0]} is of a table of predictions, and {path} is none")
    if (path / tables.MAIN).is_file() and not (path / FILE).exists():
        if (path / lent.FILE).exists():
            raise BadSetting(f"{path} is an export without its {FILE}; ask for another one")
        found = tables.read(path)
        return found.of(metrics[0]) if metrics else found
    return read(path, metrics, stage, tasks)
