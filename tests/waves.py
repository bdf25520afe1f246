"""A few waves to pre-train on, and one who follows the work and stops it where he is told to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ecgbench.models import laef
from ecgbench.pretrain.corpus import Corpus
from ecgbench.pretrain.curve import Listener, Report
from ecgbench.pretrain.exclusion import LeakCheck, Name
from ecgbench.pretrain.probes import Development, Half
from ecgbench.pretrain.run import Data


class Stop(Exception):
    """A kill."""


def waves(name: Name) -> np.ndarray:
    draw = np.random.default_rng(int(name.record[1:]))
    return np.sin(
        np.linspace(0, draw.uniform(5, 50, (12, 1)), 600, axis=1)[..., 0]
        + draw.uniform(0, 6, (12, 1))
    )


def half(first: int, records: int) -> Half:
    names = [Name("demo", f"r{first + i}") for i in range(records)]
    signal = np.stack([waves(n)[:, :500] for n in names]).astype(np.float32)
    return Half(
        records=[n.record for n in names],
        patients=[n.record for n in names],
        signal=signal,
        target=np.eye(2, dtype=np.int8)[np.arange(records) % 2],
    )


def data(records: int = 5) -> Data:
    names = [Name("demo", f"r{i}") for i in range(records)]
    corpus = Corpus(
        LeakCheck({"demo": [n.record for n in names]}, {}),
        dict.fromkeys(names, 600),
        waves,
        contract=laef.CARD.contracts[0],
    )
    development = Development(task="waves", learn=half(0, 4), check=half(90, 4))
    return Data(corpus=corpus, development=development, prepared={"demo": "d"}, left_out={})


class Follower:
    """Says nothing, and stops the work where it is told to."""

    def __init__(self, at: str = "") -> None:
        self.at, self.said = at, [""]

    def note(self, text: str) -> None:
        self._meet(text)

    @contextmanager
    def stage(self, text: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        yield lambda n: self._meet(text)

    def listener(self, name: str) -> Listener:
        def listen(report: Report) -> None:
            self._meet(f"{name}, step {report.step}")

        return listen

    def _meet(self, text: str) -> None:
        self.said.append(text)
        if self.at and text.startswith(self.at):
            raise Stop
