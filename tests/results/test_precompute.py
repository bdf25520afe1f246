"""Values that several processes compute: all of them, whatever becomes of a process."""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ecgbench.core import parallel
from ecgbench.errors import Damaged
from ecgbench.results import precompute
from ecgbench.results.study import read
from tests.invented import VALIDATED, make

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")


@pytest.fixture(autouse=True)
def _all_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompute, "MOMENT", 0.0)
    monkeypatch.setattr(parallel, "cores", lambda: 2)


def each(pieces: list[Callable[[], object]]) -> list[object]:
    return precompute.each(None, None, ("work", "pieces"), pieces)


def test_values_come_back_in_their_order_from_other_processes() -> None:
    here = os.getpid()
    made = each([partial(lambda n: (n, os.getpid()), n) for n in range(20)])
    assert [n for n, _ in made] == list(range(20))  # type: ignore[misc]
    assert here not in {pid for _, pid in made}  # type: ignore[misc]
    assert each([lambda: None, lambda: None]) == [None, None]


def test_what_a_killed_process_took_with_it_is_computed_here() -> None:
    here = os.getpid()

    def killed(n: int) -> int:
        if os.getpid() != here and n == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    assert each([partial(killed, n) for n in range(6)]) == list(range(6))


@pytest.mark.parametrize("error", [Damaged("x is not what the run wrote"), MemoryError()])
def test_an_error_is_that_of_the_piece(error: Exception) -> None:
    def broken() -> object:
        raise error

    with pytest.raises(type(error)) as caught:
        each([lambda: 1, broken])
    assert caught.value is error


def test_what_cannot_be_sent_is_computed_here() -> None:
    (made,) = each([lambda: lambda: os.getpid()])
    assert made() == os.getpid()  # type: ignore[operator]


def test_cells_that_other_processes_scored_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = read(make(tmp_path / "run", VALIDATED).path)
    assert study.scorer is not None
    known = dict(study.scorer.known)
    assert len(known) == len(study.results)
    assert all(study.scorer(r, study.metric) in known.values() for r in study.results)
