"""Tables of what was computed of a run, which may be deleted at any time: rows by their key, in

    <run>/derived/<table>/<sha256>.parquet

A file is named by what it holds, appears by one rename and never changes; one that is not what its
name says is removed, and its rows are computed again. Any number of processes may read and write:
each adds files, and whoever finds many of them puts them into one.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from ecgbench.core.cells import key
from ecgbench.core.files import as_parquet, put
from ecgbench.errors import WriteError

Values = dict[str, Any]
"""A row: column -> a number, a text, or an array of one dimension."""
FORMAT = 1
"""Raised by hand when a table gets other columns; files of another one are removed."""
MANY = 8
"""Files of a table that are put into one."""


class Table:
    """One table."""

    def __init__(self, folder: Path, keep: bool = True) -> None:
        """keep: whether new rows are written."""
        self.folder, self.keep = folder, keep
        self._rows: dict[str, Values] = {}
        self._new: dict[str, Values] = {}
        self._files: set[Path] = set()
        """Those that were read or written."""
        self._waits = False
        self.refresh()

    def row(self, facts: dict[str, Any], compute: Callable[[], Values]) -> Values:
        """What was computed from these facts before, else it is computed and kept."""
        named = key(facts)
        if named not in self._rows:
            self._rows[named] = self._new[named] = compute()
            if not self._waits:
                self.write()
        return self._rows[named]

    @contextmanager
    def one_file(self) -> Iterator[None]:
        """What is computed inside is written as one file at its end."""
        before, self._waits = self._waits, True
        try:
            yield
        finally:
            self._waits = before
            if not before:
                self.write()

    def refresh(self) -> None:
        """Read what other processes have written since, and put many files into one."""
        for file in set(self.folder.glob("*.parquet")) - self._files:
            with suppress(OSError):
                content = file.read_bytes()
                if file == self._file(content):
                    self._rows |= _rows(content)
                    self._files.add(file)
                else:
                    file.unlink()
        if self.keep and len(old := self._files) > MANY:
            self._new, self._files = dict(self._rows), set()
            self.write()
            for file in old - self._files if self._files else ():
                file.unlink(missing_ok=True)

    def write(self) -> None:
        """Write the new rows now."""
        rows, self._new = [{"key": k, **row} for k, row in self._new.items()], {}
        if rows and self.keep:
            content = as_parquet(pd.DataFrame(rows))
            with suppress(WriteError):  # a run folder that is only read is no error
                self._files.add(put(self._file(content), content, lasting=False))

    def _file(self, content: bytes) -> Path:
        """Of a table; a copy in the folder of another has another name."""
        known = f"{self.folder.name} {FORMAT}\n".encode() + content
        return self.folder / f"{hashlib.sha256(known).hexdigest()}.parquet"


def _rows(content: bytes) -> dict[str, Values]:
    # one thread, as processes are copied
    table = parquet.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    rows = table.to_pandas(use_threads=False).to_dict("records")
    return {row.pop("key"): row for row in rows}
