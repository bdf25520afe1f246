"""What a run knows of one job from its events: which cells are done, which are in progress, what
failed and why.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ecgbench.core.cells import Cell
from ecgbench.core.text import shortened
from ecgbench.study.events import Died, Event, Failed, Finished, InProgress, Skipped
from ecgbench.study.folders import DONE
from ecgbench.study.job import Compute
from ecgbench.study.progress import Display
from ecgbench.study.reporter import LONGEST_REASON
from ecgbench.study.store import Store


@dataclass
class Outcome:
    """What a run did."""

    computed: int = 0
    reused: int = 0
    set_aside: int = 0
    """Folders and files that were not what a run wrote."""
    handed_over: str = ""
    """Where jobs went that this command does not wait for, in words."""
    skipped: list[str] = field(default_factory=list)
    failed: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    """(model, reason, log) -> the cells that failed so."""

    @property
    def failures(self) -> int:
        """Cells that failed."""
        return sum(map(len, self.failed.values()))


class JobRecord:
    """One job in flight."""

    def __init__(self, job: Compute, store: Store, outcome: Outcome, progress: Display) -> None:
        self.job, self.store, self.outcome, self.progress = job, store, outcome, progress
        self.left = {c.identity: c for c in job.plan.cells}
        """Cells of which nothing is known yet."""
        self._own = frozenset(self.left)
        places = {store.cell_folder(c, "any").parent for c in job.plan.cells}
        self._before = {_written(folder) for place in places for folder in place.glob("*")}
        """Cells that are there already, under whichever key."""
        self._in_progress = InProgress(job.id, (), False)

    def take(self, event: Event) -> None:
        """One event of the job; cells that are not its own, or not left, are ignored."""
        match event:
            case InProgress():
                own = tuple(i for i in event.cells if i in self._own)
                self._in_progress = replace(event, cells=own)
            case Finished():
                self._finished(event.cells, event.others)
            case Skipped():
                for cell in self._pop(event.cells, "skipped"):
                    why = shortened(event.reason, LONGEST_REASON)
                    self.outcome.skipped.append(f"{cell.label}: {why}")
                    self.progress.note(f"skipped {self.outcome.skipped[-1]}")
            case Failed():
                self.fail(event.cells, event.reason, event.trace, event.log)

    def _pop(self, identities: Iterable[str], state: str = "") -> list[Cell]:
        """Those of these cells that are left, and are left no longer; only those of which the store
        says `state`.
        """
        left = [self.left[i] for i in dict.fromkeys(identities) if i in self.left]
        told = [c for c in left if not state or self.store.state(c)[0] == state]
        for cell in told:
            del self.left[cell.identity]
        return told

    def _finished(self, cells: Iterable[str], others: bool = False) -> None:
        """Count what is in the store with DONE; a cell that is not stays left. others: another
        command has computed it.
        """
        for cell in self._pop(cells, "ok"):
            there = others or _written(self.store.folder(cell)) in self._before
            self.outcome.reused += there
            self.outcome.computed += not there

    def _came(self) -> None:
        """Count what has come into the store, whether or not an event said so."""
        left = ((i, self.store.folder(c)) for i, c in self.left.items())
        new = [i for i, folder in left if folder and _written(folder) not in self._before]
        self._finished(new)

    def died(self, event: Died) -> list[list[Cell]]:
        """Its process ended: what was in progress fails, unless several cells were computed
        together.

        Returns what is to be tried again, in parts.
        """
        cells, together = self._in_progress.cells, self._in_progress.together
        self._came()  # it may have ended before it sent the event
        lost = [self.left[i] for i in cells if i in self.left]
        if cells and not lost:  # it died between two cells
            return self._rest()
        if together and len(lost) > 1:
            self.progress.note(f"{self.job.model}: {event.reason}; going on cell by cell")
            self._pop([c.identity for c in lost])
            return [*([c] for c in lost), *self._rest()]
        self.fail([c.identity for c in lost] or list(self.left), event.reason, "", event.log)
        return self._rest()

    def _rest(self) -> list[list[Cell]]:
        return [list(self.left.values())] if self.left else []

    def fail(self, identities: Iterable[str], reason: str, trace: str = "", log: str = "") -> None:
        """Store why cells failed; those that an earlier run finished stay, and those that this job
        finished have not failed.
        """
        identities, reason = tuple(identities), shortened(reason, LONGEST_REASON)
        self._came()  # whatever is said of it
        failed = self._pop(identities)
        for cell in failed:
            if self.store.folder(cell) is None:
                self.store.give_reason(cell, "failed", reason, trace, log)
            self.outcome.failed.setdefault((self.job.model, reason, log), []).append(cell.label)
        if failed:
            where = f"{self.job.model} on {self.job.dataset}"
            more = f" (log: {log})" if log else ""
            self.progress.note(f"failed {len(failed)} cells of {where}: {reason}{more}")

    def disqualified(self, reason: str, trace: str, log: str) -> None:
        """The model is disqualified: what is left fails. Where nothing is left, the model itself
        counts as failed.
        """
        model = self.job.model
        if not self.left:
            said = shortened(reason, LONGEST_REASON)
            self.outcome.failed.setdefault((model, said, ""), []).append(model)
        self.fail(list(self.left), reason, trace, log)


def _written(folder: Path | None) -> tuple[Path, int, int] | None:
    """A cell as it was written: one that was set aside and computed again is another."""
    if folder is None:
        return None
    try:
        done = (folder / DONE).stat()
    except OSError:
        return folder, 0, 0
    return folder, done.st_ino, done.st_mtime_ns
