"""What prepared copies take on disk, and what of them can be made again."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ecgbench.files import locked
from ecgbench.prepared.source import LAYOUT


@dataclass(frozen=True)
class Copy:
    """A prepared copy as it lies on disk, whatever files it was made of."""

    dataset: str
    folder: Path
    records: int | None
    """None where it cannot be read."""
    signals: int
    """Bytes of everything but views."""
    views: int
    """Bytes of filtered and resampled recordings, which are made anew when they are missed."""
    current: bool
    """Whether this version of ecgbench reads it."""


def copies(home: Path) -> list[Copy]:
    """All copies below a folder of prepared copies, by dataset."""
    return [_copy(meta.parent) for meta in sorted(home.glob("*/*/meta.json"))]


def spare(home: Path, datasets: tuple[str, ...] = ()) -> Iterator[tuple[Path, int]]:
    """Folders that cost time alone when they are gone, and their bytes: views, and whole copies of
    other versions. datasets: of these alone.
    """
    for copy in copies(home):
        if datasets and copy.dataset not in datasets:
            continue
        if not copy.current:
            yield copy.folder, copy.signals + copy.views
        elif copy.views:
            yield copy.folder / "views", copy.views


def prune(home: Path, datasets: tuple[str, ...] = ()) -> int:
    """Remove what `spare` names; the bytes that were freed. WriteError where a preparation is at
    work.
    """
    freed = 0
    for folder, count in list(spare(home, datasets)):
        own = home / folder.relative_to(home).parts[0]
        with locked(own):
            shutil.rmtree(folder)
        freed += count
    return freed


def _copy(folder: Path) -> Copy:
    records, layout = None, None
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        layout = meta.get("layout")
        records = len(pd.read_parquet(folder / "index.parquet", columns=["record"]))
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    views, whole = _size(folder / "views"), _size(folder)
    return Copy(
        dataset=folder.parent.name,
        folder=folder,
        records=records,
        signals=whole - views,
        views=views,
        current=records is not None and layout == LAYOUT,
    )


def _size(folder: Path) -> int:
    """Bytes that files take on disk; those of views have holes."""
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sum(512 * p.stat().st_blocks for p in files)
