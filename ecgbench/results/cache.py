"""Tables of what was computed of a run, which may be deleted at any time: rows by their key, in

    <run>/derived/<table>/<sha256>.parquet

A file is named by what it holds, appears by one rename and never changes; one that is not what its
name says is removed, and its rows are computed again. Any number of processes may read and write:
each adds files, and whoever finds many of them puts them into one.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
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


class Cache:
    """The tables of one run; each is read when it is first asked for."""

    def __init__(self, folder: Path, keep: bool = True) -> None:
        """keep: whether new rows are written."""
        self.folder, self.keep = folder, keep
        self._tables: dict[str, dict[str, Values]] = {}
        """Name -> key -> row."""
        self._new: dict[str, dict[str, Values]] = {}
        self._files: set[Path] = set()
        """Those that were read or written."""
        self._waits = False

    def row(self, table: str, facts: dict[str, Any], compute: Callable[[], Values]) -> Values:
        """What was computed from these facts before, else it is computed and kept."""
        if table not in self._tables:
            self._read(table)
        rows, named = self._tables[table], key(facts)
        if named not in rows:
            rows[named] = self._new.setdefault(table, {})[named] = compute()
            if not self._waits:
                self.write()
        return rows[named]

    @contextmanager
    def one_file(self) -> Iterator[None]:
        """What is computed inside is written at its end, one file for each table."""
        before, self._waits = self._waits, True
        try:
            yield
        finally:
            self._waits = before
            if not before:
                self.write()

    def refresh(self) -> None:
        """Read what other processes have written since."""
        for table in self._tables:
            self._read(table)

    def _read(self, table: str) -> None:
        """Read the new files of a table, and put many into one."""
        rows = self._tables.setdefault(table, {})
        every = set((self.folder / table).glob("*.parquet"))
        for file in every - self._files:
            with suppress(OSError):
                content = file.read_bytes()
                if file == self._file(table, content):
                    rows |= _rows(content)
                    self._files.add(file)
                else:
                    file.unlink()
        old = every & self._files
        if self.keep and len(old) > MANY and (whole := self._put(table, rows)):
            for file in old - {whole}:
                file.unlink(missing_ok=True)

    def write(self) -> None:
        """Write the new rows now."""
        new, self._new = self._new, {}
        for table, rows in new.items() if self.keep else ():
            self._put(table, rows)

    def _put(self, table: str, rows: Mapping[str, Values]) -> Path | None:
        """The file that was written; None where it cannot be: a run that is only read is no
        error.
        """
        content = as_parquet(pd.DataFrame([{"key": k, **row} for k, row in rows.items()]))
        with suppress(WriteError):
            file = put(self._file(table, content), content, lasting=False)
            self._files.add(file)
            return file
        return None

    def _file(self, table: str, content: bytes) -> Path:
        """A copy in the folder of another table has another name."""
        known = f"{table} {FORMAT}\n".encode() + content
        return self.folder / table / f"{hashlib.sha256(known).hexdigest()}.parquet"


def _rows(content: bytes) -> dict[str, Values]:
    # one thread, as processes are copied
    table = parquet.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    rows = table.to_pandas(use_threads=False).to_dict("records")
    return {row.pop("key"): row for row in rows}
