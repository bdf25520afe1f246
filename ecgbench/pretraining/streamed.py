"""A corpus that is read from shards on disk, a buffer at a time.

Shards are mapped, so processes of one machine share what is in memory: one copy, which the system
gives up when others need the room. What a process itself has mapped is bounded: a block that was
not read for as long as the buffer is deep is released. Each block is compared with its sha256 once
in each process, before its first sample is handed out; the blocks that come next are compared, and
so brought into memory, in threads, while those at hand are used.

A shard is never changed once it is written: a new one takes its place by a rename, and who has the
old one mapped keeps it. A file that is cut short while it is mapped, or a disk that fails, ends the
process (SIGBUS): the same command then goes on from the last checkpoint.
"""

import hashlib
import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.aside import set_aside
from ecgbench.cells import key
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, DamagedCopy
from ecgbench.pretraining.corpus import Recordings
from ecgbench.pretraining.guard import Guard
from ecgbench.pretraining.order import Buffered
from ecgbench.pretraining.shards import Shards

BUFFER = 16_384
"""Recordings that are shuffled together: 393 MB where they last 10 s."""
MAPPED = 256
"""Shards that are mapped at once; each takes a file handle, of which a process often has 1,024."""
THREADS = 2
"""That compare blocks with their hashes, ahead of those that cut windows."""
_PIECE = 2**20
"""Bytes that are hashed at a time."""


class Streamed(Recordings):
    """Recordings in shards. Nothing that grows with their number is an object of this process."""

    def __init__(self, shards: Shards, guard: Guard, buffer: int = BUFFER) -> None:
        """buffer: recordings that are shuffled together, a multiple of the block. LeakError where
        the guard refuses one of all the recordings; BadSetting: a buffer that is no such multiple.
        """
        block = shards.layout.block
        demand_buffer(buffer, block)
        self.shards, self._guard, self.buffer = shards, guard, buffer
        self._asked: Guard | None = None
        self.samples, self.too_short = int(shards.index["samples"]), int(shards.index["too_short"])
        self._order = Buffered(len(self), block, buffer)
        self._blocks = _Blocks(shards, most=buffer // block)
        self._ask(np.zeros(0, np.int64))

    def __len__(self) -> int:
        return int(self.shards.index["recordings"])

    @property
    def stream(self) -> dict[str, Any]:
        """block, shard and buffer, in recordings."""
        layout = self.shards.layout
        return {"block": layout.block, "shard": layout.shard, "buffer": self.buffer}

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of the index, in which the hashes of names and samples stand, and of the
        buffer.
        """
        return key({"shards": self.shards.index, "buffer": self.buffer})

    def shuffled(self, first: int, end: int, *words: str | int) -> np.ndarray:
        """Blocks are permuted and taken in groups, a buffer each, whose recordings are permuted;
        the group after this one is brought into memory meanwhile.
        """
        following = self._order.groups(first, end, words)[-1] + 1
        self._blocks.expect(self._order.blocks(following, words))
        return self._order.rows(first, end, words)

    def _ask(self, rows: np.ndarray) -> None:
        """A guard is asked once, of all recordings at once."""
        if self._asked is not self._guard:
            self.shards.ask(self._guard)
            self._asked = self._guard

    def _lengths(self, rows: np.ndarray) -> np.ndarray:
        ends = self.shards.ends
        return np.asarray((ends[rows + 1] - ends[rows]) // len(LEADS))

    def _copy(self, rows: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        layout, ends = self.shards.layout, self.shards.ends
        lengths, numbers = self._lengths(rows).tolist(), rows // layout.shard
        firsts = (ends[rows] - ends[numbers * layout.shard]).tolist()
        values = self._blocks.values(np.unique(rows // layout.block))
        places = zip(numbers.tolist(), firsts, lengths, starts.tolist())
        for window, (number, first, length, start) in zip(out, places):
            recording = values[number][first : first + len(LEADS) * length].reshape(len(LEADS), -1)
            window[:] = recording[:, start : start + self.samples]


def demand_buffer(buffer: int, block: int) -> None:
    """BadSetting where a buffer is no multiple of a block."""
    if buffer < block or buffer % block:
        raise BadSetting(
            f"--buffer {buffer}: a multiple of {block}, the recordings that lie together on disk, "
            f"for example {BUFFER}"
        )


class _Blocks:
    """The blocks that are near: mapped, compared with their hashes, released when they are not."""

    def __init__(self, shards: Shards, most: int) -> None:
        """most: blocks that stay mapped."""
        self._shards, self._most, self._layout = shards, most, shards.layout
        recordings = int(shards.index["recordings"])
        self._sound = np.zeros(-(-recordings // self._layout.block), bool)
        self._near: OrderedDict[int, None] = OrderedDict()
        self._maps: OrderedDict[int, tuple[mmap.mmap, np.ndarray]] = OrderedDict()
        self._hashes: dict[int, list[str] | None] = {}
        self._expected: frozenset[int] = frozenset()
        self._lock = threading.Lock()
        self._checks: dict[int, Future[bool]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "shards")

    def values(self, blocks: np.ndarray) -> dict[int, np.ndarray]:
        """Number of a shard -> all its numbers, of which those of `blocks` may be read. DamagedCopy
        where one is not as it was written.
        """
        unknown = [(b, self._check(b)) for b in blocks[~self._sound[blocks]].tolist()]
        for block, check in unknown:
            self._demand(block, check)
        with self._lock:
            found = {number: self._mapped(number) for number in map(self._shard, blocks.tolist())}
            self._touch(blocks.tolist())
        return found

    def expect(self, blocks: np.ndarray) -> None:
        """These come next: threads compare them, or ask the system to read them."""
        coming = frozenset(blocks.tolist())
        if coming and coming != self._expected:
            self._expected = coming
            for block in sorted(coming):
                if self._sound[block]:
                    self._threads.submit(self._announce, block)
                else:
                    self._check(block)

    def _check(self, block: int) -> Future[bool]:
        """Whether a block has its hash, found out once however many threads ask."""
        with self._lock:
            if block not in self._checks:
                self._checks[block] = self._threads.submit(self._fits, block)
            return self._checks[block]

    def _demand(self, block: int, check: Future[bool]) -> None:
        path = self._shards.path(self._shard(block))
        try:
            fits = check.result()
        except OSError as error:
            raise DamagedCopy(
                f"{path} cannot be read ({error.strerror}); repair that disk, or pack the corpus "
                f"on another one: --shards DIR"
            ) from error
        if not fits:
            raise _damaged(path)
        self._sound[block] = True
        with self._lock:
            self._checks.pop(block, None)

    def _announce(self, block: int) -> None:
        first, count = self._bytes(block)
        # what the system does not read now it reads when it is needed
        with (
            suppress(OSError, AttributeError),
            self._shards.path(self._shard(block)).open("rb") as f,
        ):
            os.posix_fadvise(f.fileno(), first, count, os.POSIX_FADV_WILLNEED)

    def _shard(self, block: int) -> int:
        return block * self._layout.block // self._layout.shard

    def _bytes(self, block: int) -> tuple[int, int]:
        """Where a block begins in its shard, and how long it is."""
        ends, size = self._shards.ends, self._layout.type.itemsize
        first = block * self._layout.block
        end = min(first + self._layout.block, len(ends) - 1)
        begun = ends[self._shard(block) * self._layout.shard]
        return int(ends[first] - begun) * size, int(ends[end] - ends[first]) * size

    def _fits(self, block: int) -> bool:
        """Whether a block has its hash. Read, not mapped: a failing disk is then an error."""
        number, total = self._shard(block), hashlib.sha256()
        if number not in self._hashes:
            self._hashes[number] = self._shards.hashes(number)
        hashes, (first, left) = self._hashes[number], self._bytes(block)
        if hashes is None:
            return False
        piece = memoryview(bytearray(_PIECE))
        try:
            with self._shards.path(number).open("rb", buffering=0) as file:
                file.seek(first)
                while left and (count := file.readinto(piece[: min(left, _PIECE)])):
                    total.update(piece[:count])
                    left -= count
        except FileNotFoundError:
            return False
        before = number * self._layout.shard // self._layout.block
        return total.hexdigest() == hashes[block - before]

    def _mapped(self, number: int) -> np.ndarray:
        """The numbers of a shard; inside the lock."""
        if number not in self._maps:
            path, size = self._shards.path(number), self._shards.size_of(number)
            if not path.is_file() or path.stat().st_size != size:
                raise _damaged(path)
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            self._maps[number] = mapped, np.frombuffer(mapped, self._layout.type)
            if len(self._maps) > MAPPED:
                self._maps.popitem(last=False)
        self._maps.move_to_end(number)
        return self._maps[number][1]

    def _touch(self, blocks: Iterable[int]) -> None:
        """Release what was not read for long; inside the lock."""
        for block in blocks:
            self._near[block] = None
            self._near.move_to_end(block)
        while len(self._near) > self._most:
            block, _ = self._near.popitem(last=False)
            if (held := self._maps.get(self._shard(block))) is not None:
                first, count = self._bytes(block)
                begun = first - first % mmap.PAGESIZE
                # what shares its first page is read again from the same file
                held[0].madvise(mmap.MADV_DONTNEED, begun, first + count - begun)


def _damaged(path: Path) -> DamagedCopy:
    """The error of a shard, which is set aside."""
    if path.exists():
        set_aside(path, then="the same command packs it again")
    return DamagedCopy(
        f"{path} is not as it was written; run the same command again, which packs this shard anew "
        f"and goes on"
    )
