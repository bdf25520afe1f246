"""Values that several processes compute: all of them, whatever becomes of a process."""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial

import pytest

from ecgbench.errors import Damaged
from ecgbench.results import precompute

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")


@pytest.fixture(autouse=True)
def _all_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompute, "MOMENT", 0.0)


def each(pieces: list[Callable[[], object]]) -> list[object]:
    return precompute.each(None, None, ("work", "pieces"), pieces)


def test_values_come_back_in_their_order_from_other_processes() -> None:
    here = os.getpid()
    made = each([partial(lambda n: (n, os.getpid()), n) for n in range(20)])
    assert [n for n, _ in made] == list(range(20))  # type: ignore[misc]
    assert here not in {pid for _, pid in made}  # type: ignore[misc]
    assert each([lambda: None, lambda: None]) == [None, None]


def test_what_killed_processes_took_with_them_is_computed_here() -> None:
    here = os.getpid()

    def killed(n: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    assert each([partial(killed, n) for n in range(50)]) == list(range(50))


@pytest.mark.parametrize("error", [Damaged("x is not what the run wrote"), MemoryError()])
def test_an_error_is_that_of_the_piece(error: Exception) -> None:
    def broken() -> object:
        raise error

    with pytest.raises(type(error)) as caught:
        each([lambda: 1, broken])
    assert caught.value is error
