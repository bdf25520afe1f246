"""Local: several worker processes of this machine at once, each on a GPU of its own where there are
some. `--engine local:4` is four of them; without a number, one for each GPU, or for each core.

They work as the tasks of a cluster do, with the same files, and end with this command.
"""

import os
import subprocess
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from ecgbench import forks
from ecgbench.errors import BadSetting
from ecgbench.evaluate.device import gpus
from ecgbench.processes import end_group, ended_in_words, python
from ecgbench.study.batch import Batch
from ecgbench.study.engine import EngineCard, Setup
from ecgbench.study.workers import State, Workers

CARD = EngineCard(
    title="Local", summary="several processes of this machine at once; local:4 is four of them"
)
MINUTES = 10.0
"""That a task should take: a process takes the next one without a pause for others."""


class Local:
    """Starts tasks as processes of this machine, so many at once."""

    place = "processes of this machine"
    prepares, settles = False, 0.0

    def __init__(self, setup: Setup) -> None:
        self.cards = _cards() if setup.device in ("auto", "cuda") else []
        self.slots = _number(setup.options.get("", "")) or len(self.cards) or forks.cores()
        self.threads = max(1, forks.cores() // self.slots)
        self.seconds = 60 * MINUTES
        self._waiting: deque[tuple[Batch, int]] = deque()
        self._running: dict[tuple[Path, int], tuple[int, subprocess.Popen[bytes]]] = {}
        """Folder of the batch, task -> slot, process."""
        self._ended: dict[tuple[Path, int], int] = {}

    def write(self, batch: Batch) -> str:
        """BadSetting: there is nothing to submit."""
        raise BadSetting("--emit-sbatch is of --engine slurm; leave --engine local out")

    def launch(self, batch: Batch, first: int, count: int) -> None:
        """Tasks wait for a free process."""
        for number in range(first, first + count):
            self._ended.pop((batch.folder, number), None)
            self._waiting.append((batch, number))

    def states(self, batch: Batch) -> Mapping[int, State]:
        """Of this command's tasks; those of an earlier one have ended with it."""
        self._turn()
        states = {n: State("waiting") for b, n in self._waiting if b.folder == batch.folder}
        states |= {n: State("running") for f, n in self._running if f == batch.folder}
        return states | {
            n: State("ended", ended_in_words(code))
            for (f, n), code in self._ended.items()
            if f == batch.folder
        }

    def _turn(self) -> None:
        """Note which processes have ended, and start others in their place."""
        for key, (_, process) in list(self._running.items()):
            if (code := process.poll()) is not None:
                del self._running[key]
                self._ended[key] = code
        taken = {slot for slot, _ in self._running.values()}
        for slot in range(self.slots):
            if self._waiting and slot not in taken:
                batch, number = self._waiting.popleft()
                self._running[batch.folder, number] = slot, self._started(batch, number, slot)

    def _started(self, batch: Batch, number: int, slot: int) -> "subprocess.Popen[bytes]":
        own = {"OMP_NUM_THREADS": str(self.threads)}
        if self.cards:
            own["CUDA_VISIBLE_DEVICES"] = self.cards[slot % len(self.cards)]
        with ExitStack() as stack:
            log = stack.enter_context(batch.log_file(number).open("ab"))
            return subprocess.Popen(
                python("ecgbench", "worker", str(batch.file), str(number)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **own},
                start_new_session=True,
            )

    def close(self) -> str:
        """They end with this command, and what they have finished is kept."""
        self._waiting.clear()
        for _, process in self._running.values():
            with suppress(OSError):
                end_group(process)
        self._running.clear()
        return ""


def _number(text: str) -> int:
    if text and not (text.isdecimal() and 0 < int(text) <= 1024):
        raise BadSetting(f"--engine local:{text}: a number of processes from 1, as in local:4")
    return int(text or 0)


def _cards() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [card for card in named.split(",") if card.strip()]
    return [str(number) for number in range(len(gpus()))]


def start(setup: Setup) -> Workers:
    """The engine."""
    return Workers(setup, Local(setup), "local")
