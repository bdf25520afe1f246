"""What was found of a dataset's files, so that it opens without a look at each of them.

    <prepared>/<dataset>/manifest-<sha256 of the root's path>.json    under its own hash
                         index-<the same>.parquet                     the checked index

`kept` serves whoever looks at every file: the index, where making it takes long (a table of
345,779 lines, or 35,000 headers, and their stratification), is taken from here if card, code,
tables and the name, size, time and inode of every file below the root are the same.

`trusted` serves `ecgbench run`, which opens a dataset often: index and fingerprint are taken from
here if card and code, size and time of the card's tables, the times of the folders that hold
records (of the 10,000 uppermost and of others drawn once), and size and time of 4,000 record files
drawn once are the same; size, time, inode and time of the last change. A dataset with fewer files
is so looked at in full. What is not seen: a record or a header that was altered in its place and
was not drawn; a file that came into, or left, a folder that was not drawn. None of it can make a
number wrong without a word: numbers rest on the prepared copy alone, which was read from files that
were checked, and whose digest stands in their keys; the copy is then older than the files.
`ecgbench data prepare` and `ecgbench data verify` look at every file.
"""

import hashlib
import io
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from ecgbench.core.aside import set_aside
from ecgbench.core.cards import facts
from ecgbench.core.files import as_parquet, put
from ecgbench.core.sealed import seal, unsealed
from ecgbench.core.seeds import rng
from ecgbench.datasets import ROOM
from ecgbench.datasets.indexing.tables import either
from ecgbench.errors import WriteError

LONG, MANY = 2.0, 2_000
"""Seconds that a look at every file takes, or records, from which it is worth a manifest."""
FOLDERS, FILES = 10_000, 4_000
"""That `trusted` looks at, at most."""

State = tuple[str, int, int, int, int]
"""Path relative to the root, size (0 of a folder), its time stamp in ns, inode and time of the last
change in ns, which nobody can put back.
"""


@dataclass(frozen=True)
class Found:
    """What a manifest says of a dataset."""

    fingerprint: str
    identity: str
    """See `source.identity`."""
    records: int
    index: Callable[[], pd.DataFrame]
    """Reads it."""


class Manifest:
    """The manifest of a dataset in the folder of prepared copies."""

    def __init__(self, name: str, module: ModuleType, root: Path, home: Path) -> None:
        self.name, self.module, self.root = name, module, root
        self._below = os.path.join(root, "")
        place = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:8]
        self._note_file = home / name / f"manifest-{place}.json"
        self._index_file = home / name / f"index-{place}.parquet"
        self._began, self._clock = time.time_ns(), time.monotonic()

    def trusted(self) -> Found | None:
        """What was found, if it can be trusted without a look at every file."""
        note = self._note
        if note is None or any([*self._state(p)] != state for p, *state in note["watched"]):
            return None
        return self._found(note)

    def kept(self) -> pd.DataFrame | None:
        """The index, if it was made of the very same files."""
        note = self._note
        if note is None or note["every"] != self._every:
            return None
        found = self._found(note)
        return None if found is None else found.index()

    def write(
        self, index: pd.DataFrame, fingerprint: str, identity: str, records: Sequence[State]
    ) -> None:
        """Note what was found; `records`: states of all record files. Not where that was quick, or
        while files change.
        """
        if len(index) < MANY and time.monotonic() - self._clock < LONG:
            return
        watched = [*self._watched(index["path"]), *drawn(self.name, records, FILES)]
        if max((max(t, c) for _, _, t, _, c in [*watched, *records]), default=0) >= self._began:
            return
        with suppress(OSError, WriteError):  # it can be found out again
            content = as_parquet(index)
            put(self._index_file, content)
            note = {
                "rests_on": self._rests_on,
                "every": self._every,
                "fingerprint": fingerprint,
                "identity": identity,
                "records": len(index),
                "index": hashlib.sha256(content).hexdigest(),
                "watched": watched,
            }
            seal(self._note_file, note)

    @cached_property
    def _note(self) -> dict[str, Any] | None:
        note = unsealed(self._note_file)
        return note if note and note["rests_on"] == self._rests_on else None

    def _found(self, note: dict[str, Any]) -> Found | None:
        with suppress(OSError):
            # as bytes: another process may put a newer one in its place
            content = self._index_file.read_bytes()
            if hashlib.sha256(content).hexdigest() == note["index"]:
                return Found(
                    note["fingerprint"],
                    note["identity"],
                    note["records"],
                    lambda: pd.read_parquet(io.BytesIO(content)),
                )
            set_aside(self._index_file, then="all files are looked at again")
        return None

    @cached_property
    def _rests_on(self) -> str:
        """sha256 of the card, and of the code that makes the index and checks it."""
        total = hashlib.sha256(repr(facts(self.module.CARD)).encode())
        package = Path(str(files("ecgbench")))
        total.update((ROOM.source_hash(self.name) or "").encode())
        code = [
            Path(str(self.module.__file__)),
            package / "datasets/_labels.py",
            package / "core/seeds.py",
        ]
        for own in (
            "datasets/indexing/*.py",
            "ecg/readers/*.py",
            "datasets/labels/*.csv",
            "data/source.py",
            "data/manifest.py",
        ):
            code += sorted(package.glob(own))
        for file in code:
            total.update(hashlib.sha256(file.read_bytes()).digest())
        return total.hexdigest()

    @cached_property
    def _every(self) -> str:
        """sha256 of the tables, and of name, size and time of every file below the root; looked up
        once.
        """
        total = hashlib.sha256()
        for table in filter(Path.is_file, self._tables):
            total.update(hashlib.sha256(table.read_bytes()).digest())
        for folder, _, names in sorted(os.walk(self.root)):
            here = os.path.relpath(folder, self.root)
            states = [(n, self._state(os.path.join(here, n))) for n in sorted(names)]
            total.update(repr((here, states)).encode())
        return total.hexdigest()

    @property
    def _tables(self) -> list[Path]:
        return [t for f in self.module.CARD.index_files for t in either(self.root, f)]

    def _watched(self, paths: Iterable[str]) -> list[State]:
        """The states of the tables, and of the folders above records."""
        below: set[str] = {"", *(path.rpartition("/")[0] for path in set(paths))}
        new = below
        while new := {path.rpartition("/")[0] for path in new} - below:
            below |= new
        levels: dict[int, list[str]] = {}
        for path in sorted(below):
            levels.setdefault(path.count("/") + bool(path), []).append(path)
        chosen: list[str] = [str(table.relative_to(self.root)) for table in self._tables]
        for _, level in sorted(levels.items()):
            chosen += drawn(self.name, level, FOLDERS - len(chosen))
        return [(path, *self._state(path)) for path in dict.fromkeys(chosen)]

    def _state(self, path: str) -> tuple[int, int, int, int]:
        """(-1, 0, 0, 0) where there is nothing."""
        try:
            found = os.stat(self._below + path)
        except OSError:
            return -1, 0, 0, 0
        size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
        return size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns


def drawn(name: str, of: Sequence[Any], most: int) -> list[Any]:
    """At most so many, the same ones whenever they are drawn."""
    if len(of) <= most:
        return list(of)
    order = rng("manifest", name, len(of)).permutation(len(of))[: max(0, most)]
    return [of[i] for i in sorted(order)]
