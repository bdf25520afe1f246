"""What a whole study will take: the answers of `probe.measure` for every model on every dataset,
added up and printed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.core.cells import Plan, grouped
from ecgbench.core.text import counted, duration, size
from ecgbench.errors import BadSetting
from ecgbench.stats.detectable import expected
from ecgbench.study.plan import all_tasks
from ecgbench.study.store import Store

HOUR = 3600.0
"""Seconds of fine-tuning without a GPU above which --yes is needed."""
SURELY, TRIFLE = 3.0, 600.0
"""Seconds per record and epoch that no model exceeds, and those below which a fine-tuning is not
worth a probe.
"""

Measure = Callable[[Plan, str], dict[str, Any]]
"""(cells of one model as a plan, dataset) -> the answer of `probe.measure`, wherever it runs."""
SOURCES = {
    "prepared": "",
    "downloaded": "not prepared yet; ",
    "absent": "not on this machine, counted from its card; ",
}

ASSUMED = 0.85, 0.5
"""AUROC of two models, and the share of their error that they have in common, for the smallest
difference that a study can find.
"""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One model on one dataset."""

    model: str
    dataset: str
    plan: Plan
    """With the cells that are left to do."""
    done: int
    """Cells that are finished already."""
    answer: dict[str, Any]
    """Of `probe.measure`; empty where nothing is left to do."""

    def seconds(self, *what: str) -> float:
        """Of "preparing", "training", "evaluation", or of all that is left to do."""
        each = self.answer.get("seconds", {})
        return float(sum(each.get(w, 0.0) for w in what or each))

    def disk(self, what: str = "run") -> int:
        """Bytes in the run folder, or ("prepared") beside the recordings."""
        return int(self.answer.get("disk", {}).get(what, 0))


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A whole study."""

    plan: Plan
    parts: tuple[Part, ...]
    device: str
    begun: float = 0.0
    """Seconds until the first model could be asked."""

    @property
    def seconds(self) -> float:
        """Wall time of what is left."""
        return self.begun + sum(p.seconds() for p in self.parts)

    @property
    def views(self) -> int:
        """Bytes of views that are not kept yet, of every dataset and contract once."""
        return sum(
            {
                (p.dataset, folder): count
                for p in self.parts
                for folder, count in p.answer.get("views", {}).items()
            }.values()
        )

    @property
    def beside(self) -> int:
        """Bytes that will be written beside the recordings: prepared copies and views."""
        by_dataset = grouped(self.parts, lambda part: part.dataset).values()
        return self.views + sum(max(p.disk("prepared") for p in same) for same in by_dataset)

    @property
    def failed(self) -> list[str]:
        """Models whose probe failed."""
        return list(dict.fromkeys(p.model for p in self.parts if "failed" in p.answer))


def estimate(plan: Plan, out: Path, measure: Measure, device: str) -> Estimate:
    """Ask `measure` about every model on every dataset of a plan that goes to the run folder `out`.
    Nothing is written.
    """
    tasks, store, parts = all_tasks(), Store(out), []
    groups = grouped(plan.cells, lambda c: (c.fit.model, tasks[c.task][0]))
    for (model, dataset), cells in groups.items():
        left = replace(plan, cells=tuple(c for c in cells if store.folder(c) is None))
        answer = measure(left, dataset) if left.cells else {}
        parts.append(
            Part(
                model=model,
                dataset=dataset,
                plan=left,
                done=len(cells) - len(left.cells),
                answer=answer,
            )
        )
    return Estimate(plan=plan, parts=tuple(parts), device=device)


def trifling(plan: Plan) -> bool:
    """Whether fine-tuning ends soon however slow its models are."""
    tasks = all_tasks()
    sizes = [tasks[f.task][1].records for f in plan.fits]
    records = [min(plan.limit or size, size) for size in sizes]
    return plan.training.epochs * sum(records) * SURELY < TRIFLE


def agreed(whole: Estimate, yes: bool) -> str:
    """The time of a fine-tuning without a GPU in a sentence; BadSetting where it exceeds an hour
    and `yes` is not set.
    """
    by_model = grouped(whole.parts, lambda part: part.model).items()
    each = ", ".join(f"{m} {duration(sum(p.seconds() for p in parts))}" for m, parts in by_model)
    sentence = f"fine-tuning without a GPU takes about {duration(whole.seconds)} ({each})"
    if whole.failed:
        sentence += f", not counting {', '.join(whole.failed)}, whose probe failed"
    if whole.seconds > HOUR and not yes:
        raise BadSetting(
            f"{sentence}; start it with --yes, shorten it with --limit N or --epochs N, or use a "
            f"machine with a GPU"
        )
    return sentence


def table(whole: Estimate, out: Path) -> Iterator[str]:
    """Lines of at most 80 columns: the study, its datasets, its models, the whole."""
    plan, parts = whole.plan, whole.parts
    fits = counted(len(plan.fits), "fit")
    yield (
        f"{len(plan.cells)} cells of {fits} ({plan.training.protocol}), "
        f"{sum(p.done for p in parts)} of them finished in {out}"
    )
    yield from _datasets(parts)
    width = min(16, max(5, *(len(name) for p in parts for name in (p.model, p.dataset))))
    yield (
        f"{'model':{width}} {'data':{width}} cells fits {'training':>13} {'evaluation':>13} "
        f"{'disk':>8}"
    )
    for p in parts:
        head = f"{p.model[:width]:{width}} {p.dataset[:width]:{width}} {len(p.plan.cells):5}"
        times = f"{duration(p.seconds('training')):>13} {duration(p.seconds('evaluation')):>13}"
        failed = p.answer.get("failed")
        yield (
            f"{head} its probe failed: {failed}"
            if failed
            else f"{head} {len(p.plan.fits):4} {times} {size(p.disk()):>8}"
        )
    if skipped := sum(p.answer.get("skipped", 0) for p in parts):
        yield (
            f"{counted(skipped, 'cell')} will be skipped: the model cannot read these leads "
            f"under this policy"
        )
    yield (
        f"disk: {size(sum(p.disk() for p in parts))} in {out}, up to {size(whole.beside)} beside "
        f"the recordings for prepared signals"
    )
    if whole.views:
        yield f"  {size(whole.views)} of it for filtered and resampled views; --views stream: none"
    less = " without what failed" if whole.failed else ""
    yield (
        f"time: about {duration(whole.seconds)} on {whole.device}{less}, by a short probe or "
        f"earlier fits; nothing was computed"
    )


def scarce(whole: Estimate, home: Path, free: int) -> str:
    """What to do where the disk of prepared copies, `home`, has too few bytes free; "" where there
    are enough.
    """
    if whole.beside <= free:
        return ""
    stream = "--views stream writes no views; " if whole.views else ""
    return (
        f"too little disk: {home} has {size(free)} free, and {size(whole.beside)} would be "
        f"written there; {stream}ecgbench data prune frees what can be made again; --prepared DIR "
        f"names another place"
    )


def _datasets(parts: Sequence[Part]) -> Iterator[str]:
    for part in {p.dataset: p for p in reversed(parts) if "records" in p.answer}.values():
        split = part.answer["records"]
        counts = ", ".join(f"{name} {n:,}" for name, n in split.items())
        folds = part.plan.division.cross
        counts += f" in each of {folds} folds" if folds else ""
        yield (
            f"{part.dataset}: {SOURCES[part.answer['source']]}{sum(split.values()):,} records "
            f"({counts})"
        )
        wanted = dict.fromkeys(c.task for p in parts for c in p.plan.cells)
        for task, (positives, negatives) in part.answer.get("tested", {}).items():
            smallest = expected(positives, negatives, *ASSUMED)
            if task in wanted and np.isfinite(smallest):
                yield f"  {task}: two models can be told apart from {100 * smallest:.1f} points on"
    if any(part.answer.get("tested") for part in parts):
        auroc, shared = ASSUMED
        yield (
            f"  (found in 4 of 5 studies, were both near AUROC {auroc:g} with {shared:.0%} of "
            f"their error in common)"
        )
