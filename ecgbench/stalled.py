"""Notices when a command makes no progress: its main thread waits, and nothing that it started
computes.

A heartbeat would prove nothing, for the thread that gives it goes on when all others wait for one
another. What proves that work goes on is time on a processor, or a wish for some.
"""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from ecgbench import claims
from ecgbench.core.text import duration

LEAST = 120.0
"""Seconds without progress that a command has in any case: a slow disk may take some."""
CHECKS = 20
"""Looks without a sign of work, one after the other, that make a stall. They are counted, not
timed: a command that was suspended has made none.
"""
_AT_WORK = {"R", "D"}
"""States of a process that runs or would, or waits for a disk (proc(5))."""


@contextmanager
def noticed(seconds: float, log: Path, end: Callable[[str], None] | None = None) -> Iterator[None]:
    """Inside, the main thread is watched. After `seconds` without progress, where every thread
    stands is written to `log`, and `end` gets a line that says so; without `end` it is printed and
    the process ends with code 2.
    """
    watch = _Watch(seconds, log, end or _end)
    thread = threading.Thread(target=watch, name="ecgbench-stalled", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # there is no room for a thread; what needs one will say so
        yield
        return
    try:
        yield
    finally:
        watch.over.set()


class _Watch:
    def __init__(self, seconds: float, log: Path, end: Callable[[str], None]) -> None:
        self.seconds, self.log, self.end = seconds, log, end
        self.over = threading.Event()
        main = threading.main_thread().ident
        assert main is not None
        self._main = main

    def __call__(self) -> None:
        seen, quiet = self._signs(), 0
        while not self.over.wait(self.seconds / CHECKS):
            now = self._signs()
            quiet = quiet + 1 if now == seen else 0
            seen = now
            if quiet >= CHECKS:
                self.end(self._line())
                return

    def _signs(self) -> tuple[float, ...]:
        """Other numbers than the last time where something has worked, or waits for another
        command, which may take as long as it wants.
        """
        frames = list(_stack(sys._current_frames().get(self._main)))
        waits = any(f.f_code.co_filename == claims.__file__ for f in frames)
        used, wanted = _below(os.getpid())
        own = time.clock_gettime(time.pthread_getcpuclockid(self._main))
        return own, used, time.monotonic() if waits or wanted else 0.0

    def _line(self) -> str:
        frames = list(_stack(sys._current_frames().get(self._main)))
        package = os.path.dirname(__file__)
        ours = next((f for f in frames if f.f_code.co_filename.startswith(package)), None)
        where = ""
        if ours is not None:
            file = os.path.relpath(ours.f_code.co_filename, os.path.dirname(package))
            where = f" at {file}:{ours.f_lineno}"
        said = ""
        with suppress(OSError):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a") as out:
                print(time.strftime("== %Y-%m-%d %H:%M:%S"), file=out, flush=True)
                faulthandler.dump_traceback(out, all_threads=True)
            said = f"; where each thread waits: {self.log}"
        return (
            f"no progress for {duration(self.seconds)}: it waits{where}, and no process of it "
            f"computes{said}; a limit on memory (ulimit -v) or on processes can do this: allow "
            f"more, then run the same command again, which goes on from what is finished"
        )


def _end(line: str) -> None:
    print(f"ecgbench: {line}", file=sys.stderr, flush=True)
    os._exit(2)  # the main thread would not hear of it; what it started ends with it


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """The innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _below(top: int) -> tuple[float, bool]:
    """Ticks that all processes below one have computed, and whether one of them or the main thread
    of `top` is at work now; (0, False) where there is no /proc.
    """
    parents, ticks, working = dict[int, int](), dict[int, float](), {top: False}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                # the name of a program, in brackets, may hold anything
                words = file.read().rpartition(b")")[2].decode().split()
            parents[int(name)] = int(words[1])
            ticks[int(name)] = float(sum(map(int, words[11:15])))
            working[int(name)] = words[0] in _AT_WORK
    below, last = set[int](), {top}
    while last:
        last = {pid for pid, parent in parents.items() if parent in last} - below
        below |= last
    return sum(ticks[pid] for pid in below), any(working[pid] for pid in (*below, top))
