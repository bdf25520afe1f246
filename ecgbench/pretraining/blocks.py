"""Blocks of shards: mapped, and compared with their hashes before they are read.

Shards are mapped, so processes of one machine share what is in memory: one copy, which the system
gives up when others need the room. What a process itself has mapped is bounded: a block that was
not read for as long as the buffer is deep is released. Each block is compared with its sha256 once
in each process, before its first sample is handed out; the blocks that come next are compared, and
so brought into memory, in threads, while those at hand are used.

A shard is never changed once it is written: a new one takes its place by a rename, as when another
process found a block damaged and packed the shard anew. So what was compared is one file, not a
name, and samples are taken from that file alone. A file that is cut short while it is mapped, or a
disk that fails, ends the process (SIGBUS): the same command then goes on from the last checkpoint.
"""

import hashlib
import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ecgbench.core.files import quarantine
from ecgbench.errors import DamagedCopy
from ecgbench.pretraining.shards import Shards

MAPPED = 256
"""Shards that are mapped at once; each takes a file handle, of which a process often has 1,024."""
THREADS = 2
"""That compare blocks with their hashes, ahead of those that cut windows."""
_PIECE = 2**20
"""Bytes that are hashed at a time."""


class _Which(NamedTuple):
    """A file, whatever its name is. No other one has its inode while it is mapped; of one that is
    not, size and time tell.
    """

    disk: int
    inode: int
    size: int
    written: int

    @classmethod
    def of(cls, file: Path | int) -> "_Which | None":
        """Of a name or an open file; None where there is no file."""
        try:
            there = os.stat(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return cls(there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns)


@dataclass(frozen=True, eq=False)
class _Open:
    """A shard that is mapped."""

    which: _Which
    mapped: mmap.mmap
    values: np.ndarray
    """All its numbers."""
    sound: np.ndarray
    """(block of the shard,) bool: has its hash in this file."""


class _Unfit(Exception):
    """A shard is not as it was written."""

    def __init__(self, which: _Which | None) -> None:
        """which: the file that was judged; None where there was none."""
        super().__init__(which)
        self.which = which


class Blocks:
    """The blocks that are near: mapped, compared with their hashes, released when they are not."""

    def __init__(self, shards: Shards, most: int) -> None:
        """most: blocks that stay mapped."""
        self._shards, self._most, self._layout = shards, most, shards.layout
        self._near: OrderedDict[int, None] = OrderedDict()
        self._maps: OrderedDict[int, _Open] = OrderedDict()
        self._sound: dict[int, tuple[_Which, np.ndarray]] = {}
        """Of every shard that was opened, what `_Open.sound` says of the last file."""
        self._hashes: dict[int, list[str]] = {}
        self._expected: frozenset[int] = frozenset()
        self._lock = threading.Lock()
        self._checks: dict[int, Future[None]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "shards")

    def values(self, blocks: np.ndarray) -> dict[int, np.ndarray]:
        """Number of a shard -> all its numbers, of which those of `blocks` may be read. DamagedCopy
        where one is not as it was written.
        """
        wanted = blocks.tolist()
        while True:
            with self._lock:
                files = {n: self._mapped(n) for n in dict.fromkeys(map(self._shard, wanted))}
                unknown = [b for b in wanted if not files[self._shard(b)].sound[self._within(b)]]
                if not unknown:
                    self._touch(wanted)
                    return {number: file.values for number, file in files.items()}
            # of a shard that was packed anew they map the new file, so all is looked at again
            for block, check in [(block, self._check(block)) for block in unknown]:
                with _told(self._shards.path(self._shard(block))):
                    check.result()

    def expect(self, blocks: np.ndarray) -> None:
        """These come next: threads compare them, or ask the system to read them."""
        coming = frozenset(blocks.tolist())
        if coming and coming != self._expected:
            self._expected = coming
            for block in sorted(coming):
                _, sound = self._sound.get(self._shard(block), (None, None))
                if sound is not None and sound[self._within(block)]:
                    self._threads.submit(self._announce, block)
                else:
                    self._check(block)

    def _check(self, block: int) -> Future[None]:
        """A comparison of a block with its hash; one at a time however many threads ask."""
        with self._lock:
            if block not in self._checks:
                self._checks[block] = self._threads.submit(self._compare, block)
            return self._checks[block]

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

    def _within(self, block: int) -> int:
        """The number of a block in its shard."""
        return block - self._shard(block) * (self._layout.shard // self._layout.block)

    def _bytes(self, block: int) -> tuple[int, int]:
        """Where a block begins in its shard, and how long it is."""
        ends, size = self._shards.ends, self._layout.type.itemsize
        first = block * self._layout.block
        end = min(first + self._layout.block, len(ends) - 1)
        begun = ends[self._shard(block) * self._layout.shard]
        return int(ends[first] - begun) * size, int(ends[end] - ends[first]) * size

    def _compare(self, block: int) -> None:
        """Whether a block has its hash in the file that has the shard's name now, which is then the
        one that is mapped. Read, not mapped: a failing disk is then an error. _Unfit.
        """
        try:
            number, total = self._shard(block), hashlib.sha256()
            path, (first, left) = self._shards.path(number), self._bytes(block)
            piece = memoryview(bytearray(_PIECE))
            with _opened(path) as file:
                with self._lock:
                    mapped = self._of(number, file)
                file.seek(first)
                while left and (count := file.readinto(piece[: min(left, _PIECE)])):
                    total.update(piece[:count])
                    left -= count
            if total.hexdigest() != self._hash(number, self._within(block)):
                raise _Unfit(mapped.which)
            mapped.sound[self._within(block)] = True
        finally:
            with self._lock:
                del self._checks[block]

    def _hash(self, number: int, within: int) -> str:
        """The hash of a block; "" where those of its shard are not as they were written."""
        if number not in self._hashes and (hashes := self._shards.hashes(number)) is not None:
            self._hashes[number] = hashes
        return self._hashes[number][within] if number in self._hashes else ""

    def _mapped(self, number: int) -> _Open:
        """A shard; inside the lock. DamagedCopy."""
        if (there := self._maps.get(number)) is not None:
            self._maps.move_to_end(number)
            return there
        path = self._shards.path(number)
        with _told(path), _opened(path) as file:
            return self._of(number, file)

    def _of(self, number: int, file: FileIO) -> _Open:
        """An open file as the shard that is mapped; inside the lock. _Unfit."""
        which, there = _Which.of(file.fileno()), self._maps.get(number)
        if there is None or there.which != which:
            size = self._shards.size_of(number)
            if which is None or which.size != size:
                raise _Unfit(which)
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            if number not in self._sound or self._sound[number][0] != which:
                blocks = self._layout.shard // self._layout.block
                self._sound[number] = which, np.zeros(blocks, bool)
            values = np.frombuffer(mapped, self._layout.type)
            there = self._maps[number] = _Open(which, mapped, values, self._sound[number][1])
        self._maps.move_to_end(number)
        if len(self._maps) > MAPPED:
            self._maps.popitem(last=False)
        return there

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
                held.mapped.madvise(mmap.MADV_DONTNEED, begun, first + count - begun)


def _opened(path: Path) -> FileIO:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise _Unfit(None) from None


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """DamagedCopy in place of what a look at a shard met."""
    try:
        yield
    except _Unfit as found:
        raise _damaged(path, found.which) from None
    except OSError as error:
        raise DamagedCopy(
            f"{path} cannot be read ({error.strerror}); repair that disk, or pack the corpus on "
            f"another one: --set shards=DIR"
        ) from error


def _damaged(path: Path, which: _Which | None) -> DamagedCopy:
    """The error of a shard, which is set aside: the file that was judged, and not one that another
    process has packed in its place.
    """
    said = f"{path} is not as it was written"
    if which is not None and _Which.of(path) == which:
        quarantine(path, then="this pre-training ends")
        if _Which.of(path) == which:
            return DamagedCopy(
                f"{said}, and it cannot be set aside; pack the corpus into a folder that can be "
                f"written: --set shards=DIR"
            )
    return DamagedCopy(
        f"{said}; run the same command again, which packs this shard anew and goes on"
    )
