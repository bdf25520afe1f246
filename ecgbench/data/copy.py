"""The prepared copy: a dataset's recordings once checked, 16 bits a sample.

    <prepared>/<dataset>/<fingerprint>/part-*/    `core.parts`: of each record that was read the
                                                  recording, or why it is left out
                                       copy.json  for people: LAYOUT, and whether with --fix
                                       views/     filtered and resampled recordings (`views`)

One copy serves every `--limit`: what a run takes and nobody has read yet is appended. What is read
is compared with its hash, always; a recording that is not as it was written is read again from its
published file.

The *fingerprint* is of the card and the tables. The *digest* covers what was found in the files and
enters the key of every result: it does not depend on times, paths or machines.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.core.cards import DatasetCard, Task
from ecgbench.core.files import warn_once
from ecgbench.core.parts import DATA, PLACE, Parts
from ecgbench.core.text import quoted, shortened
from ecgbench.data.reading import FACTS, decoded, digest, head_of, look
from ecgbench.data.source import Source, command, rows
from ecgbench.datasets import ROOM
from ecgbench.ecg.leads import LEADS, LeadSubset, bits_to_mask
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, DamagedCopy, MissingData

BYTES = 2
"""Of a stored number."""
COLUMNS = [*FACTS, "unit", "sentences", "reason", "kind", "state"]
"""Of what is known of a record (`reading.Row`); state: of its files when it was read."""
ABOUT = "copy.json"
"""Whether this version reads the copy, and whether it was prepared with --fix."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """What is prepared of a dataset. Reads on demand; holds no open file."""

    source: Source
    parts: Parts
    division: str = ""
    """In words: how its split differs from that of its card (`--folds`)."""

    @property
    def name(self) -> str:
        """Name of the dataset in its room."""
        return self.source.name

    @property
    def card(self) -> DatasetCard:
        """Of the dataset."""
        card: DatasetCard = self.source.module.CARD
        return card

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.parts.folder

    @property
    def fix(self) -> bool:
        """Whether faults were put right that `checked` is sure of."""
        return self.source.fix

    @property
    def published(self) -> pd.DataFrame:
        """The dataset's index as published, of every record, whether it is prepared or not."""
        return self.source.index

    @cached_property
    def known(self) -> pd.DataFrame:
        """Rows of `parts` of the published records, in no order; index: record."""
        known = self.parts.rows.reindex(columns=COLUMNS)
        return known[known.index.isin(self.published["record"])]

    @cached_property
    def index(self) -> pd.DataFrame:
        """The dataset's index (record, patient, split, label columns ...) plus FACTS, of the
        records that are prepared and not left out.
        """
        kept = self.known.loc[self.known["reason"] == "", list(FACTS)]
        return self.published.merge(
            kept, left_on="record", right_index=True, how="inner", validate="one_to_one"
        ).reset_index(drop=True)

    @cached_property
    def digest(self) -> str:
        """sha256 of the content: records, signals, patients, splits, labels; "" of nothing."""
        return digest(self.index) if len(self.index) else ""

    @cached_property
    def unit(self) -> str:
        """Unit of the signals: "mV" or "standardised"; BadRecord where not all have the same."""
        units = sorted({*self.known["unit"]} - {""})
        if len(units) > 1:
            raise BadRecord(
                f"{self.name}: signals in {' and '.join(units)}; all records need the same one"
            )
        return units[0] if units else ""

    @cached_property
    def samples(self) -> np.ndarray:
        """(record,) int64: samples per lead."""
        return self.index["samples"].to_numpy(np.int64)

    @cached_property
    def available(self) -> np.ndarray:
        """(record,) int64: bit mask of the leads that a record has."""
        return self.index["available"].to_numpy(np.int64)

    def divided(self, published: pd.DataFrame, index: pd.DataFrame, said: str) -> "Copy":
        """The same records with another split, in both tables; `said`: in words."""
        other = replace(self, source=self.source.divided(published), division=said)
        vars(other)["index"] = index
        return other

    @cached_property
    def findings(self) -> pd.DataFrame:
        """record, kind, sentence of what does not fit and of what was repaired."""
        own = self.known.loc[self.known["sentences"] != "[]", "sentences"].sort_index()
        told = [(record, *said) for record, text in own.items() for said in json.loads(text)]
        return pd.DataFrame(told, columns=["record", "kind", "sentence"], dtype="str")

    @cached_property
    def left_out(self) -> pd.DataFrame:
        """record, reason, kind: "damaged" or "excluded"."""
        lost = self.known.loc[self.known["reason"] != "", ["reason", "kind"]].sort_index()
        return lost.rename_axis("record").reset_index()

    @property
    def quarantined(self) -> pd.DataFrame:
        """record, reason: those that cannot be trusted."""
        own = self.left_out.query("kind == 'damaged'")
        return own[["record", "reason"]].reset_index(drop=True)

    @property
    def excluded(self) -> pd.DataFrame:
        """record, reason: sound ones that a rule of the card leaves out."""
        own = self.left_out.query("kind == 'excluded'")
        return own[["record", "reason"]].reset_index(drop=True)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Those of the card; labels that are counted are those of this release."""
        return tuple(counted(task, self.published) for task in self.card.tasks)

    def task(self, name: str) -> Task:
        """The task called `name`."""
        return next(t for t in self.tasks if t.name == name)

    @property
    def count(self) -> int:
        """Records that were read, those that are left out too."""
        return len(self.known)

    @property
    def whole(self) -> bool:
        """Whether every record was read."""
        return self.count == self.source.count

    @cached_property
    def rows(self) -> dict[str, int]:
        """Record -> row of the index."""
        return {r: i for i, r in enumerate(self.index["record"])}

    def row(self, record: str) -> int:
        """Row of a record in the index; BadSetting when it is not there."""
        if record not in self.rows:
            raise BadSetting(
                f"{self.name}: no prepared record {record!r} among {len(self.rows)}; see "
                f"`ecgbench data check {quoted(ROOM.argument(self.name))}`"
            )
        return self.rows[record]

    def stored(self, record: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(lead, time) int16 of the leads that it has, and (12,) float32 gain, as they lie on disk;
        None where they have not the sha256 of what was written.
        """
        fs = self.index["fs"].array[self.row(record)]
        with _reading(self):
            content = self.parts.read(record)
        return None if content is None else decoded(content, fs)

    def sound(self, record: str) -> tuple[np.ndarray, np.ndarray]:
        """The same; one that is not as it was written is read again from its published file.
        DamagedCopy where that gives something else, or nothing.
        """
        if stored := self.stored(record):
            return stored
        source, row = self.source, next(rows(self.index.iloc[[self.row(record)]]))
        about, content = look(self.name, source.root, row, source.fix)
        why = shortened(about["reason"], 200)
        if why or hashlib.sha256(content).hexdigest() != row["sha256"]:
            raise damaged(
                self,
                f"holds record {record} not as it was written, and its published file does not "
                f"give it again ({why or 'it has changed'})",
            )
        self.parts.append([({**about, "state": self.known["state"].get(record, "")}, content)])
        vars(self).pop("_placed", None)
        warn_once(
            self.folder,
            f"record {record} was not as it was written; it is read again from its published file, "
            f"like every other such record",
        )
        return decoded(content, row["fs"])

    def recording(self, record: str) -> Recording:
        """One record in `unit`, the leads that it has in clinical order, exactly as the dataset's
        reader gave it. DamagedCopy as of `sound`.
        """
        steps, gain = self.sound(record)
        row = self.row(record)
        leads = LeadSubset.from_bits(int(self.available[row]))
        return Recording(
            signal=steps / gain[leads.mask, None],
            unit=self.unit,
            leads=leads.leads,
            fs=float(self.index["fs"].array[row]),
            record=record,
            patient=str(self.index["patient"].array[row]),
        )

    def windows(self, rows: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
        """Windows of records rows[i] from sample starts[i] on, (window, 12, length) float32 in
        `unit`, NaN in the rows of leads that a record does not have. Only their own samples are
        read, but of a record that was not asked for before: it is compared with its hash.

        BadSetting: a window beyond its record; DamagedCopy as of `sound`.
        """
        if ((starts < 0) | (starts + length > self.samples[rows])).any():
            raise BadSetting(f"{self.name}: a window of {length} samples lies outside its record")
        for row in np.unique(rows[self._gains[rows, 0] < 0]):
            self._gains[row] = self.sound(str(self.index["record"].array[row]))[1]
        there = bits_to_mask(self.available[rows])
        before = self.samples[rows][:, None] * (np.cumsum(there, axis=1) - 1)
        parts, first = self._placed
        offsets = first[rows][:, None] + BYTES * (starts[:, None] + before)
        steps = np.zeros((len(rows), len(LEADS), length), "<i2")
        with _reading(self):
            for part in np.unique(parts[rows]):
                # no memory map: a file that is cut short is then an error and not a killed process
                with (self.folder / self.parts.names[part] / DATA).open("rb") as file:
                    for i, lead in np.argwhere(there & (parts[rows] == part)[:, None]):
                        into = steps[i, lead].data.cast("B")
                        if os.preadv(file.fileno(), [into], int(offsets[i, lead])) != len(into):
                            raise damaged(self)
        signal = steps.astype(np.float32)
        signal /= np.where(there, self._gains[rows], np.float32(np.nan))[:, :, None]
        return signal

    @cached_property
    def _gains(self) -> np.ndarray:
        """(record, 12) float32; -1 before this process has compared a record with its hash."""
        return np.full((len(self.samples), len(LEADS)), -1, np.float32)

    @cached_property
    def _placed(self) -> tuple[np.ndarray, np.ndarray]:
        """(record,) number of its part, and first byte of its samples."""
        own = self.parts.rows.loc[self.index["record"], list(PLACE[:2])]
        heads = {fs: head_of(fs) for fs in self.index["fs"].unique()}
        first = own["first"].to_numpy(np.int64) + self.index["fs"].map(heads).to_numpy(np.int64)
        return own["part"].to_numpy(np.int64), first


def opened(source: Source, home: Path) -> Copy:
    """What is prepared of a dataset, perhaps nothing. MissingData where it cannot be read."""
    folder = source.folder(home)
    try:
        return Copy(source=source, parts=Parts(folder))
    except OSError as error:
        raise _unreadable(source.name, folder, error) from error


@contextmanager
def _reading(copy: Copy) -> Iterator[None]:
    """What goes wrong inside is an error of a prepared copy."""
    try:
        yield
    except FileNotFoundError as error:
        raise damaged(copy) from error
    except OSError as error:
        raise _unreadable(copy.name, copy.folder, error) from error


def _unreadable(name: str, folder: Path, error: OSError) -> MissingData:
    return MissingData(
        f"{name}: the prepared copy in {folder} cannot be read ({error.strerror}); "
        f"repair the disk, or delete that folder, then: {command(name, None)}"
    )


def damaged(copy: Copy, why: str = "is damaged") -> DamagedCopy:
    """The error of a prepared copy that is not as it was written."""
    return DamagedCopy(
        f"{copy.name}: the prepared copy in {copy.folder} {why}; to make it again: "
        f"{command(copy.name, None, copy.fix)}"
    )


def counted(task: Task, published: pd.DataFrame) -> Task:
    """The task with the labels that at least `task.least` records of the complete release have, the
    most frequent first; as it is where its labels are fixed or `published`, the index of every
    record, is not of the complete release.
    """
    if task.least is None or not is_counted(task, published):
        return task
    before = f"{task.name}:"
    columns = [c for c in published.columns if c.startswith(before)]
    records = {c.removeprefix(before): int((published[c] == 1).sum()) for c in columns}
    kept = sorted((-n, label) for label, n in records.items() if n >= task.least)
    return replace(task, labels=tuple(label for _, label in kept))


def is_counted(task: Task, published: pd.DataFrame) -> bool | None:
    """Whether its labels were counted on the complete release; None where they are fixed."""
    return None if task.least is None else len(published) == task.complete
