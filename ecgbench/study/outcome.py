"""The outcome of the cells of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ecgbench.cards.cell import Cell
from ecgbench.core.text import counted, shortened, visible
from ecgbench.study.jobs import Job
from ecgbench.study.progress import Display
from ecgbench.study.store import Store, noted

LONGEST_REASON = 500
"""Longest reason, in characters."""


@dataclass
class Outcome:
    """Counts of cells, and why some have no number."""

    computed: int = 0
    reused: int = 0
    meanwhile: int = 0
    """Cells that another command computed while this one did."""
    elsewhere: int = 0
    """Jobs that go on without this command."""
    skipped: int = 0
    uncompared: bool = False
    """Whether a job failed before it knew that finished cells are what it would compute."""
    failed: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    """(model, reason, log) -> the failed cells."""

    def settle(self, job: Job, cells: Sequence[Cell], store: Store, progress: Display) -> None:
        """Count the cells of a finished job by their state in the store, and name those without a
        number.
        """
        failed: dict[tuple[str, str, str], list[str]] = {}
        for cell in cells:
            state, reason = store.state(cell)
            if state == "missing":
                state, reason = "failed", "its job ended without it"
                store.give_reason(cell, "failed", reason, log=printed(job))
            if state == "ok":
                folder = store.folder(cell)
                ours = folder is not None and noted(folder).get("command") == job.command
                self.computed += ours
                self.reused += not ours
            elif state == "skipped":
                self.skipped += 1
                progress.note(f"skipped {cell.label}: {shortened(reason, LONGEST_REASON)}")
            else:
                log = store.log_of(cell) or printed(job)
                why = job.model, shortened(reason, LONGEST_REASON), log
                failed.setdefault(why, []).append(cell.label)
        for (model, reason, log), labels in failed.items():
            more = f" (log: {log})" if log else ""
            cells_ = counted(len(labels), "cell")
            progress.note(f"failed {cells_} of {model} on {job.dataset}: {reason}{more}")
            self.failed.setdefault((model, reason, log), []).extend(labels)

    def lines(self, what: str) -> Iterator[str]:
        """In words: counts, then failures. what: the study."""
        failures = sum(map(len, self.failed.values()))
        others = f"{self.meanwhile} computed by another command meanwhile, " * bool(self.meanwhile)
        yield (
            f"{counted(self.computed, 'cell')} computed, {self.reused - self.meanwhile} were there "
            f"already, {others}{self.skipped} skipped, {failures} failed: {what}"
        )
        for (model, reason, log), cells in self.failed.items():
            which = cells[0] if len(cells) == 1 else f"{len(cells)} cells of {model}"
            yield f"  failed: {which}: {visible(reason)}" + (f" (log: {log})" if log else "")


def printed(job: Job) -> str:
    """The file with the output of a job's model; "" where there is none."""
    return str(job.log) if job.log.exists() and job.log.stat().st_size else ""
