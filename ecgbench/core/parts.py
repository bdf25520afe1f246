"""Rows of arrays by name, appended in blocks: recordings, filtered signals, features.

    <folder>/part-000003-<hash>/rows.parquet    name, first byte, bytes, sha256, and facts of a row
                                data            the contents, one after the other

A part is a folder that appears by one rename and never changes. Its name holds the hash of its
table, and the table the hash of each content: a kill costs the part that is being written, and
what is not as it was written is as if it were not there, and is appended anew. Of rows of one name
the last one counts. Any number of processes may append and read at a time.
"""

import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ecgbench.core.files import as_parquet, content_of, making, move, put_into, quarantine

TABLE, DATA = "rows.parquet", "data"
LOCATION = ("part", "first", "bytes", "sha256")
"""Columns that every row has: the number of its part in `Parts.names`, first byte, bytes, hash."""
_NAME = re.compile(r"part-(\d{6})-([0-9a-f]{16})")


class Parts:
    """The rows in a folder, from the parts that exist when it is first read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        """Of the parts, in the order of their numbers."""
        self._tables: list[pa.Table] = []
        for path in sorted(folder.glob("part-*")):
            if _NAME.fullmatch(path.name):
                self._add_part(path)

    def _add_part(self, path: Path) -> None:
        try:
            content = content_of(path / TABLE)
        except FileNotFoundError:
            content = b""
        if not path.name.endswith(_short(content)):
            quarantine(path)
            return
        self._add(path.name, content)

    def _add(self, name: str, content: bytes) -> None:
        table = pq.read_table(io.BytesIO(content))
        number = pa.array(np.full(len(table), len(self.names), np.int32))
        self._tables.append(table.append_column("part", number))
        self.names.append(name)
        vars(self).pop("rows", None)
        vars(self).pop("_locations", None)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """LOCATION and the facts of each row, indexed by name."""
        if not self._tables:
            return pd.DataFrame(columns=["name", *LOCATION]).set_index("name")
        table: pd.DataFrame = pa.concat_tables(self._tables, promote_options="default").to_pandas()
        return table.drop_duplicates("name", keep="last").set_index("name")

    @cached_property
    def _locations(self) -> list[Any]:
        return [self.rows[column].tolist() for column in LOCATION]

    def missing(self, names: Iterable[str]) -> list[str]:
        """The names that no part holds, each once."""
        return [name for name in dict.fromkeys(names) if name not in self.rows.index]

    def append(self, rows: Iterable[tuple[Mapping[str, Any], bytes]]) -> None:
        """Add rows as a new part: the facts of each, with `name`, and its content, which is written
        at once. No part for no rows. WriteError names what cannot be written.
        """
        facts: list[dict[str, Any]] = []

        def write(out: BinaryIO) -> None:
            for about, content in rows:
                proof = hashlib.sha256(content).hexdigest()
                first = out.tell()
                facts.append({**about, "first": first, "bytes": len(content), "sha256": proof})
                out.write(content)

        last = max((int(_number(name)) for name in self.names), default=-1)
        with making(self.folder / "part") as work:
            put_into(work, DATA, write)
            if not facts:
                return
            table = as_parquet(pd.DataFrame(facts))
            put_into(work, TABLE, table)
            # False where another process wrote the very same part
            move(work, self.folder / f"part-{last + 1:06d}-{_short(table)}")
        self._add(f"part-{last + 1:06d}-{_short(table)}", table)

    def read(self, name: str) -> bytes | None:
        """The content of a row; None where it is missing or damaged."""
        if name not in self.rows.index:
            return None
        row: Any = self.rows.index.get_loc(name)
        part, first, count, proof = (column[row] for column in self._locations)
        try:
            with (self.folder / self.names[part] / DATA).open("rb") as file:
                content = os.pread(file.fileno(), count, first)
        except FileNotFoundError:
            return None
        return content if hashlib.sha256(content).hexdigest() == proof else None

    def spare(self) -> list[Path]:
        """Parts whose rows were all appended again."""
        used = {*self.rows["part"]}
        return [self.folder / name for i, name in enumerate(self.names) if i not in used]


def _short(table: bytes) -> str:
    return hashlib.sha256(table).hexdigest()[:16]


def _number(name: str) -> str:
    return name.split("-")[1]
