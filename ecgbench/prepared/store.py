"""The prepared store: a dataset's recordings once checked, one flat file of integers.

    <prepared>/<dataset>/<fingerprint>/        every record
    <prepared>/<dataset>/<fingerprint>-200/    a part: 200 records, where no run took more
        signal.i16           (lead, time) of each record, one after the other, little endian
        gain.npy             (record, 12) float32, steps per unit: signal = integer / gain
        index.parquet        the dataset's index + samples, fs (Hz), flat, sha256
        left_out.parquet     record, reason, kind: "damaged", or "excluded" by a rule of the card
        meta.json            digest, unit, versions

The *fingerprint* shows whether the files on disk are those that were prepared (sizes and times,
nothing is read). The *digest* covers what was found in them and enters the key of every result: it
does not depend on times, paths or machines.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.cards import DatasetCard, Task
from ecgbench.ecg.leads import LEADS, LeadSubset, rows_of
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadSetting, MissingData
from ecgbench.files import from_npy
from ecgbench.prepared.labels import counted
from ecgbench.prepared.source import Source, canonical, command

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
    index: pd.DataFrame
    """The dataset's index (record, patient, split, label columns ...) plus `samples` (per lead),
    `fs` (Hz), `available` (bit mask of the leads that it has), `flat` (leads without variation:
    "V2+V4" or "") and `sha256` (of what is stored), without the records that are left out.
    """
    left_out: pd.DataFrame
    """record, reason, kind: "damaged" or "excluded"."""
    published: pd.DataFrame
    """The dataset's index as published, of every record, whether it is prepared or not."""

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
        return len(self.index) + len(self.left_out)

    @property
    def whole(self) -> bool:
        """Whether every record was read; a part holds those that runs with `--limit` took."""
        return self.count == len(self.published)

    @cached_property
    def rows(self) -> dict[str, int]:
        """Record -> row of the index."""
        return {r: i for i, r in enumerate(self.index["record"])}

    @cached_property
    def samples(self) -> np.ndarray:
        """(record,) int64: samples per lead."""
        return self.index["samples"].to_numpy(np.int64)

    @cached_property
    def available(self) -> np.ndarray:
        """(record,) int64: bit mask of the leads that a record has."""
        return self.index["available"].to_numpy(np.int64)

    @cached_property
    def _starts(self) -> np.ndarray:
        """(record,) int64: samples of all leads of all records before."""
        return np.concatenate([[0], np.cumsum(numbers(self.index))[:-1]])

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
        count, offset = leads * int(self.samples[row]), 2 * int(self._starts[row])
        steps = np.fromfile(self.folder / "signal.i16", dtype="<i2", count=count, offset=offset)
        if len(steps) != count:
            raise damaged(self.name, self.folder)
        return steps.reshape(leads, -1), self._gains[row]

    def recording(self, record: str) -> Recording:
        """One record in `unit`, the leads that it has in clinical order, exactly as the dataset's
        reader gave it.
        """
        steps, gain = self.stored(record)
        row = self.index.iloc[self.row(record)]
        leads = LeadSubset.from_bits(int(row["available"]))
        return Recording(
            signal=steps / gain[leads.mask, None],
            unit=self.unit,
            leads=leads.leads,
            fs=float(row["fs"]),
            record=record,
            patient=str(row["patient"]),
        )


def opened(source: Source, folder: Path) -> Prepared:
    """The copy in `folder`; MissingData when it is damaged."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        index = pd.read_parquet(folder / "index.parquet")
        left_out = pd.read_parquet(folder / "left_out.parquet")
        size = (folder / "signal.i16").stat().st_size
    except (FileNotFoundError, ValueError) as error:
        raise damaged(source.name, folder) from error
    except OSError as error:
        raise MissingData(
            f"{source.name}: the prepared copy in {folder} cannot be read ({error.strerror}); "
            f"repair the disk, or delete that folder, then: {command(source.name, None)}"
        ) from error
    if "available" not in index or size != 2 * int(numbers(index).sum()):
        raise damaged(source.name, folder)
    return Prepared(
        name=source.name,
        card=source.module.CARD,
        folder=folder,
        digest=meta["digest"],
        unit=meta["unit"],
        index=index,
        left_out=left_out,
        published=source.index,
    )


def empty(source: Source, folder: Path) -> Prepared:
    """Where nothing is prepared yet."""
    return Prepared(
        name=source.name,
        card=source.module.CARD,
        folder=folder,
        digest="",
        unit="",
        index=source.index.iloc[:0],
        left_out=pd.DataFrame(columns=LEFT_OUT),
        published=source.index,
    )


def damaged(name: str, folder: Path) -> MissingData:
    """The error of a prepared copy that is not as it was written."""
    return MissingData(
        f"{name}: the prepared copy in {folder} is damaged; delete that folder, then: "
        f"{command(name, None)}"
    )


def numbers(index: pd.DataFrame) -> np.ndarray:
    """(record,) int64: samples of all leads that each record of a prepared index has."""
    leads = np.bitwise_count(index["available"].to_numpy(np.int64)).astype(np.int64)
    return np.asarray(leads * index["samples"].to_numpy(np.int64))


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
