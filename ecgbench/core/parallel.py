"""Work on all cores.

A process is forked for each core: it shares what this one has read, so it starts within
milliseconds. It sends back what a piece of work returns; large results are files, which this
process then reads.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any

Piece = Callable[[], object]
_pieces: Sequence[Piece] = ()
"""Pieces of this process, which its children call by number."""


def cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(
    pieces: Sequence[Piece],
    advance: Callable[[int], None] = lambda more: None,
    meanwhile: Piece = lambda: None,
    processes: int | None = None,
) -> list[Any]:
    """Call each piece in a forked process, in any order; `advance` is called with the number of
    newly finished ones, while this process calls `meanwhile`. Where forking is not safe, only
    `meanwhile` is called. processes: number at a time; None: one per core. Returns what each piece
    returned; None where it was not done.

    An error of a piece is silent, and so is the end of its process: whoever needs its result
    computes it, and sees the error.
    """
    global _pieces
    made: list[Any] = [None] * len(pieces)
    if sys.platform != "linux" or not pieces:
        meanwhile()
        return made
    _pieces = pieces
    pool = ProcessPoolExecutor(min(processes or cores(), len(pieces)), get_context("fork"), _begin)
    try:
        with warnings.catch_warnings():
            # other threads of ours draw progress; the child uses nothing that they hold
            warnings.simplefilter("ignore", DeprecationWarning)
            calls = {pool.submit(_call, number): number for number in range(len(pieces))}
        meanwhile()
        for call in as_completed(calls):
            if call.exception() is None:
                made[calls[call]] = call.result()
                advance(1)
    finally:
        _pieces = ()
        pool.shutdown(cancel_futures=True)
    return made


def _begin() -> None:
    """In the child."""
    from threadpoolctl import threadpool_limits

    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threadpool_limits(1)


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _call(number: int) -> object:
    return _pieces[number]()


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrix products inside use one thread, because the cores are shared, and so that last digits
    do not depend on their number.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
