"""Tables of what was computed: several processes write them, and nothing is computed twice."""

from contextlib import suppress
from pathlib import Path

import numpy as np

from ecgbench.results.cache import MANY, Cache


def square(cache: Cache, number: int) -> list[float]:
    made = cache.row("t", {"number": number}, lambda: {"all": np.array([number, number**2], float)})
    return list(made["all"])


def never() -> dict[str, float]:
    raise AssertionError("computed again")


def test_what_two_processes_write_at_once_is_read_by_a_third(tmp_path: Path) -> None:
    """Also while one of them puts all files into one."""
    one, other = Cache(tmp_path), Cache(tmp_path)
    for number in range(MANY):
        square(one, number)
    square(other, 100)
    one.refresh()
    square(other, 101)
    third = Cache(tmp_path)
    for number in (*range(MANY), 100, 101):
        row = third.row("t", {"number": number}, never)
        assert row["all"].tolist() == [number, number**2]
    assert len(list((tmp_path / "t").iterdir())) == 2


def test_what_is_computed_together_is_one_file_and_survives_an_error(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with suppress(RuntimeError), cache.one_file():
        with cache.one_file():
            assert [square(cache, n) for n in (1, 2)] == [[1, 1], [2, 4]]
        assert square(cache, 3) == [3, 9]
        assert not (tmp_path / "t").exists()
        raise RuntimeError
    assert len(list((tmp_path / "t").iterdir())) == 1
    assert Cache(tmp_path).row("t", {"number": 2}, never)["all"].tolist() == [2, 4]


def test_where_nothing_is_kept_no_file_is_written(tmp_path: Path) -> None:
    cache = Cache(tmp_path, keep=False)
    assert square(cache, 3) == square(cache, 3)
    assert not list(tmp_path.iterdir())
