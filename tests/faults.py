"""Steps that touch the disk, counted and made to fail: a folder made, a file opened, bytes written,
fsync, truncate, rename.
"""

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

KINDS: dict[str, tuple[Callable[..., BaseException], bool]] = {
    # a full disk stays full
    "space": (lambda *path: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *path), True),
    "io": (lambda *path: OSError(errno.EIO, os.strerror(errno.EIO), *path), False),
    "interrupt": (lambda *path: KeyboardInterrupt(), False),
}
TOLD = {
    "space": "No space left on device",
    "io": "Input/output error",
    "interrupt": "interrupted; ",
}
NEVER = 10**9


@dataclass
class Faults:
    """Counts the steps below a folder; from the `at`-th on (or there only) they fail in one of
    KINDS.
    """

    below: Path
    at: int = NEVER
    kind: str = "io"
    steps: list[str] = field(default_factory=list)

    def step(self, act: str, path: Any) -> None:
        if isinstance(path, int):  # fsync of an open file
            path = (
                os.readlink(f"/proc/self/fd/{path}")
                if Path("/proc/self/fd").exists()
                else self.below
            )
        if not Path(os.fsdecode(path)).is_relative_to(self.below):
            return
        self.steps.append(f"{act} {Path(os.fsdecode(path)).relative_to(self.below)}")
        error, lasts = KINDS[self.kind]
        if len(self.steps) == self.at or (lasts and len(self.steps) > self.at):
            # as the system does
            raise error() if act in ("write", "fsync", "truncate") else error(str(path))

    @property
    def met(self) -> bool:
        return len(self.steps) >= self.at


class _Raw(io.FileIO):
    """A file whose writes are steps; the one that fails has written half of its bytes."""

    faults: Faults

    def write(self, data: Any, /) -> int:
        try:
            self.faults.step("write", self.name)
        except OSError:
            super().write(memoryview(data)[: len(data) // 2])
            raise
        return super().write(data)

    def truncate(self, size: int | None = None, /) -> int:
        self.faults.step("truncate", self.name)
        return super().truncate(size)


@contextmanager
def failing(faults: Faults) -> Iterator[Faults]:
    """The steps of this process are counted, and fail as `faults` says."""
    plain_open = io.open

    def opened(file: Any, mode: str = "r", *words: Any, **named: Any) -> Any:
        if (
            not set(mode) & set("wax+")
            or isinstance(file, int)
            or not Path(os.fsdecode(file)).is_relative_to(faults.below)
        ):
            return plain_open(file, mode, *words, **named)
        faults.step("open", file)
        raw = _Raw(os.fsdecode(file), mode.replace("b", "").replace("t", ""))
        raw.faults = faults
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")

    def counted(act: str) -> Callable[..., Any]:
        plain = getattr(os, act)

        def call(path: Any, *words: Any, **named: Any) -> Any:
            faults.step(act, path)
            return plain(path, *words, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for act in ("mkdir", "replace", "rename", "fsync", "truncate", "ftruncate"):
            patch.setattr(os, act, counted(act))
        patch.setattr(io, "open", opened)
        patch.setattr("builtins.open", opened)
        yield faults
