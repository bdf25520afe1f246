"""What the controls of a study will take, as a dry run tells it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ecgbench.core.cells import Plan, grouped
from ecgbench.core.text import counted, duration
from ecgbench.study import controls
from ecgbench.study.estimate.study import Measure
from ecgbench.study.plan import all_tasks
from ecgbench.study.store import Store


def lines(plan: Plan, run: Store, names: Sequence[str], measure: Measure) -> Iterator[str]:
    """One per control: cells that are left, and their time. `measure` is asked about one repeat."""
    for name in names:
        every = [controls.derived(plan, one) for one in controls.names(name, plan.training)]
        stores = [Store(controls.folder(run.path, one.control)) for one in every]
        left = sum(s.folder(c) is None for s, one in zip(stores, every) for c in one.cells)
        times = f", {len(every)} permutations" if len(every) > 1 else ""
        head = f"control {name}: {counted(left, 'cell')} left{times}"
        if not left:
            yield f"control {name}: finished"
        elif controls.CONTROLS[name].kind == "shortcut":
            yield f"{head}; a probe on a few numbers of each record, not timed"
        else:
            yield f"{head}, about {_time(every[0], left, measure)}"


def _time(plan: Plan, left: int, measure: Measure) -> str:
    """Of so many cells, by the seconds of one repeat."""
    tasks = all_tasks()
    groups = grouped(plan.cells, lambda c: (c.fit.model, tasks[c.task][0]))
    answers = [measure(replace(plan, cells=tuple(cells)), d) for (_, d), cells in groups.items()]
    seconds = sum(sum(answer.get("seconds", {}).values()) for answer in answers)
    failed = " without models whose probe failed" if any("failed" in a for a in answers) else ""
    return duration(seconds * left / len(plan.cells)) + failed
