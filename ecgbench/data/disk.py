"""What prepared copies take on disk, and what of them can be made again."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from ecgbench.core.aside import MARK
from ecgbench.core.cards import DatasetCard
from ecgbench.core.files import locked, writing
from ecgbench.data.prepare import held
from ecgbench.data.source import LAYOUT, Source
from ecgbench.data.store import BYTES
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData

SHARDS = "shards"
"""Folder of corpora in shards, beside the folders of the datasets."""


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
    fix: bool
    """Whether it was prepared with --fix."""
    current: bool
    """Whether this version of ecgbench reads it."""


def copies(home: Path) -> list[Copy]:
    """All copies below a folder of prepared copies, by dataset."""
    return [_copy(meta.parent) for meta in sorted(home.glob("*/*/meta.json"))]


def spare(home: Path, datasets: tuple[str, ...] = ()) -> Iterator[tuple[Path, int]]:
    """Folders that cost time alone when they are gone, and their bytes: views, whole copies of
    other versions, damaged ones that were set aside, what interrupted preparations left, and
    corpora in shards, which may be of several datasets. datasets: of these alone, without shards.
    """
    if not datasets:
        yield from ((folder, _size(folder)) for folder in sorted(home.glob(f"{SHARDS}/*/")))
    for left in sorted(home.glob("*/*.tmp/")):
        if not datasets or left.parent.name in datasets:
            yield left, _size(left)
    for copy in copies(home):
        if datasets and copy.dataset not in datasets:
            continue
        if not copy.current:
            yield copy.folder, copy.signals + copy.views
        elif copy.views:
            yield copy.folder / "views", copy.views


def prune(home: Path, datasets: tuple[str, ...] = ()) -> int:
    """Remove what `spare` names, once a preparation that is at work has ended; the bytes that were
    freed. BadSetting, before anything is removed, while a pre-training packs shards there.
    WriteError names what cannot be removed.
    """
    found = [(folder, count, _claim(home, folder)) for folder, count in spare(home, datasets)]
    for folder, _, claim in found:
        if folder.parent == home / SHARDS:
            with claim():
                pass
    freed = 0
    for folder, count, claim in found:
        with claim():
            if folder.exists():  # a preparation that was at work may have ended
                with writing(folder):
                    shutil.rmtree(folder)
                freed += count
    return freed


def alone_in(shards: Path, otherwise: str = "") -> AbstractContextManager[None]:
    """One process at a time packs, or removes, what is in a folder of shards. The lock lies beside
    the folder, so that it outlasts it. BadSetting(otherwise) in place of waiting.
    """
    return locked(shards.parent, f".{shards.name}.lock", otherwise=otherwise)


def _claim(home: Path, folder: Path) -> Callable[[], AbstractContextManager[None]]:
    """What keeps others out of a folder that is spare."""
    if folder.parent != home / SHARDS:
        return partial(locked, home / folder.relative_to(home).parts[0])
    working = (
        f"a pre-training packs its corpora into {folder}; run ecgbench data prune when that has "
        f"ended"
    )
    return partial(alone_in, folder, working)


def bytes_of(card: DatasetCard, records: int) -> int:
    """About what so many records of a dataset take when they are prepared."""
    return records * BYTES * len(LEADS) * round(card.fs * card.seconds)


def free_bytes(folder: Path) -> int:
    """On the disk of a folder, or of the one that it will lie in."""
    there = next(f for f in (folder, *folder.absolute().parents) if f.is_dir())
    return shutil.disk_usage(there).free


def foreseen(name: str, data: Path | None, prepared: Path | None) -> tuple[int, int]:
    """Records that a preparation of a whole dataset would store, and about how many bytes; 0 and 0
    where that is done. A part is copied, so it counts too. MissingData where the dataset is not
    there.
    """
    source = Source.of(name, data, prepared)
    with suppress(MissingData):
        if held(name, data, prepared).whole:
            return 0, 0
    return source.count, bytes_of(source.module.CARD, source.count)


def _copy(folder: Path) -> Copy:
    records, layout, fix = None, None, False
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        layout, fix = meta.get("layout"), bool(meta.get("fix"))
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
        fix=fix,
        current=records is not None and layout == LAYOUT and folder.suffix != MARK,
    )


def _size(folder: Path) -> int:
    """Bytes that files take on disk; those of views have holes."""
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sum(512 * p.stat().st_blocks for p in files)
