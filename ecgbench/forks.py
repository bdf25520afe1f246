"""Work on all cores, for what it leaves on disk.

A process forked for each core holds what this one has read, and starts within milliseconds. What it
computes is kept in files; this process then reads those. Nothing else comes back: where such a
process is killed, its work is simply not there yet.
"""

import ctypes
import os
import select
import signal
import struct
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from ecgbench.processes import goes_first

Piece = Callable[[], object]
_NUMBER = struct.Struct("=I")
_AT_ONCE = select.PIPE_BUF // _NUMBER.size
"""Numbers that a pipe takes for certain, and as one."""
_END_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""


def cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(
    pieces: Sequence[Piece],
    advance: Callable[[int], None] = lambda more: None,
    meanwhile: Piece = lambda: None,
) -> None:
    """Call each piece in some process of its own core, in any order; `advance` is told how many
    more are done, and this process calls `meanwhile`. Where processes cannot be forked safely,
    nothing is done but that.

    A piece that raises ends its process quietly: whoever needs what it keeps computes it, and sees
    the error.
    """
    if sys.platform != "linux" or not pieces:
        meanwhile()
        return
    waiting = list(range(len(pieces)))
    took, give = os.pipe()
    done, tell = os.pipe()
    children: list[int] = []
    try:
        for _ in range(min(cores(), len(pieces))):
            with warnings.catch_warnings():
                # other threads of ours draw progress; the child uses nothing that they hold
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                _work(pieces, took, tell, (give, done))
            children.append(child)
        os.close(took)
        os.close(tell)
        took = tell = -1
        give = _handed_out(waiting, give)
        meanwhile()
        while finished := os.read(done, 4096):
            advance(len(finished))
            give = _handed_out(waiting, give)
    except BrokenPipeError:
        pass  # all of them were killed
    finally:
        for end in (took, tell, give, done):
            if end >= 0:
                os.close(end)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _handed_out(waiting: list[int], give: int) -> int:
    """The pipe of work after as many numbers as it takes; closed (-1) after the last."""
    while waiting and select.select([], [give], [], 0)[1]:
        some, waiting[:_AT_ONCE] = waiting[:_AT_ONCE], []
        os.write(give, b"".join(map(_NUMBER.pack, some)))
    if not waiting and give >= 0:
        os.close(give)
        return -1
    return give


def _work(pieces: Sequence[Piece], took: int, tell: int, others: Sequence[int]) -> NoReturn:
    """In the child."""
    code = 1
    try:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
        goes_first()
        for end in others:
            os.close(end)
        with one_thread():
            while number := os.read(took, _NUMBER.size):
                pieces[_NUMBER.unpack(number)[0]]()
                os.write(tell, b".")
        code = 0
    finally:
        os._exit(code)  # nothing of the parent is flushed, waited for or told


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrix products inside use one thread: where the cores are shared, and so that their last
    digit does not depend on how many there are.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
