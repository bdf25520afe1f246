"""The prepared store: a dataset's recordings once checked, one flat file of integers.

    <prepared>/<dataset>/<fingerprint>/        every record
    <prepared>/<dataset>/<fingerprint>-200/    a part: 200 records, where no run took more
        signal.i16           (lead, time) of each record, one after the other, little endian
        gain.npy             (record, 12) float32, steps per unit: signal = integer / gain
        index.parquet        the dataset's index + samples, fs (Hz), flat, sha256
        left_out.parquet     record, reason, kind: "damaged", or "excluded" by a rule of the card
        meta.json            digest, unit, sha256 of the tables, versions

The *fingerprint* shows whether the files on disk are those that were prepared (sizes and times,
nothing is read). The *digest* covers what was found in them and enters the key of every result: it
does not depend on times, paths or machines.
"""

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards import DatasetCard, Task
from ecgbench.ecg.leads import LEADS, LeadSubset, bits_to_mask, rows_of
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadSetting, MissingData
from ecgbench.files import from_npy
from ecgbench.prepared.labels import counted
from ecgbench.prepared.source import Source, canonical, command

BYTES = 2
"""Of a stored number."""
LEFT_OUT = ["record", "reason", "kind"]
STEPS = 1000.0
"""Steps per mV in which most sources are stored; used whenever it restores the signal exactly."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A dataset as prepared on disk. Reads on demand; holds no open file."""

    name: str
    """Name of the dataset in its room."""
    card: DatasetCard
    folder: Path
    digest: str
    """sha256 of the content: records, signals, patients, splits, labels. Of a part: of its own
    records.
    """
    unit: str
    """Unit of the signals: "mV" or "standardised"."""
    source: Source
    """What it was made of."""
    samples: np.ndarray
    """(record,) int64: samples per lead."""
    available: np.ndarray
    """(record,) int64: bit mask of the leads that a record has."""
    tables: dict[str, str] = field(default_factory=dict)
    """sha256 of the files of tables as written."""

    division: str = ""
    """In words: how its split differs from that of its card (`--folds`)."""

    @cached_property
    def index(self) -> pd.DataFrame:
        """The dataset's index (record, patient, split, label columns ...) plus `samples` (per
        lead), `fs` (Hz), `available` (bit mask of the leads that it has), `flat` (leads without
        variation: "V2+V4" or ""), `sha256` (of what is stored), `found` and `fixed` (kinds of
        findings that stay, and of repairs: "identities+rate" or ""), without the records that are
        left out. Read when first asked for.
        """
        return self._table("index.parquet") if self.digest else self.source.index.iloc[:0]

    def divided(self, published: pd.DataFrame, index: pd.DataFrame, said: str) -> "Prepared":
        """The same records with another split, in both tables; `said`: in words."""
        other = replace(
            self,
            source=self.source.divided(published),
            digest=digest(index) if len(index) else self.digest,
            division=said,
        )
        vars(other)["index"] = index
        return other

    @property
    def fix(self) -> bool:
        """Whether faults were put right that `checked` is sure of."""
        return self.source.fix

    @cached_property
    def findings(self) -> pd.DataFrame:
        """record, kind, sentence of what does not fit and of what was repaired."""
        return self._table("findings.parquet")

    @cached_property
    def told(self) -> dict[str, list[tuple[str, str]]]:
        """Record -> (kind, sentence) of its findings, of those that have some."""
        told: dict[str, list[tuple[str, str]]] = {}
        for record, *own in self.findings.itertuples(index=False, name=None):
            told.setdefault(record, []).append((own[0], own[1]))
        return told

    @cached_property
    def left_out(self) -> pd.DataFrame:
        """record, reason, kind: "damaged" or "excluded"."""
        return self._table("left_out.parquet") if self.digest else pd.DataFrame(columns=LEFT_OUT)

    def _table(self, file: str) -> pd.DataFrame:
        with _reading(self.name, self.folder):
            content = (self.folder / file).read_bytes()
            # Parquet notices few of the bits that may have changed in it
            if hashlib.sha256(content).hexdigest() != self.tables.get(file):
                raise damaged(self.name, self.folder)
            return pd.read_parquet(io.BytesIO(content))

    @property
    def published(self) -> pd.DataFrame:
        """The dataset's index as published, of every record, whether it is prepared or not."""
        return self.source.index

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Those of the card; labels that are counted are those of this release."""
        return tuple(counted(task, self.published) for task in self.card.tasks)

    def task(self, name: str) -> Task:
        """The task called `name`."""
        return next(t for t in self.tasks if t.name == name)

    @property
    def quarantined(self) -> pd.DataFrame:
        """record, reason: those that cannot be trusted."""
        return self._left_out("damaged")

    @property
    def excluded(self) -> pd.DataFrame:
        """record, reason: sound ones that a rule of the card leaves out."""
        return self._left_out("excluded")

    def _left_out(self, kind: str) -> pd.DataFrame:
        own = self.left_out[self.left_out["kind"] == kind]
        return own[["record", "reason"]].reset_index(drop=True)

    @property
    def count(self) -> int:
        """Records that were read, those that are left out too."""
        return len(self.samples) + len(self.left_out)

    @property
    def whole(self) -> bool:
        """Whether every record was read; a part holds those that runs with `--limit` took."""
        return self.count == self.source.count

    @cached_property
    def rows(self) -> dict[str, int]:
        """Record -> row of the index."""
        return {r: i for i, r in enumerate(self.index["record"])}

    @cached_property
    def _ends(self) -> np.ndarray:
        """(record,) int64: numbers that are stored of all leads of the records up to each."""
        return np.cumsum(numbers(self.samples, self.available))

    @cached_property
    def _gains(self) -> np.ndarray:
        """(record, 12) float32."""
        try:
            gains = from_npy(self.folder / "gain.npy")
        except (OSError, ValueError) as error:
            raise damaged(self.name, self.folder) from error
        if gains.shape != (len(self.index), len(LEADS)):
            raise damaged(self.name, self.folder)
        return gains

    def row(self, record: str) -> int:
        """Row of a record in the index; BadSetting when it is not there."""
        if record not in self.rows:
            raise BadSetting(
                f"{self.name}: no prepared record {record!r} among {len(self.rows)}; see "
                f"`ecgbench data verify {self.name}`"
            )
        return self.rows[record]

    def stored(self, record: str) -> tuple[np.ndarray, np.ndarray]:
        """(lead, time) int16 of the leads that it has, and (12,) float32 gain, as they lie on
        disk.
        """
        row = self.row(record)
        leads = int(self.available[row]).bit_count()
        count = leads * int(self.samples[row])
        offset = BYTES * (int(self._ends[row]) - count)
        steps = np.fromfile(self.folder / "signal.i16", dtype="<i2", count=count, offset=offset)
        if len(steps) != count:
            raise damaged(self.name, self.folder)
        return steps.reshape(leads, -1), self._gains[row]

    def sound(self, record: str) -> tuple[np.ndarray, np.ndarray]:
        """The same; MissingData where it has not the sha256 of what was written."""
        steps, gain = self.stored(record)
        fs, proof, _ = (column[self.row(record)] for column in self._facts)
        if sha256(steps, gain, fs) != proof:
            raise damaged(self.name, self.folder)
        return steps, gain

    def recording(self, record: str) -> Recording:
        """One record in `unit`, the leads that it has in clinical order, exactly as the dataset's
        reader gave it. MissingData where what is stored has not the sha256 of what was written.
        """
        steps, gain = self.sound(record)
        row = self.row(record)
        fs, _, patient = (column[row] for column in self._facts)
        leads = LeadSubset.from_bits(int(self.available[row]))
        return Recording(
            signal=steps / gain[leads.mask, None],
            unit=self.unit,
            leads=leads.leads,
            fs=float(fs),
            record=record,
            patient=str(patient),
        )

    @cached_property
    def _facts(self) -> tuple[Any, Any, Any]:
        """(record,) rate, sha256, patient."""
        fs, proof, patient = (self.index[c].array for c in ("fs", "sha256", "patient"))
        return fs, proof, patient

    def windows(self, rows: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
        """Windows of records rows[i] from sample starts[i] on, (window, 12, length) float32 in
        `unit`, NaN in the rows of leads that a record does not have; only their own samples are
        read, and not compared with a hash.

        BadSetting: a window beyond its record; MissingData: the copy is damaged.
        """
        if ((starts < 0) | (starts + length > self.samples[rows])).any():
            raise BadSetting(f"{self.name}: a window of {length} samples lies outside its record")
        there = bits_to_mask(self.available[rows])
        size = BYTES * length
        before = self.samples[rows][:, None] * (np.cumsum(there, axis=1) - 1)
        first = self._ends[rows] - numbers(self.samples[rows], self.available[rows]) + starts
        offsets = (BYTES * (first[:, None] + before))[there].tolist()
        steps = np.zeros((len(rows), len(LEADS), length), "<i2")
        passing = steps.data.cast("B")
        with _reading(self.name, self.folder):
            # no memory map: a file that is cut short is then an error and not a killed process
            file = os.open(self.folder / "signal.i16", os.O_RDONLY)
            try:
                for i, at in zip(np.flatnonzero(there).tolist(), offsets):
                    if os.preadv(file, [passing[i * size : (i + 1) * size]], at) != size:
                        raise damaged(self.name, self.folder)
            finally:
                os.close(file)
        signal = steps.astype(np.float32)
        signal /= np.where(there, self._gains[rows], np.float32(np.nan))[:, :, None]
        return signal


def opened(source: Source, folder: Path) -> Prepared:
    """The copy in `folder`; MissingData when it is damaged. Of its tables only what tells the size
    of the signals is read.
    """
    with _reading(source.name, folder):
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        sizes = pd.read_parquet(folder / "index.parquet", columns=["samples", "available"])
        written = (folder / "signal.i16").stat().st_size
    samples, available = (sizes[c].to_numpy(np.int64) for c in ("samples", "available"))
    if written != BYTES * int(numbers(samples, available).sum()):
        raise damaged(source.name, folder)
    return _prepared(source, folder, meta, samples, available)


def empty(source: Source, folder: Path) -> Prepared:
    """Where nothing is prepared yet."""
    nothing = np.zeros(0, np.int64)
    return _prepared(source, folder, {"digest": "", "unit": "", "tables": {}}, nothing, nothing)


def _prepared(
    source: Source, folder: Path, meta: dict[str, Any], samples: np.ndarray, available: np.ndarray
) -> Prepared:
    return Prepared(
        name=source.name,
        card=source.module.CARD,
        folder=folder,
        digest=meta["digest"],
        unit=meta["unit"],
        tables=meta["tables"],
        source=source,
        samples=samples,
        available=available,
    )


def numbers(samples: np.ndarray, available: np.ndarray) -> np.ndarray:
    """(record,) int64: samples of all leads that are stored of records of so many samples per lead
    and with these leads (bit masks).
    """
    return np.asarray(samples * np.bitwise_count(available).astype(np.int64))


@contextmanager
def _reading(name: str, folder: Path) -> Iterator[None]:
    """What goes wrong inside is an error of the copy in `folder`."""
    try:
        yield
    except (FileNotFoundError, ValueError) as error:
        raise damaged(name, folder) from error
    except OSError as error:
        raise MissingData(
            f"{name}: the prepared copy in {folder} cannot be read ({error.strerror}); "
            f"repair the disk, or delete that folder, then: {command(name, None)}"
        ) from error


def damaged(name: str, folder: Path) -> MissingData:
    """The error of a prepared copy that is not as it was written."""
    return MissingData(
        f"{name}: the prepared copy in {folder} is damaged; delete that folder, then: "
        f"{command(name, None)}"
    )


def demand_sound(copy: Prepared, progress: Callable[[int, int], None] | None = None) -> None:
    """MissingData unless every record of a copy has the sha256 of what was written, and the index
    its digest. `progress`: called with (records looked at, records).
    """
    for done, record in enumerate(copy.rows, 1):
        copy.sound(record)
        if progress is not None:
            progress(done, len(copy.samples))
    if digest(copy.index) != copy.digest:
        raise damaged(copy.name, copy.folder)


def encode(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    """(lead, time) int16 of a recording in clinical order, and (12,) float32 gain, 0 for a lead
    that it does not have, such that integer / gain restores the signal.

    Exactly, where it is a whole number of thousandths of its unit that fits 16 bits (PTB-XL: steps
    of 1 uV). A lead for which this does not hold is spread over the 16 bits, which is within
    1/65534 of its largest value.
    """
    exact = recording.signal.astype(np.float64)
    steps = np.rint(exact * STEPS)
    fits = (np.abs(steps) < 2**15).all(axis=1) & (
        (steps / STEPS).astype(np.float32) == recording.signal
    ).all(axis=1)
    gain = np.full(len(exact), STEPS, np.float32)
    gain[~fits] = (2**15 - 1) / np.abs(exact[~fits]).max(axis=1)
    steps[~fits] = np.clip(np.rint(exact[~fits] * gain[~fits, None]), 1 - 2**15, 2**15 - 1)
    every = np.zeros(len(LEADS), np.float32)
    every[rows_of(recording.leads)] = gain
    return steps.astype("<i2"), every


def sha256(steps: np.ndarray, gain: np.ndarray, fs: float) -> str:
    """Of one record as stored: rate, gains and samples."""
    return hashlib.sha256(
        canonical(float(fs)) + gain.astype("<f4").tobytes() + steps.astype("<i2").tobytes()
    ).hexdigest()


def digest(index: pd.DataFrame) -> str:
    """sha256 over (record, hash of its signal, patient, split, labels) of all records in sorted
    order.
    """
    labels = [c for c in index.columns if ":" in c]
    ordered = index.sort_values("record")
    total = hashlib.sha256(canonical(labels))
    facts = ordered[["record", "sha256", "patient", "split"]].itertuples(index=False)
    for row, hot in zip(facts, ordered[labels].to_numpy(np.int8)):
        total.update(canonical([str(v) for v in row]) + hot.tobytes())
    return total.hexdigest()
