"""Jobs in this process: for a debugger, and under torchrun. What a model does to its process ends the run."""

from types import TracebackType

from ecgbench.benchmark.job import Event, Job, Tell
from ecgbench.benchmark.work import enter, look, take_part, work
from ecgbench.estimate.probe import measure
from ecgbench.training import ranks


class Inline:
    """Carries jobs out by calling them."""

    def __enter__(self) -> "Inline":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if ranks.rank() == 0 and kind is None:  # after an error torchrun ends the others
            ranks.call(None)
        ranks.leave()

    def look(self, model: str, doors: tuple[tuple[str, str], ...], weights: str | None, contract: str) -> Event:
        """The answer of `work.look`."""
        enter(doors)
        return look(model, weights, contract)

    def measure(self, job: Job) -> Event:
        """The answer of `probe.measure`."""
        enter(job.doors)
        return measure(job)

    def run(self, job: Job, tell: Tell) -> None:
        """Compute a job; its events go to `tell`."""
        work(job, tell)

    def follow(self) -> None:
        """In every process of torchrun but the first: take part in its fine-tunings until it is done."""
        while (message := ranks.hear()) is not None:
            take_part(Job.from_json(message["job"]))

    def log(self, job: Job) -> str:
        """Where a person finds more about a failure."""
        return ""
