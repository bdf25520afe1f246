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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.core.files import warn_once
from ecgbench.core.parts import Parts
from ecgbench.core.text import quoted, shortened
from ecgbench.data.reading import FACTS, checked_row, decoded, digest
from ecgbench.data.source import Source, command, rows
from ecgbench.datasets import ROOM
from ecgbench.ecg.leads import LeadSubset
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, DamagedCopy, MissingData

COLUMNS = [*FACTS, "unit", "sentences", "notes", "reason", "kind", "state"]
"""Facts of a record (`reading.Row`); state: names, sizes and times of its files when it was read.
"""
ABOUT = "copy.json"
"""Whether this version reads the copy, and whether it was prepared with --fix."""

Progress = Callable[[int, int], None]
"""Called with what is done, and what is to do."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """The prepared records of a dataset. Reads on demand; holds no open file."""

    source: Source
    parts: Parts
    division: str = ""
    """A description of how its split differs from that of its card (`--folds`)."""

    @property
    def name(self) -> str:
        """Name of the dataset in its room."""
        return self.source.name

    @property
    def card(self) -> DatasetCard:
        """Card of the dataset."""
        card: DatasetCard = self.source.module.CARD
        return card

    @property
    def folder(self) -> Path:
        """Folder of the copy."""
        return self.parts.folder

    @property
    def fix(self) -> bool:
        """Whether errors beyond doubt were corrected (`reading.checked`)."""
        return self.source.fix

    @property
    def published(self) -> pd.DataFrame:
        """The published index of the dataset, with every record, prepared or not."""
        return self.source.index

    @cached_property
    def known(self) -> pd.DataFrame:
        """Rows of `parts` for the published records, in no order; index: record."""
        known = self.parts.rows.reindex(columns=COLUMNS)
        return known[known.index.isin(self.published["record"])]

    @cached_property
    def index(self) -> pd.DataFrame:
        """The index of the dataset (record, patient, split, label columns ...) plus FACTS, for the
        records that are prepared and not left out.
        """
        kept = self.known.loc[self.known["reason"] == "", list(FACTS)]
        return self.published.merge(
            kept, left_on="record", right_index=True, how="inner", validate="one_to_one"
        ).reset_index(drop=True)

    @cached_property
    def digest(self) -> str:
        """sha256 of the content: records, signals, patients, splits, labels; "" where there is
        none.
        """
        return digest(self.index) if len(self.index) else ""

    @cached_property
    def unit(self) -> str:
        """Unit of the signals: "mV" or "standardised"; BadRecord where they differ."""
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

    def divided(self, published: pd.DataFrame, index: pd.DataFrame, how: str) -> "Copy":
        """The same records with another split, in both tables; how: its description."""
        other = replace(self, source=self.source.divided(published), division=how)
        vars(other)["index"] = index
        return other

    @cached_property
    def findings(self) -> pd.DataFrame:
        """record, kind, sentence of every inconsistency and every repair."""
        own = self.known.loc[self.known["sentences"] != "[]", "sentences"].sort_index()
        found = [(record, *finding) for record, text in own.items() for finding in json.loads(text)]
        return pd.DataFrame(found, columns=["record", "kind", "sentence"], dtype="str")

    @cached_property
    def left_out(self) -> pd.DataFrame:
        """record, reason, kind: "damaged" or "excluded"."""
        lost = self.known.loc[self.known["reason"] != "", ["reason", "kind"]].sort_index()
        return lost.rename_axis("record").reset_index()

    @property
    def quarantined(self) -> pd.DataFrame:
        """record, reason: records that cannot be trusted."""
        return self._lost("damaged")

    @property
    def excluded(self) -> pd.DataFrame:
        """record, reason: sound records that a rule of the card excludes."""
        return self._lost("excluded")

    def _lost(self, kind: str) -> pd.DataFrame:
        own = self.left_out[self.left_out["kind"] == kind]
        return own[["record", "reason"]].reset_index(drop=True)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the card; counted labels are those of this release."""
        return tuple(counted(task, self.published) for task in self.card.tasks)

    def task(self, name: str) -> Task:
        """The task called `name`."""
        return next(t for t in self.tasks if t.name == name)

    @property
    def count(self) -> int:
        """Number of records that were read, including those that are left out."""
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
        """(lead, time) int16 of its leads and (12,) float32 gain, as they are on disk; None where
        their sha256 is wrong.
        """
        fs = self.index["fs"].array[self.row(record)]
        try:
            content = self.parts.read(record)
        except OSError as error:
            raise _unreadable(self.name, self.folder, error) from error
        return None if content is None else decoded(content, fs)

    def _mended(self, record: str) -> tuple[np.ndarray, np.ndarray]:
        """The same, read again from its published file; DamagedCopy where that gives something
        else, or nothing.
        """
        row = next(rows(self.index.iloc[[self.row(record)]]))
        about, content = checked_row(self.source, row)
        why = shortened(about["reason"], 200)
        if why or hashlib.sha256(content).hexdigest() != row["sha256"]:
            raise DamagedCopy(
                f"{self.name}: the prepared copy in {self.folder} holds record {record} not as it "
                f"was written, and its published file does not give it again "
                f"({why or 'it has changed'}); to make it again: "
                f"{command(self.name, None, self.fix)}"
            )
        self.parts.append([({**about, "state": self.known["state"].get(record, "")}, content)])
        warn_once(
            self.folder,
            f"record {record} was not as it was written; it is read again from its published file, "
            f"like every other such record",
        )
        return decoded(content, row["fs"])

    def recording(self, record: str) -> Recording:
        """One record in `unit`, its leads in clinical order, exactly as the dataset's reader gave
        it. A damaged one is read again from its published file; DamagedCopy where that is gone or
        gives other samples.
        """
        steps, gain = self.stored(record) or self._mended(record)
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


def opened(source: Source, home: Path) -> Copy:
    """The prepared copy of a dataset, perhaps empty. MissingData where it cannot be read."""
    folder = source.folder(home)
    try:
        return Copy(source=source, parts=Parts(folder))
    except OSError as error:
        raise _unreadable(source.name, folder, error) from error


def _unreadable(name: str, folder: Path, error: OSError) -> MissingData:
    return MissingData(
        f"{name}: the prepared copy in {folder} cannot be read ({error.strerror}); "
        f"repair the disk, or delete that folder, then: {command(name, None)}"
    )


def counted(task: Task, published: pd.DataFrame) -> Task:
    """The task with the labels that at least `task.least` records of the complete release have, the
    most frequent first; unchanged where its labels are fixed or `published`, the index of every
    record, is not complete.
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
