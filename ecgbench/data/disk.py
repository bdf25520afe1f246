"""Disk space of prepared copies, what can be removed and computed again, and a comparison with the
published files.
"""

import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgbench.cards.dataset import DatasetCard
from ecgbench.core.files import DAMAGED, locked, writing
from ecgbench.core.parts import Parts
from ecgbench.core.text import size
from ecgbench.data.copy import ABOUT, Copy, Progress, opened
from ecgbench.data.reading import checked_row
from ecgbench.data.source import LAYOUT, Source, rows, where
from ecgbench.data.views import views
from ecgbench.ecg.leads import LEADS


@dataclass(frozen=True)
class Stored:
    """A prepared copy on disk."""

    dataset: str
    folder: Path
    records: int
    """Usable records."""
    signals: int
    """Bytes of everything but views."""
    views: int
    """Bytes of filtered and resampled recordings, which can be computed again."""
    fix: bool
    """Whether it was prepared with --fix."""
    current: bool
    """Whether this version of ecgbench reads it."""


def copies(home: Path) -> list[Stored]:
    """All copies below a folder of prepared copies, by dataset."""
    return [_stored(file.parent) for file in sorted(home.glob(f"*/*/{ABOUT}"))]


def _stored(folder: Path) -> Stored:
    about: dict[str, Any] = {}
    with suppress(OSError, ValueError):  # a damaged file
        about = dict(json.loads((folder / ABOUT).read_text(encoding="utf-8")))
    known, of_views = Parts(folder).rows, _size(folder / "views")
    return Stored(
        dataset=folder.parent.name,
        folder=folder,
        records=int((known["reason"] == "").sum()) if len(known) else 0,
        signals=_size(folder) - of_views,
        views=of_views,
        fix=bool(about.get("fix")),
        current=about.get("layout") == LAYOUT,
    )


def spare(home: Path, names: tuple[str, ...] = ()) -> Iterator[tuple[Path, int]]:
    """Folders that can be made again, and their bytes: views, copies of other versions, damaged and
    replaced parts. names: only of these datasets.
    """
    for copy in copies(home):
        if names and copy.dataset not in names:
            continue
        if not copy.current:
            yield copy.folder, copy.signals + copy.views
            continue
        for part in [*copy.folder.glob(f"part-*{DAMAGED}/"), *Parts(copy.folder).spare()]:
            yield part, _size(part)
        if copy.views:
            yield copy.folder / "views", copy.views


def prune(home: Path, names: tuple[str, ...] = ()) -> int:
    """Remove what `spare` lists, after a running preparation has ended; returns the freed bytes.
    WriteError names what cannot be removed.
    """
    freed = 0
    for folder, count in [*spare(home, names)]:
        with locked(home / folder.relative_to(home).parts[0]):
            if folder.exists():  # a preparation that was at work may have ended
                with writing(folder):
                    shutil.rmtree(folder)
                freed += count
    return freed


def bytes_of(card: DatasetCard, records: int) -> int:
    """Approximate bytes of so many prepared records of a dataset."""
    return records * 2 * len(LEADS) * round(card.fs * card.seconds)


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of a folder that may not exist yet."""
    there = next(f for f in (folder, *folder.absolute().parents) if f.is_dir())
    return shutil.disk_usage(there).free


def lacking(needed: Mapping[Path, int]) -> Iterator[str]:
    """A line for each folder with too few free bytes."""
    for folder, count in needed.items():
        if count > (free := free_bytes(folder)):
            yield (
                f"too little disk: {folder} has {size(free)} free and needs {size(count)}; "
                f"ecgbench data prune frees what can be made again; --prepared and --out name "
                f"other places"
            )


def foreseen(name: str, data: Path | None, prepared: Path | None) -> tuple[int, int]:
    """Records of a whole prepared dataset, and their approximate bytes. MissingData where the
    dataset is not there.
    """
    source = Source.of(name, data, prepared)
    missing = source.count - opened(source, where(prepared, data, name)).count
    return missing, bytes_of(source.module.CARD, missing)


def verify(copy: Copy, progress: Progress = lambda done, total: None) -> list[tuple[str, str]]:
    """Problems of a prepared copy and its views, as (record, reason): the published files are read
    again, and stored and new samples compared by sha256. `progress` counts records, and again those
    of each view.

    Nothing is repaired here: a run does that when it reads a damaged part. Quarantined records are
    not in the copy; `Copy.quarantined` lists them.
    """
    kept, problems = views(copy), list[tuple[str, str]]()
    total, ticks = len(copy.index) + sum(len(view.rows) for view in kept), itertools.count(1)
    for row in rows(copy.index):
        about, content = checked_row(copy.source, row)
        why = about["reason"]
        if not copy.stored(row["record"]):
            why = f"the prepared signal in {copy.folder} differs from what was written; it is read"
            why += " again when it is next used"
        elif not why and hashlib.sha256(content).hexdigest() != row["sha256"]:
            why = "the published file differs from what was prepared"
        problems += [(row["record"], why)] if why else []
        progress(next(ticks), total)
    record_of = dict(zip(copy.index["sha256"], copy.index["record"]))
    for view in kept:
        for name in view.rows.index:
            if view.read(name) is None:
                why = f"its view in {view.folder} differs from what was computed; it is computed"
                problems.append((record_of.get(name, name), f"{why} again when it is next used"))
            progress(next(ticks), total)
    return problems


def _size(folder: Path) -> int:
    """Bytes that files take on disk."""
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sum(512 * p.stat().st_blocks for p in files)
