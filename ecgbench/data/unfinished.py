"""A copy that is being written: what of it is finished outlives a full disk, Ctrl-C and kill -9.

    <prepared>/<dataset>/<fingerprint>.tmp/
        signal.i16           as in the finished copy, as far as it goes
        block-000000.json    of 500 records each: facts, gains, what was lost, under its own hash

A block counts once its samples and its file are on the disk. The next attempt takes it over if it
belongs to the same files, records and version, and every record in it has its sha256; another is
read again.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ecgbench.core.files import flush
from ecgbench.core.sealed import seal, unsealed
from ecgbench.data.encoded import sha256
from ecgbench.data.meta import SIGNAL
from ecgbench.data.reading import Kept, Outcome, outcome_of
from ecgbench.errors import MissingData

BLOCK = 500
"""Records that a kill costs at most, beside those that are just being read."""


class Unfinished:
    """The blocks of a copy, in the order of its records."""

    def __init__(self, folder: Path, key: str, records: list[str]) -> None:
        """`key`: of all that the copy rests on. `records`: what it will hold or leave out."""
        self.folder, self._key = folder, key
        self.blocks = [records[i : i + BLOCK] for i in range(0, len(records), BLOCK)]
        (folder / SIGNAL).touch()
        with (folder / SIGNAL).open("rb") as signal:
            checked = ((n, self._sound(n, signal)) for n in range(len(self.blocks)))
            self._finished = {n: block for n, block in checked if block is not None}

    @property
    def finished(self) -> set[str]:
        """Records that need not be read again."""
        return {record for n in self._finished for record in self.blocks[n]}

    def taken_over(self, number: int, out: BinaryIO) -> list[Outcome] | None:
        """The outcomes of a finished block, behind whose samples `out` stands from then on; None
        where it must be made.
        """
        if number not in self._finished:
            return None
        start, end, block = self._finished[number]
        if start != out.tell():
            self.forget()
            raise MissingData(
                f"{self.folder}: records that were read once more have another length; what was "
                f"prepared is dropped, run the same command again"
            )
        out.seek(end)
        return block

    def finish(self, number: int, start: int, told: list[dict[str, Any]], out: BinaryIO) -> None:
        """A block was written from byte `start` on; `told`: what `described` says of its outcomes.
        The last one is not noted where it is smaller.
        """
        if len(told) == BLOCK:
            flush(out)
            seal(self._file(number), {"key": self._key, "start": start, "outcomes": told})

    def forget(self) -> None:
        """Remove the notes of all blocks."""
        for file in self.folder.glob("block-*"):
            file.unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self.folder / f"block-{number:06d}.json"

    def _sound(self, number: int, signal: BinaryIO) -> tuple[int, int, list[Outcome]] | None:
        """First byte, end and outcomes of a block that can be taken over."""
        note = unsealed(self._file(number))
        if note is None or note["key"] != self._key:
            return None
        signal.seek(note["start"])
        block: list[Outcome] = []
        for told in note["outcomes"]:
            outcome = outcome_of(told, signal.read(told.get("steps", 0)))
            if isinstance(outcome, Kept):
                steps, facts = np.frombuffer(outcome.steps, "<i2"), outcome.facts
                if sha256(steps, outcome.gain, facts["fs"]) != facts["sha256"]:
                    return None
                outcome = replace(outcome, steps=b"")
            block.append(outcome)
        return note["start"], signal.tell(), block


def started(folder: Path) -> bool:
    """Whether an attempt left a block that another may take over."""
    return any(folder.glob("block-*.json"))
