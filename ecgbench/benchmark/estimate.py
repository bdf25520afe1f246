"""What a study will take before it is begun: cells, fits, disk and time, from counts and a trial of each model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ecgbench.benchmark.job import Event, Job
from ecgbench.benchmark.plan import all_tasks
from ecgbench.cells import Cell, Places, Plan
from ecgbench.errors import BadSetting
from ecgbench.results import store as stored
from ecgbench.results.store import Store

HOUR = 3600.0
"""Fine-tuning without a GPU that takes longer is asked about."""
SURELY, TRIFLE = 3.0, 600.0
"""Seconds per record and epoch that no model exceeds, and those below which a fine-tuning is not worth a trial."""

Measure = Callable[[Job], Event]
"""`workload.measure`, or {"failed": reason}, wherever it runs."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One model on one dataset."""

    job: Job
    done: int
    """Cells that are finished already; the job holds the others."""
    answer: Event
    """Of `workload.measure`; empty where nothing is left to do."""

    @property
    def seconds(self) -> float:
        """All that is left to do."""
        return sum(self.answer.get("seconds", {}).values())

    def __getitem__(self, what: str) -> float:
        return float(self.answer.get("seconds", {}).get(what, 0.0))

    @property
    def disk(self) -> int:
        """Bytes in the run folder."""
        return int(self.answer.get("disk", {}).get("run", 0))


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
        return self.begun + sum(p.seconds for p in self.parts)

    @property
    def disk(self) -> int:
        """Bytes in the run folder."""
        return sum(p.disk for p in self.parts)

    def models(self) -> str:
        """Time of each model in one line."""
        spent: dict[str, float] = {}
        for part in self.parts:
            spent[part.job.model] = spent.get(part.job.model, 0.0) + part.seconds
        return ", ".join(f"{model} {duration(s)}" for model, s in spent.items())


def estimate(plan: Plan, places: Places, measure: Measure, doors: tuple[tuple[str, str], ...], device: str) -> Estimate:
    """Ask `measure` about every model on every dataset of a plan. Nothing is written."""
    store, tasks = Store(places.out), all_tasks()
    keys = (store.document() or {"keys": {}})["keys"]
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in plan.cells:
        groups.setdefault((cell.fit.model, tasks[cell.task][0]), []).append(cell)
    parts = []
    for (_, dataset), cells in groups.items():
        left = [c for c in cells if c.identity not in keys or not stored.finished(store.cell_folder(c, keys[c.identity]))]
        job = Job(plan=replace(plan, cells=tuple(cells)), dataset=dataset, places=places, device=device, doors=doors)
        answer = measure(job.of(left)) if left else {}
        parts.append(Part(job=job.of(left) if left else job, done=len(cells) - len(left), answer=answer))
    return Estimate(plan=plan, parts=tuple(parts), device=device)


def trifling(plan: Plan) -> bool:
    """Whether fine-tuning ends soon however slow its models are."""
    tasks = all_tasks()
    records = [min(plan.limit or card.records, card.records) for _, card, _ in (tasks[f.task] for f in plan.fits)]
    return plan.training.epochs * sum(records) * SURELY < TRIFLE


def agreed(found: Estimate, yes: bool, tell: Callable[[str], None]) -> None:
    """Tell the time of a fine-tuning without a GPU; BadSetting where it exceeds an hour and nobody said yes."""
    about = f"fine-tuning without a GPU takes about {duration(found.seconds)} ({found.models()})"
    failed = [p.job.model for p in found.parts if "failed" in p.answer]
    about += f", not counting {', '.join(dict.fromkeys(failed))}, whose trial failed" if failed else ""
    if found.seconds > HOUR and not yes:
        raise BadSetting(f"{about}; start it with --yes, make it smaller with --limit N or --epochs N, or run it on a machine with a GPU")
    tell(about)


def table(found: Estimate, out: Path) -> Iterator[str]:
    """Lines of at most 80 columns: the study, its datasets, its models, the whole."""
    plan, done = found.plan, sum(p.done for p in found.parts)
    fits = f"{len(plan.fits)} fit{'s' if len(plan.fits) > 1 else ''}"
    yield f"{len(plan.cells)} cells of {fits} ({plan.training.protocol}), {done} of them finished in {out}"
    yield from _datasets(found.parts)
    width = max(5, *(len(p.job.model) for p in found.parts), *(len(p.job.dataset) for p in found.parts))
    width = min(width, 16)
    yield f"{'model':{width}} {'data':{width}} cells fits {'training':>12} {'evaluation':>12} {'disk':>8}"
    for p in found.parts:
        head = f"{p.job.model[:width]:{width}} {p.job.dataset[:width]:{width}}"
        cells = len(p.job.plan.cells) if p.answer else 0
        if "failed" in p.answer:
            yield f"{head} {cells:5} its trial failed: {p.answer['failed']}"
            continue
        count = len(p.job.plan.fits) if cells else 0
        times = f"{duration(p['training']):>12} {duration(p['evaluation']):>12}"
        yield f"{head} {cells:5} {count:4} {times} {size(p.disk):>8}"
    skipped = sum(p.answer.get("skipped", 0) for p in found.parts)
    if skipped:
        yield f"{skipped} cells will be skipped: the model cannot read these leads under this policy"
    views: dict[str, int] = {}
    for p in found.parts:
        views[p.job.dataset] = max(views.get(p.job.dataset, 0), int(p.answer.get("disk", {}).get("prepared", 0)))
    yield f"disk: {size(found.disk)} in {out}, up to {size(sum(views.values()))} beside the recordings for prepared signals"
    less = " without what failed" if any("failed" in p.answer for p in found.parts) else ""
    yield f"time: about {duration(found.seconds)} on {found.device}{less}, measured with random recordings; nothing was computed"


def _datasets(parts: Sequence[Part]) -> Iterator[str]:
    words = {"prepared": "", "downloaded": "not prepared yet; ", "absent": "not on this machine, counted from its card; "}
    seen = set()
    for part in parts:
        if "records" in part.answer and part.job.dataset not in seen:
            seen.add(part.job.dataset)
            split = part.answer["records"]
            counts = ", ".join(f"{name} {n:,}" for name, n in split.items())
            yield f"{part.job.dataset}: {words[part.answer['source']]}{sum(split.values()):,} records ({counts})"


def duration(seconds: float) -> str:
    """In words, two units at most.

    >>> duration(4), duration(89), duration(5400), duration(200000)
    ('4 s', '89 s', '1 h 30 min', '2 days 7 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} day{'s' if days > 1 else ''} {hours} h"


def size(count: float) -> str:
    """Bytes in words.

    >>> size(900), size(12_345_678), size(3.2e9)
    ('0.9 kB', '12 MB', '3.2 GB')
    """
    for unit, factor in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < 1000 * factor or unit == "GB":
            return f"{count / factor:.2g} {unit}" if count < 10 * factor else f"{count / factor:,.0f} {unit}"
    raise AssertionError
