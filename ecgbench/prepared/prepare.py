"""From files as published to the prepared store: every recording is read once, checked, and kept or
quarantined.

A run with `--limit` prepares a part: the records that it takes. A later one that takes more, or
all, makes a larger copy, into which what was read before is copied; the smaller one stays for those
who use it.

A copy is written in a folder of its own that is renamed at the end, under a lock that dies with its
process: a killed attempt leaves nothing that counts, and of two processes the second waits and
finds the work done.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pandas as pd

from ecgbench import __version__
from ecgbench.cards import DatasetCard
from ecgbench.datasets import get, resolve
from ecgbench.ecg.leads import LeadSubset
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, MissingData, WriteError
from ecgbench.files import as_json, as_npy, as_parquet, locked, move, put, writing
from ecgbench.prepared.source import LAYOUT, Source, command, read, root_of, rows, where
from ecgbench.prepared.store import (
    LEFT_OUT,
    Prepared,
    damaged,
    digest,
    empty,
    encode,
    opened,
    sha256,
)
from ecgbench.prepared.subset import taken

__all__ = ["Prepared", "Progress", "find", "held", "prepare", "state", "where"]

LOST_COUNT = 5
"""Preparing stops once more than this many and more than the card's share are lost."""

FACTS = ["record", "samples", "fs", "available", "flat", "sha256"]
"""What the index of a prepared copy holds besides that of the dataset."""

Progress = Callable[[int, int], None]
"""Called with (records read, records to read)."""


def prepare(
    name: str,
    data: Path | None,
    prepared: Path | None,
    progress: Progress | None = None,
    limit: int | None = None,
) -> Prepared:
    """The prepared copy of what is under `data`, with all records or at least those that a run with
    `limit` takes; what it lacks is read now.

    Records that cannot be trusted are quarantined with a reason; those that a rule of the card
    excludes are counted apart. MissingData when the dataset is not there, or when more than 0.5 %
    (or what its card says) of the records that were read, and more than 5, are lost.
    """
    source = Source.of(name, data, prepared)
    folder = source.folder(where(prepared, data))
    copy = _largest(source, folder)
    if _lacking(copy, limit):
        with _locked(folder.parent):
            # once more where a record was lost, for the one that takes its place
            while lacking := _lacking(copy := _largest(source, folder), limit):
                _make(source, folder, copy, lacking, progress)
    return copy


def find(name: str, data: Path | None, prepared: Path | None, limit: int | None = None) -> Prepared:
    """The prepared copy that matches the files under `data` and holds all records, or at least
    those that a run with `limit` takes; MissingData when there is none (nothing is prepared).
    """
    copy = held(name, data, prepared)
    if _lacking(copy, limit):
        raise MissingData(
            f"{copy.name}: only {len(copy.index):,} of {len(copy.published):,} records are "
            f"prepared, in {copy.folder}; for the rest run: {command(copy.name, data)}"
        )
    return copy


def held(name: str, data: Path | None, prepared: Path | None) -> Prepared:
    """The largest prepared copy that matches the files under `data`, perhaps a part; MissingData
    when there is none.
    """
    source = Source.of(name, data, prepared)
    folder = source.folder(where(prepared, data))
    copy = _largest(source, folder)
    if not copy.count:
        raise MissingData(
            f"{source.name}: no prepared copy of these files in {folder.parent}; run: "
            f"{command(source.name, data)}"
        )
    return copy


def state(
    name: str, data: Path | None, prepared: Path | None
) -> Literal["ready", "partial", "downloaded", "absent"]:
    """Whether a dataset is prepared, only downloaded, or not there; no signal is read and nothing
    is written.
    """
    try:
        root_of(resolve(name), get(name).CARD, data)
    except MissingData:
        return "absent"
    try:
        return "ready" if held(name, data, prepared).whole else "partial"
    except (MissingData, BadRecord):
        return "downloaded"


def _largest(source: Source, folder: Path) -> Prepared:
    """The whole copy, or its largest part, which holds all of the smaller ones, or an empty one."""
    there = {0: folder} | {
        int(count): path
        for path in folder.parent.glob(f"{folder.name}-*")
        if (count := path.name.rpartition("-")[2]).isdigit()  # not one that is being written
    }
    there = {count: path for count, path in there.items() if (path / "meta.json").is_file()}
    if not there:
        return empty(source, folder)
    return opened(source, there.get(0) or there[max(there)])


def _lacking(copy: Prepared, limit: int | None) -> set[str]:
    """Records that a run with `limit` takes and that nobody has read yet."""
    return {*taken(copy, limit)} - {*copy.index["record"]}


def _make(
    source: Source,
    folder: Path,
    copy: Prepared,
    lacking: set[str],
    progress: Progress | None,
) -> None:
    """Writes a copy of `copy` and what is `lacking` in it beside `folder` and renames it; called
    inside the lock.
    """
    for left in folder.parent.glob("*.tmp"):  # of attempts that died: the living hold the lock
        shutil.rmtree(left, ignore_errors=True)
    count = copy.count + len(lacking)
    if count < len(source.index):
        folder = folder.with_name(f"{folder.name}-{count}")
    if folder.exists():
        shutil.rmtree(folder)
    work = folder.with_name(folder.name + ".tmp")
    with writing(work):
        work.mkdir()
    try:
        _fill(source, work, copy, lacking, progress)
        move(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(
    source: Source,
    work: Path,
    copy: Prepared,
    lacking: set[str],
    progress: Progress | None,
) -> None:
    """Everything a prepared copy holds, durably in `work`; the signals pass through one at a
    time.
    """
    kept = _Kept(lost=list(copy.left_out[LEFT_OUT].itertuples(index=False, name=None)))
    put(work / "signal.i16", lambda out: _signals(source, copy, lacking, kept, out, progress))
    if not kept.rows:
        reasons = "; ".join(f"{record}: {why}" for record, why, _ in kept.lost[:3])
        raise MissingData(f"{source.name}: no record can be used; {reasons}")
    if len(kept.units) != 1:
        raise BadRecord(
            f"{source.name}: signals in {' and '.join(sorted(kept.units)) or 'no unit'}; all "
            f"records need the same one"
        )
    index = source.index.merge(kept.table(), on="record", how="inner", validate="one_to_one")
    meta = {
        "dataset": source.name,
        "digest": digest(index),
        "unit": kept.units.pop(),
        "layout": LAYOUT,
        "ecgbench": __version__,
    }
    put(work / "gain.npy", as_npy(np.array(kept.gains, "<f4")))
    put(work / "index.parquet", as_parquet(index))
    put(
        work / "left_out.parquet",
        as_parquet(pd.DataFrame(sorted(kept.lost), columns=LEFT_OUT, dtype="str")),
    )
    put(work / "meta.json", as_json(meta))


def _signals(
    source: Source,
    copy: Prepared,
    lacking: set[str],
    kept: "_Kept",
    out: BinaryIO,
    progress: Progress | None,
) -> None:
    """Reads every record that is lacking once, and writes what can be trusted of it; what `copy`
    holds is copied.
    """
    total, done = copy.count + len(lacking), 0
    for row in rows(source.index[source.index["record"].isin({*copy.rows, *lacking})]):
        record = row["record"]
        if record in copy.rows:
            out.write(kept.add_copied(record, copy))
            continue
        try:
            if row.get("damaged"):
                raise BadRecord(str(row["damaged"]))
            recording = read(source.name, source.root, row)
            why = _excluded(recording, source.module.CARD)
            steps = b"" if why else kept.add(record, recording)
        except (BadRecord, OSError) as error:
            reason = str(error).removeprefix(f"{record}: ")
            if isinstance(error, OSError):
                reason = f"cannot be read ({error.strerror})"
            kept.lost.append((record, reason, "damaged"))
            _stop_if_too_many(source, kept.damaged, total)
        else:
            if why:
                kept.lost.append((record, why, "excluded"))
            # not above: what cannot be written is no fault of the record
            out.write(steps)
        done += 1
        if progress is not None:
            progress(done, len(lacking))


@dataclass
class _Kept:
    """Facts of the records that were kept, and why others were lost; the signals themselves are on
    disk already.
    """

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """Of FACTS."""
    gains: list[np.ndarray] = field(default_factory=list)
    units: set[str] = field(default_factory=set)
    lost: list[tuple[str, str, str]] = field(default_factory=list)
    """record, reason, kind."""

    @property
    def damaged(self) -> list[tuple[str, str]]:
        """record, reason."""
        return [(record, reason) for record, reason, kind in self.lost if kind == "damaged"]

    def add(self, record: str, recording: Recording) -> bytes:
        """Notes one recording and returns what is to be stored of it."""
        steps, gain = encode(recording)
        flat, proof = "+".join(recording.flat()), sha256(steps, gain, recording.fs)
        available = LeadSubset(recording.leads).bits
        self.rows.append((record, steps.shape[1], recording.fs, available, flat, proof))
        self.gains.append(gain)
        self.units.add(recording.unit)
        return steps.tobytes()

    def add_copied(self, record: str, copy: Prepared) -> bytes:
        """The same of a recording that another copy holds; MissingData where that is damaged."""
        steps, gain = copy.stored(record)
        facts = copy.index.iloc[copy.row(record)]
        if sha256(steps, gain, facts["fs"]) != facts["sha256"]:
            raise damaged(copy.name, copy.folder)
        self.rows.append((record, *facts[FACTS[1:]]))
        self.gains.append(gain)
        self.units.add(copy.unit)
        return steps.tobytes()

    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows, columns=FACTS)


def _excluded(recording: Recording, card: DatasetCard) -> str:
    """Why a rule of the card leaves a sound recording out; "" where none does."""
    # half a sample: a duration is a quotient
    if recording.seconds < card.min_seconds - 0.5 / recording.fs:
        return f"shorter than {card.min_seconds:g} s"
    return ""


def _stop_if_too_many(source: Source, lost: list[tuple[str, str]], total: int) -> None:
    share = source.module.CARD.losses
    if len(lost) <= max(LOST_COUNT, share * total):
        return
    reasons = "; ".join(f"{record}: {reason}" for record, reason in lost[:3])
    raise MissingData(
        f"{source.name}: {len(lost)} of {total} records in {source.root} cannot be used, more "
        f"than {LOST_COUNT} and more than "
        f"{share:.1%}, so nothing was prepared; {reasons}; ... Correct the files, then: "
        f"{command(source.name, None)}"
    )


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Holds the lock of a dataset's prepared copies."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(home))
        except WriteError as error:
            reason = str(error).partition(";")[0]
            raise BadSetting(
                f"{reason}; choose another place with --prepared DIR or ECGBENCH_PREPARED=DIR"
            ) from None
        yield
