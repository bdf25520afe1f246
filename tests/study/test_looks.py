"""Questions to several models at once: each of them answered once, a process for each plug-in, and
as many at a time as there are cores.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ecgbench.study import looks
from ecgbench.study.engine import Setup, ask, ask_all
from ecgbench.study.events import Died, Event, Over
from ecgbench.study.job import Job, Look
from ecgbench.study.looks import IDLE, Looks


class Noted:
    """An engine whose jobs take three calls each; one model's process dies."""

    opened: list["Noted"]

    def __init__(self, setup: Setup) -> None:
        self.seen: list[str] = []
        self.left, self.closed = 0, False
        self.opened.append(self)

    def submit(self, job: Job) -> None:
        assert not self.left, "one job at a time"
        assert not self.closed
        self.seen.append(job.id)
        self.left = 3

    def events(self, timeout: float) -> Iterator[Event]:
        self.left -= 1
        if self.left:
            return
        name = self.seen[-1]
        if name == "look m3":
            yield Died(name, reason="gone", log="")
        else:
            yield Over(name, answer={"policy": "zero"})

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Looks]:
    Noted.opened = []
    monkeypatch.setattr(looks, "start", lambda name, setup: Noted(setup))
    monkeypatch.setattr(looks, "cores", lambda: 2)
    made = Looks(Setup(logs=tmp_path, patience=5, show=lambda event: None))
    yield made
    made.close()
    assert all(one.closed for one in Noted.opened)


def job(model: str) -> Look:
    plugins = (("models", f"./{model}.py"),)
    return Look(id=f"look {model}", model=model, weights=None, contract="paper", plugins=plugins)


def test_each_is_answered_once_and_two_at_a_time(engine: Looks) -> None:
    names = [f"m{i}" for i in range(7)]
    found = ask_all(engine, [job(n) for n in names])
    assert found == {
        f"look {n}": {"failed": "gone"} if n == "m3" else {"policy": "zero"} for n in names
    }
    assert sorted(x for one in Noted.opened for x in one.seen) == [f"look {n}" for n in names]
    assert sum(not one.closed for one in Noted.opened) <= IDLE + 2
    again = job("m6")
    assert ask(engine, again) == {"policy": "zero"}
    assert len(Noted.opened) == 7, "the process that waits is asked again"
