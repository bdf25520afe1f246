"""Arrays that a process and those forked from it hand to one another.

They stand in one file that has no name: it needs no place in a run, nobody else can open it, and it
is gone with the last of these processes, however they end. What is put there is appended in one
write; what was cut off by a full disk or a kill, and all after it, is not read.
"""

import fcntl
import json
import math
import os
import struct
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

_HEAD = struct.Struct("=16sQI")
"""Key, bytes that follow, and their CRC-32."""
FREE = 2**30
"""Bytes that are left free on the disk."""


class Shelf:
    """Arrays by a key of 16 bytes. Nothing is kept before `share`."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._at: dict[bytes, tuple[int, int, int]] = {}
        """Key -> where its bytes begin, how many they are, and their CRC-32."""
        self._seen = 0

    def share(self) -> None:
        """From now on with processes that are forked; where no file can be made, with none."""
        if self._file is None:
            try:
                with tempfile.TemporaryFile(buffering=0) as file:
                    self._file = os.dup(file.fileno())
                fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)
            except OSError:
                self._file = None

    def put(self, key: bytes, arrays: Mapping[str, np.ndarray]) -> None:
        """For the others; nothing where there is no room."""
        if self._file is None:
            return
        disk = os.fstatvfs(self._file)
        if disk.f_bavail * disk.f_frsize < FREE:
            return
        content = _written(arrays)
        with suppress(OSError):  # a full disk: the others read it where it came from
            os.write(self._file, _HEAD.pack(key, len(content), zlib.crc32(content)) + content)

    def get(self, key: bytes) -> dict[str, np.ndarray] | None:
        """What anyone put; None where nobody did."""
        if self._file is None:
            return None
        if key not in self._at:
            self._look()
        if key not in self._at:
            return None
        start, size, crc = self._at[key]
        content = os.pread(self._file, size, start)
        if len(content) < size or zlib.crc32(content) != crc:
            return None
        return _read(content)

    def _look(self) -> None:
        """Learn what was put since."""
        assert self._file is not None
        end = os.fstat(self._file).st_size
        while self._seen + _HEAD.size <= end:
            key, size, crc = _HEAD.unpack(os.pread(self._file, _HEAD.size, self._seen))
            start = self._seen + _HEAD.size
            if start + size > end:
                break
            self._at[key] = start, size, crc
            self._seen = start + size


def _written(arrays: Mapping[str, np.ndarray]) -> bytes:
    """A line that says what the arrays are, then their numbers; numpy's own archives take ten times
    as long for arrays as small as a cell's. ValueError where an array holds objects.
    """
    if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise ValueError(f"{objects[0]} holds objects")
    said = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    return b"".join([json.dumps(said).encode(), b"\n", *(a.tobytes() for a in arrays.values())])


def _read(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of `_written`."""
    at = content.index(b"\n") + 1
    made = {}
    for name, kind, shape in json.loads(content[:at]):
        flat = np.frombuffer(content, kind, math.prod(shape), at)
        made[name] = flat.reshape(shape).copy()
        at += flat.nbytes
    return made
