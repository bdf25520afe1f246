"""What a run makes of the events of one job: what is settled, what would die with its process, what failed and why."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field

from ecgbench.benchmark.job import Event, Job
from ecgbench.benchmark.progress import Watcher
from ecgbench.cells import Cell
from ecgbench.results.store import Store


@dataclass
class Outcome:
    """What a run did."""

    computed: int = 0
    reused: int = 0
    skipped: list[str] = field(default_factory=list)
    failed: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    """(model, reason, log) -> the cells that failed so."""

    @property
    def failures(self) -> int:
        """Cells that failed."""
        return sum(map(len, self.failed.values()))


class Hearing:
    """Hears one job out."""

    def __init__(self, job: Job, store: Store, outcome: Outcome, watcher: Watcher) -> None:
        self.job, self.store, self.outcome, self.watcher = job, store, outcome, watcher
        self.left = {c.identity: c for c in job.plan.cells}
        """Cells that are not settled yet."""
        self._held: list[str] = []
        self._together = False
        self._stages = ExitStack()
        self._advance: Callable[[int], None] = lambda n: None

    def __call__(self, event: Event, log: str) -> None:
        """One event; `log`: where a person finds more about a failure."""
        kind = event["kind"]
        if kind == "note":
            self.watcher.note(event["text"])
        elif kind == "stage":
            self._advance = self._stages.enter_context(self.watcher.stage(event["text"], event["total"], event["unit"]))
        elif kind == "advance":
            self._advance(event["n"])
        elif kind == "stage over":
            self._stages.close()
        elif kind == "hold":
            self._held, self._together = event["cells"], event["together"]
        elif kind == "settled":
            self._settle(event, log)

    def _settle(self, event: Event, log: str) -> None:
        cells, state = [self.left[i] for i in event["cells"] if i in self.left], event["state"]
        if state == "failed":
            self.fail(cells, event["reason"], event["trace"], log)
            return
        self.outcome.computed += len(cells) * (state == "computed")
        self.outcome.reused += len(cells) * (state == "reused")
        for cell in cells:
            del self.left[cell.identity]
            if state == "skipped":
                self.outcome.skipped.append(f"{cell.label}: {event['reason']}")
                self.watcher.note(f"skipped {cell.label}: {event['reason']}")

    def bury(self, reason: str, log: str) -> list[list[Cell]]:
        """Its process ended: what it held fails, unless its cells were computed together. Returns what is to be tried again, in parts."""
        self._stages.close()
        self._find()
        held = [self.left[i] for i in self._held if i in self.left]
        if not held and self._held:  # it died between two turns
            return [list(self.left.values())] if self.left else []
        if self._together and len(held) > 1:
            self.watcher.note(f"{self.job.model}: {reason}; going on cell by cell")
            rest = [c for c in self.left.values() if c not in held]
            return [*([c] for c in held), *([rest] if rest else [])]
        self.fail(held or self.left.values(), reason, "", log)
        return [list(self.left.values())] if self.left else []

    def _find(self) -> None:
        """What it held and had finished, but could not tell any more, is computed."""
        for identity in self._held:
            if identity in self.left and self.store.folder(self.left[identity]) is not None:
                self._settle({"state": "computed", "cells": [identity]}, "")

    def fail(self, cells: Iterable[Cell], reason: str, trace: str = "", log: str = "") -> None:
        """Store why. A cell that is finished, or was before this run knew better, stays."""
        self._stages.close()
        failed = list(cells)
        for cell in failed:
            self.left.pop(cell.identity, None)
            if self.store.folder(cell) is None:
                self.store.give_reason(cell, "failed", reason, trace, log)
            self.outcome.failed.setdefault((self.job.model, reason, log), []).append(cell.label)
        if failed:
            more = f" (log: {log})" if log else ""
            self.watcher.note(f"failed {len(failed)} cells of {self.job.model} on {self.job.dataset}: {reason}{more}")
