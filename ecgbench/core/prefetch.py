"""Prefetching: the next items are made in threads while the current one is used."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

GPU_THREADS = 4
"""Enough to keep a GPU busy; a CPU needs one."""

Item = TypeVar("Item")
Made = TypeVar("Made")


def prefetched(
    make: Callable[[Item], Made], items: Iterable[Item], threads: int = 1
) -> Generator[Made, None, None]:
    """`make` of each item, in their order; at most `threads` run or wait.

    >>> list(prefetched(abs, [-3, 2, -1], threads=2))
    [3, 2, 1]
    """
    rest = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        coming: deque[Future[Made]] = deque(pool.submit(make, i) for i in islice(rest, threads))
        try:
            while coming:
                made = coming.popleft().result()
                coming.extend(pool.submit(make, item) for item in islice(rest, 1))
                yield made
        finally:
            for future in coming:
                future.cancel()


def threads_for(device: str) -> int:
    """Number of threads for a kind of device ("cpu", "cuda")."""
    return 1 if device == "cpu" else GPU_THREADS
