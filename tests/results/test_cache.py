"""Tables of what was computed: several processes write them, and nothing is computed twice."""

from contextlib import suppress
from pathlib import Path

import numpy as np

from ecgbench.results.cache import MANY, Table


def square(table: Table, number: int) -> list[float]:
    made = table.row({"number": number}, lambda: {"all": np.array([number, number**2], float)})
    return list(made["all"])


def never() -> dict[str, float]:
    raise AssertionError("computed again")


def test_what_two_processes_write_at_once_is_read_by_a_third(tmp_path: Path) -> None:
    """Also while one of them puts all files into one."""
    one, other = Table(tmp_path / "t"), Table(tmp_path / "t")
    for number in range(MANY):
        square(one, number)
    square(other, 100)
    one.refresh()
    square(other, 101)
    third = Table(tmp_path / "t")
    for number in (*range(MANY), 100, 101):
        row = third.row({"number": number}, never)
        assert row["all"].tolist() == [number, number**2]
    assert len(list((tmp_path / "t").iterdir())) == 2


def test_what_is_computed_together_is_one_file_and_survives_an_error(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    with suppress(RuntimeError), table.one_file():
        with table.one_file():
            assert [square(table, n) for n in (1, 2)] == [[1, 1], [2, 4]]
        assert square(table, 3) == [3, 9]
        assert not (tmp_path / "t").exists()
        raise RuntimeError
    assert len(list((tmp_path / "t").iterdir())) == 1
    assert Table(tmp_path / "t").row({"number": 2}, never)["all"].tolist() == [2, 4]


def test_where_nothing_is_kept_no_file_is_written(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", keep=False)
    assert square(table, 3) == square(table, 3)
    assert not list(tmp_path.iterdir())
