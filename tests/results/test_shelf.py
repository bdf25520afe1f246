"""What forked processes hand to one another comes whole or not at all."""

import os
import resource

import numpy as np
import pytest

from ecgbench.core.parallel import on_all_cores
from ecgbench.results.shelf import Shelf

KEYS = [bytes([k] * 16) for k in range(40)]


def made(k: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(k)
    return {
        "wins": random.integers(0, 9, (k * 50, 7), dtype=np.uint16),
        "names": np.array(["é", "b"]),
    }


def same(found: dict[str, np.ndarray] | None, k: int) -> bool:
    assert found is not None
    return all(
        np.array_equal(found[n], a) and found[n].dtype == a.dtype for n, a in made(k).items()
    )


def test_what_several_processes_put_at_once_each_of_them_gets() -> None:
    shelf = Shelf()
    shelf.put(KEYS[0], made(0))
    assert shelf.get(KEYS[0]) is None  # nothing is kept before it is shared
    shelf.share()
    on_all_cores([lambda k=k: shelf.put(KEYS[k], made(k)) for k in range(40)])
    assert all(same(shelf.get(KEYS[k]), k) for k in range(40))
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.write(write, b"y" if same(shelf.get(KEYS[7]), 7) else b"n")
        finally:
            os._exit(0)
    assert os.read(read, 1) == b"y"


def test_the_last_of_a_disk_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    shelf.share()
    monkeypatch.setattr("ecgbench.results.shelf.FREE", 2**62)
    shelf.put(KEYS[1], made(1))
    assert shelf.get(KEYS[1]) is None


@pytest.mark.parametrize("kept", [4, 30, 5000])
def test_what_a_full_disk_cut_off_is_not_read(kept: int) -> None:
    shelf = Shelf()
    shelf.share()
    shelf.put(KEYS[1], made(1))
    assert same(shelf.get(KEYS[1]), 1)
    size = os.fstat(shelf._file or 0).st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + kept, before[1]))
    try:
        shelf.put(KEYS[20], made(20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert shelf.get(KEYS[20]) is None
    shelf.put(KEYS[3], made(3))
    again = shelf.get(KEYS[3])
    assert again is None or same(again, 3)
    assert same(shelf.get(KEYS[1]), 1)
