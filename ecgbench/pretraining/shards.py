"""A corpus on disk, written once: every recording in one piece, in shards, at random places.

    <shards>/<key>/shard-00000.f16     (12, time) of each recording, one after the other
                   shard-00000.json    which shard it is, sha256 of its blocks; under its own hash
                   names.arrow         dataset and record of each recording; mapped, never loaded
                   ends.npy            (recording + 1,) int64: numbers that stand before each
                   index.json          what was packed, and the hashes of all this; written last

A block is 128 neighbouring recordings, a shard 32 blocks: 3 MB and 98 MB where they last 10 s. The
place of a recording is drawn from the key, so any block is a random sample of the corpus. A packing
that was interrupted goes on with the shards that are lacking, and so does one of which a shard was
set aside: the key names all that its bytes depend on.
"""

import hashlib
import math
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ecgbench.core.cells import key
from ecgbench.core.files import as_npy, put, put_proved, quarantine, read_proved, sha256_of, sweep
from ecgbench.core.parallel import on_all_cores
from ecgbench.core.seeds import rng
from ecgbench.core.text import size
from ecgbench.data.disk import alone_in, free_bytes
from ecgbench.data.prepare import Progress
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import WriteError
from ecgbench.pretraining.corpus import sound
from ecgbench.pretraining.guard import Guard, Name

FORMAT = 2
"""Raised by hand whenever the files, or what they mean, change."""
INDEX, NAMES, ENDS = "index.json", "names.arrow", "ends.npy"
SUFFIX = {"float16": ".f16", "float32": ".f32"}
NOTED = 2**16
"""Names of a record batch."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How recordings lie in shards."""

    kept: Literal["float16", "float32"] = "float16"
    block: int = 128
    """Recordings of a block: what is hashed, permuted and released as one."""
    shard: int = 4096
    """Recordings of a file; a multiple of `block`."""

    @property
    def type(self) -> np.dtype:
        """Little endian."""
        return np.dtype({"float16": "<f2", "float32": "<f4"}[self.kept])


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """What is packed."""

    names: pa.Table
    """dataset, record: text, in any order that is always the same."""
    lengths: np.ndarray
    """(recording,) int64: samples per lead."""
    read: Callable[[int], np.ndarray]
    """A row of `names` -> (12, time) in [-1, 1]. Called in forked processes too."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON that is kept beside it."""


@dataclass(frozen=True, eq=False)
class Shards:
    """A packed corpus as it was opened: tables are mapped, and of the samples nothing is read."""

    folder: Path
    index: dict[str, Any]
    ends: np.ndarray
    """(recording + 1,) int64, mapped: numbers that stand before each recording in all shards."""
    names: pa.Table
    """dataset (its number in `datasets`), record (text); mapped."""

    @property
    def layout(self) -> Layout:
        """As it was packed."""
        return Layout(**self.index["layout"])

    @property
    def size(self) -> int:
        """Bytes of all samples."""
        return int(self.ends[-1]) * self.layout.type.itemsize

    def path(self, number: int) -> Path:
        """A shard."""
        return _shard(self.folder, number, self.layout)

    def size_of(self, number: int) -> int:
        """Bytes of a shard."""
        return _numbers(self.ends, number, self.layout) * self.layout.type.itemsize

    def hashes(self, number: int) -> list[str] | None:
        """sha256 (hex) of the blocks of a shard; None where they are not those of the index."""
        noted = read_proved(_beside(self.path(number)))
        blocks = [] if noted is None else list(noted["blocks"])
        return blocks if _digest(blocks) == self.index["shards"][number] else None

    def name(self, row: int) -> Name:
        """A recording."""
        dataset, record = (self.names[column][row].as_py() for column in ("dataset", "record"))
        return Name(self.index["datasets"][dataset], record)

    def ask(self, guard: Guard) -> None:
        """The guard, of all recordings."""
        _ask(guard, self.names, self.index["datasets"])


def placement(about: str, recordings: int) -> np.ndarray:
    """(recording,) which row of the source lies at each place: a permutation named by the key."""
    return rng("place in the shards", about).permutation(recordings)


def pack(
    source: Source,
    guard: Guard,
    folder: Path,
    identity: str,
    layout: Layout = Layout(),
    progress: Progress | None = None,
) -> Shards:
    """The shards in `folder`, those that are lacking written now, by all cores.

    identity: names all that the bytes depend on but the layout; `progress` counts recordings. One
    process at a time packs, others wait. Another packing that has this folder's name is set aside.
    LeakError before anything is read; BadSetting: a recording that is not in [-1, 1]; WriteError:
    no room, or a full disk.
    """
    with alone_in(folder):
        sweep(folder)
        if (there := opened(folder, identity)) is not None:
            return there
        packing = _Packing(source, guard, folder, identity, layout)
        another = read_proved(folder / INDEX)
        if another is not None and another["identity"] != identity:
            quarantine(folder, "holds another packing", then="the corpora are packed again")
        packing(progress)
        # before anybody else may remove it
        if (there := opened(folder, identity)) is None:
            raise WriteError(
                f"{folder} does not hold what was just written there; check that disk, or choose "
                f"another folder (--set shards=DIR)"
            )
        return there


def lacking(source: Source, guard: Guard, folder: Path, identity: str, layout: Layout) -> int:
    """Bytes of samples that `pack` would write."""
    return _Packing(source, guard, folder, identity, layout).lacking


def opened(folder: Path, identity: str) -> Shards | None:
    """The packing `identity` in `folder`; None where there is none or another one, and where it is
    not whole, or not as it was written.
    """
    index = read_proved(folder / INDEX)
    if index is None or (index["format"], index["identity"]) != (FORMAT, identity):
        return None
    for name in (NAMES, ENDS):
        if sha256_of(folder / name) != index["files"][name]:
            if (folder / name).exists():
                quarantine(folder / name, then="it is written again")
            return None
    try:
        ends = np.load(folder / ENDS, mmap_mode="r", allow_pickle=False)
        names = pa.ipc.open_file(pa.memory_map(str(folder / NAMES))).read_all()
    except FileNotFoundError:  # removed meanwhile
        return None
    shards = Shards(folder, index, ends, names)
    numbers = range(len(index["shards"]))
    whole = all(_whole(shards.path(n), shards.size_of(n)) for n in numbers)
    return shards if whole else None


class _Packing:
    """One packing, inside the lock."""

    def __init__(
        self, source: Source, guard: Guard, folder: Path, identity: str, layout: Layout
    ) -> None:
        self.source, self.folder, self.layout = source, folder, layout
        self.identity = identity
        self.datasets = sorted(pc.unique(source.names["dataset"]).to_pylist())
        _ask(guard, source.names, None)
        self.name = key({"of": identity, **asdict(layout)})
        self.rows = placement(self.name, len(source.lengths))
        self.ends = np.zeros(len(self.rows) + 1, np.int64)
        np.cumsum(source.lengths[self.rows] * len(LEADS), out=self.ends[1:])

    def __call__(self, progress: Progress | None) -> None:
        lacking = self._lacking()
        self._demand_room()
        total = sum(len(self._of(number)) for number in lacking)
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done = min(done + more * self.layout.shard, total)
            if progress is not None:
                progress(done, total)

        on_all_cores([partial(self._write, number) for number in lacking], advance)
        for number in lacking:
            if not self._there(number):  # its process failed: the error is met here
                self._write(number)
                advance(1)
        self._conclude()

    @property
    def lacking(self) -> int:
        """Bytes of the shards that are lacking."""
        return sum(map(self._bytes, self._lacking()))

    @property
    def _shards(self) -> range:
        return range(math.ceil(len(self.rows) / self.layout.shard))

    def _lacking(self) -> list[int]:
        return [number for number in self._shards if not self._there(number)]

    def _of(self, number: int) -> np.ndarray:
        """Rows of the source that a shard holds, in their order."""
        return self.rows[number * self.layout.shard :][: self.layout.shard]

    def _there(self, number: int) -> bool:
        path = _shard(self.folder, number, self.layout)
        if not _whole(path, self._bytes(number)) or (noted := read_proved(_beside(path))) is None:
            return False
        # the number is lacking in notes of the first format
        return (noted["of"], noted.get("shard")) == (self.name, number)

    def _write(self, number: int) -> None:
        hashes: list[str] = []

        def content(out: BinaryIO) -> None:
            rows = self._of(number)
            for first in range(0, len(rows), self.layout.block):
                block = hashlib.sha256()
                for row in rows[first : first + self.layout.block].tolist():
                    values = self._values(row)
                    block.update(values)
                    out.write(values)
                hashes.append(block.hexdigest())

        path = _shard(self.folder, number, self.layout)
        put(path, content)
        put_proved(_beside(path), {"of": self.name, "shard": number, "blocks": hashes})

    def _values(self, row: int) -> bytes:
        name = Name(*(self.source.names[c][row].as_py() for c in ("dataset", "record")))
        signal = sound(name, self.source.read(row), int(self.source.lengths[row]))
        return np.ascontiguousarray(signal, self.layout.type).tobytes()

    def _demand_room(self) -> None:
        needed = self.lacking
        if needed > (free := free_bytes(self.folder)):
            raise WriteError(
                f"the shards need {size(needed)} in {self.folder}, which has {size(free)} free; "
                f"make room there, or name another folder (--set shards=DIR)"
            )

    def _bytes(self, number: int) -> int:
        return _numbers(self.ends, number, self.layout) * self.layout.type.itemsize

    def _conclude(self) -> None:
        """The tables and the index."""
        names = self.source.names.take(pa.array(self.rows))
        numbers = pc.index_in(names["dataset"], value_set=pa.array(self.datasets))
        records = names["record"].cast(pa.large_string())
        table = pa.table({"dataset": numbers.cast(pa.int16()), "record": records})

        def arrow(out: BinaryIO) -> None:
            with pa.ipc.new_file(out, table.schema) as written:
                written.write_table(table.combine_chunks(), max_chunksize=NOTED)

        put(self.folder / NAMES, arrow)
        put(self.folder / ENDS, as_npy(self.ends))
        notes = [read_proved(_beside(_shard(self.folder, n, self.layout))) for n in self._shards]
        about = {
            "format": FORMAT,
            "identity": self.identity,
            "layout": asdict(self.layout),
            "recordings": len(self.rows),
            "datasets": self.datasets,
            "files": {name: sha256_of(self.folder / name) for name in (NAMES, ENDS)},
            "shards": [_digest([] if note is None else note["blocks"]) for note in notes],
            **self.source.about,
        }
        put_proved(self.folder / INDEX, about)


def _ask(guard: Guard, names: pa.Table, datasets: list[str] | None) -> None:
    for dataset in pc.unique(names["dataset"]).to_pylist():
        records = names["record"].filter(pc.equal(names["dataset"], dataset))
        guard.ask(dataset if datasets is None else datasets[dataset], records)
    pa.default_memory_pool().release_unused()


def _numbers(ends: np.ndarray, shard: int, layout: Layout) -> int:
    """Numbers that a shard holds."""
    first, end = shard * layout.shard, min((shard + 1) * layout.shard, len(ends) - 1)
    return int(ends[end] - ends[first])


def _whole(path: Path, size: int) -> bool:
    try:
        there = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(there.st_mode) and there.st_size == size


def _shard(folder: Path, number: int, layout: Layout) -> Path:
    return folder / f"shard-{number:05}{SUFFIX[layout.kept]}"


def _beside(shard: Path) -> Path:
    """Where the hashes of a shard stand."""
    return shard.with_suffix(".json")


def _digest(blocks: list[str]) -> str:
    return hashlib.sha256("".join(blocks).encode()).hexdigest()
