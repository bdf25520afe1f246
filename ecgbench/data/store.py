"""The prepared store: a dataset's recordings once checked, one flat file of integers.

    <prepared>/<dataset>/<fingerprint>/        every record
    <prepared>/<dataset>/<fingerprint>-200/    a part: 200 records, where no run took more
        signal.i16           (lead, time) of each record, one after the other, little endian
        gain.npy             (record, 12) float32, steps per unit: signal = integer / gain
        index.parquet        the dataset's index + samples, fs (Hz), flat, sha256
        left_out.parquet     record, reason, kind: "damaged", or "excluded" by a rule of the card
        meta.json            digest, unit, sha256 of the tables and of gain.npy, versions; its own

What is read is compared with its hash, always: a table as a whole, a recording by itself. A
recording that is not as it was written is read again from its published file; a copy of
which anything else is not, is refused, and `prepare` makes another one.

The *fingerprint* shows whether the files on disk are those that were prepared (sizes and times,
nothing is read). The *digest* covers what was found in them and enters the key of every result: it
does not depend on times, paths or machines.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.aside import say_once
from ecgbench.core.cards import DatasetCard, Task
from ecgbench.core.files import array_of, flush
from ecgbench.core.text import quoted, shortened
from ecgbench.data import meta
from ecgbench.data.again import read_again
from ecgbench.data.encoded import digest, sha256
from ecgbench.data.labels import counted
from ecgbench.data.meta import GAIN, INDEX, SIGNAL
from ecgbench.data.source import Source, command, rows
from ecgbench.datasets import ROOM
from ecgbench.ecg.leads import LEADS, LeadSubset, bits_to_mask
from ecgbench.ecg.recording import UNITS, Recording
from ecgbench.errors import BadRecord, BadSetting, DamagedCopy, MissingData, WriteError

BYTES = 2
"""Of a stored number."""
LEFT_OUT = ["record", "reason", "kind"]


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
    """sha256 of the files of tables, and of gain.npy, as written."""

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
        if not self.digest:
            return self.source.index.iloc[:0]
        index = self._table(INDEX)
        for name, opened_with in (("samples", self.samples), ("available", self.available)):
            if not np.array_equal(index[name].to_numpy(), opened_with):
                raise damaged(self.name, self.folder)
        return index

    def columns(self, *names: str) -> pd.DataFrame:
        """Some columns of the index; where that was not read before, only they stay in memory."""
        if "index" in vars(self) or not self.digest:
            return self.index[list(names)]
        return self._table(INDEX, names)

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

    def _table(self, file: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        # Parquet notices few of the bits that may have changed in it
        with _reading(self.name, self.folder):
            content = io.BytesIO(self.proved(file))
            return pd.read_parquet(content, columns=None if columns is None else list(columns))

    def proved(self, file: str) -> bytes:
        """What a file holds; DamagedCopy where that is not what was written."""
        with _reading(self.name, self.folder):
            content = (self.folder / file).read_bytes()
        if hashlib.sha256(content).hexdigest() != self.tables.get(file):
            raise damaged(self.name, self.folder)
        return content

    def demand_tables(self) -> None:
        """DamagedCopy where something of it but a recording is not as it was written; reads the
        tables and the gains, and no signal.
        """
        if self.digest:
            _ = self.index, self.left_out, self.findings, self._gains

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
        with _reading(self.name, self.folder):
            gains = array_of(self.proved(GAIN))
        if gains.shape != (len(self.index), len(LEADS)):
            raise damaged(self.name, self.folder)
        return gains

    @cached_property
    def _looked_at(self) -> np.ndarray:
        """(record,) bool: whether this process has compared a record with its hash for its
        windows.
        """
        return np.zeros(len(self.samples), bool)

    def row(self, record: str) -> int:
        """Row of a record in the index; BadSetting when it is not there."""
        if record not in self.rows:
            raise BadSetting(
                f"{self.name}: no prepared record {record!r} among {len(self.rows)}; see "
                f"`ecgbench data verify {quoted(ROOM.argument(self.name))}`"
            )
        return self.rows[record]

    def place(self, record: str) -> tuple[int, int]:
        """First byte of a record in signal.i16, and how many are its own."""
        row = self.row(record)
        count = BYTES * int(numbers(self.samples[row], self.available[row]))
        return BYTES * int(self._ends[row]) - count, count

    def stored(self, record: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(lead, time) int16 of the leads that it has, and (12,) float32 gain, as they lie on disk;
        None where they have not the sha256 of what was written.
        """
        row, (first, count) = self.row(record), self.place(record)
        with _reading(self.name, self.folder), (self.folder / SIGNAL).open("rb") as file:
            content = os.pread(file.fileno(), count, first)
        if len(content) != count:
            return None
        leads = int(self.available[row]).bit_count()
        steps, gain = np.frombuffer(content, "<i2").reshape(leads, -1), self._gains[row]
        fs, proof, _ = (column[row] for column in self._facts)
        return (steps, gain) if sha256(steps, gain, fs) == proof else None

    def sound(self, record: str) -> tuple[np.ndarray, np.ndarray]:
        """The same; one that is not as it was written is read again from its published file and
        put in its place. DamagedCopy where that gives something else, or nothing.
        """
        return self.stored(record) or self._mended(record)

    def _mended(self, record: str) -> tuple[np.ndarray, np.ndarray]:
        row = next(rows(self.index.iloc[[self.row(record)]]))
        try:
            steps, gain, fs = read_again(self.source, row)
        except (BadRecord, OSError) as error:
            why = shortened(str(error).removeprefix(f"{record}: "), 200)
            raise self._lost(record, why) from error
        if sha256(steps, gain, fs) != row["sha256"]:
            raise self._lost(record, "it has changed")
        if (gain != self._gains[self.row(record)]).any():
            raise damaged(self.name, self.folder)
        with suppress(OSError), (self.folder / SIGNAL).open("r+b") as out:
            out.seek(self.place(record)[0])
            out.write(steps.tobytes())
            flush(out)
        say_once(
            self.folder / SIGNAL,
            f"record {record} was not as it was written; it is read again from its published file, "
            f"like every other such record",
        )
        return steps, gain

    def _lost(self, record: str, why: str) -> DamagedCopy:
        return damaged(
            self.name,
            self.folder,
            f"holds record {record} not as it was written, and its published file does not give "
            f"it again ({why})",
        )

    def recording(self, record: str) -> Recording:
        """One record in `unit`, the leads that it has in clinical order, exactly as the dataset's
        reader gave it. DamagedCopy as of `sound`.
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
        `unit`, NaN in the rows of leads that a record does not have. Only their own samples are
        read, but of a record that was not asked for before: it is compared with its hash.

        BadSetting: a window beyond its record; DamagedCopy as of `sound`.
        """
        if ((starts < 0) | (starts + length > self.samples[rows])).any():
            raise BadSetting(f"{self.name}: a window of {length} samples lies outside its record")
        for row in np.unique(rows[~self._looked_at[rows]]):
            self.sound(str(self.index["record"].array[row]))
            self._looked_at[row] = True
        there = bits_to_mask(self.available[rows])
        size = BYTES * length
        before = self.samples[rows][:, None] * (np.cumsum(there, axis=1) - 1)
        first = self._ends[rows] - numbers(self.samples[rows], self.available[rows]) + starts
        offsets = (BYTES * (first[:, None] + before))[there].tolist()
        steps = np.zeros((len(rows), len(LEADS), length), "<i2")
        passing = steps.data.cast("B")
        with _reading(self.name, self.folder):
            # no memory map: a file that is cut short is then an error and not a killed process
            file = os.open(self.folder / SIGNAL, os.O_RDONLY)
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
    """The copy in `folder`; DamagedCopy when it is damaged. Of its tables only what tells the size
    of the signals is read, but of a copy of an earlier version, which gets its missing hashes.
    """
    with _reading(source.name, folder):
        about, hashed = meta.read(folder)
        sizes = pd.read_parquet(folder / INDEX, columns=["samples", "available"])
        written = (folder / SIGNAL).stat().st_size
        samples, available = (sizes[c].to_numpy(np.int64) for c in ("samples", "available"))
        copy = _prepared(source, folder, about, samples, available)
    if written != BYTES * int(numbers(samples, available).sum()):
        raise damaged(source.name, folder)
    return copy if hashed else _upgraded(copy, about)


def _upgraded(copy: Prepared, about: dict[str, Any]) -> Prepared:
    """A copy of an earlier version, whose meta.json had no hash and named none of gain.npy. Nothing
    is believed: the digest is computed again from the table, which stands for every recording's
    own hash, and that covers its gains.
    """
    with _reading(copy.name, copy.folder):
        gains = hashlib.sha256((copy.folder / GAIN).read_bytes()).hexdigest()
    copy = replace(copy, tables={**copy.tables, GAIN: gains})
    copy.demand_tables()
    if digest(copy.index) != copy.digest or copy.unit not in UNITS:
        raise damaged(copy.name, copy.folder)
    with suppress(WriteError):  # it is done again
        meta.write(copy.folder, {**about, "tables": copy.tables})
    return copy


def empty(source: Source, folder: Path) -> Prepared:
    """Where nothing is prepared yet."""
    nothing = np.zeros(0, np.int64)
    return _prepared(source, folder, {"digest": "", "unit": "", "tables": {}}, nothing, nothing)


def _prepared(
    source: Source, folder: Path, about: dict[str, Any], samples: np.ndarray, available: np.ndarray
) -> Prepared:
    return Prepared(
        name=source.name,
        card=source.module.CARD,
        folder=folder,
        digest=about["digest"],
        unit=about["unit"],
        tables=about["tables"],
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
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise damaged(name, folder) from error
    except OSError as error:
        raise MissingData(
            f"{name}: the prepared copy in {folder} cannot be read ({error.strerror}); "
            f"repair the disk, or delete that folder, then: {command(name, None)}"
        ) from error


def damaged(name: str, folder: Path, why: str = "is damaged") -> DamagedCopy:
    """The error of a prepared copy that is not as it was written."""
    error = DamagedCopy(
        f"{name}: the prepared copy in {folder} {why}; to set it aside and make another one: "
        f"{command(name, None)}"
    )
    error.folder = folder
    return error


def demand_sound(copy: Prepared, progress: Callable[[int, int], None] | None = None) -> None:
    """DamagedCopy unless every record of a copy has the sha256 of what was written, or could be
    read again, and the index its digest. `progress`: called with (records looked at, records).
    """
    for done, record in enumerate(copy.rows, 1):
        copy.sound(record)
        if progress is not None:
            progress(done, len(copy.samples))
    if digest(copy.index) != copy.digest:
        raise damaged(copy.name, copy.folder)
