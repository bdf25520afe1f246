"""The index of a run, index.jsonl: what is known of its cells without looking at their folders.

    {"<identity>": "<key>"}                        the cell has this key from now on
    {"finished": ["<folder>", ...], "at": <time>}  cells that were finished, by the names of their
                                                   folders, which are their keys
    {"gone": ["<folder>", ...]}                    those that were set aside or removed

Lines are only added, and the last one counts. It may be deleted or damaged, and lines of it may be
lost: what it does not name is asked of the cells' own folders.
"""

import json
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from ecgbench.core.files import append

FILE = "index.jsonl"


class Index:
    """The index of one run; `read` takes in new lines."""

    def __init__(self, run: Path) -> None:
        self.file = run / FILE
        self.keys: dict[str, str] = {}
        """Identity of a cell -> its key."""
        self.finished: dict[str, float] = {}
        """Folder of a cell -> when it was finished, in seconds since 1970; oldest first."""
        self.begun = 0
        """How often it was read from its beginning: the first time, and when it is another file."""
        self._read = -1
        """Bytes of the file that were read; -1: none yet."""

    def read(self) -> None:
        """Take in new lines."""
        size = 0
        with suppress(FileNotFoundError):
            size = os.stat(self.file).st_size
        if not 0 <= self._read <= size:
            self.begun += 1
            self.keys, self.finished, self._read = {}, {}, 0
        if size > self._read:
            with self.file.open("rb") as file:
                file.seek(self._read)
                whole, end, _ = file.read().rpartition(b"\n")
            self._read += len(whole + end)
            for line in whole.splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # it is damaged, or its writer died
            return
        if not isinstance(found, dict):
            return
        at = found.get("at")
        for name in found.get("finished", ()):
            self.finished.pop(name, None)
            self.finished[name] = at if isinstance(at, int | float) else 0.0
        for name in found.get("gone", ()):
            self.finished.pop(name, None)
        self.keys.update((i, key) for i, key in found.items() if isinstance(key, str))

    def add_keys(self, keys: Mapping[str, str]) -> None:
        """These cells have these keys from now on."""
        append(self.file, [json.dumps({identity: key}) for identity, key in keys.items()])

    def add_finished(self, folders: Collection[str], at: float | None = None) -> None:
        """The cells of these folders are finished since `at` (now)."""
        if folders:
            at = round(time.time() if at is None else at, 1)
            line = json.dumps({"finished": list(folders), "at": at})
            append(self.file, [line], lasting=False)

    def add_gone(self, folders: Collection[str]) -> None:
        """The cells of these folders are no longer finished."""
        if folders:
            append(self.file, [json.dumps({"gone": list(folders)})], lasting=False)
