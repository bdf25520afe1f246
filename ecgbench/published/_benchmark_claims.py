"""Claims of the reference benchmark about its scores."""

from collections.abc import Iterator
from statistics import fmean, median

from ecgbench.published._claim import Claim, pts, signed
from ecgbench.published.tables import FMB, HEAD_ONLY, TASKS, Printed, printed


def of_the_benchmark() -> Iterator[Claim]:
    """What is fine-tuned, and its intervals."""
    rows = printed(FMB)
    yield _fine_tuned(rows)
    yield _intervals(rows)


def _fine_tuned(rows: tuple[Printed, ...]) -> Claim:
    by_mode = {(row.trained, row.task, row.model): row.value for row in rows}
    gained: dict[str, list[float]] = {}
    for (trained, task, model), value in by_mode.items():
        if trained == "finetune":
            gained.setdefault(model, []).append(value - by_mode["linear", task, model])
    others = sorted(fmean(gains) for model, gains in gained.items() if model != HEAD_ONLY)
    mine = gained[HEAD_ONLY]
    return Claim(
        where="scores at 12 leads, fine-tuning",
        says="ST-MEM is fine-tuned",
        found=(
            f"fine-tuned less linear: mean {signed(fmean(mine), 2)}, largest "
            f"{pts(max(map(abs, mine)), 2)}; of the other models {signed(others[0])} to "
            f"{signed(others[-1])}. In its code the names of the encoder match no group of "
            f"parameters, so the head alone is trained"
        ),
        agrees="no",
    )


def _intervals(rows: tuple[Printed, ...]) -> Claim:
    outside = [
        row
        for row in rows
        if row.low is not None and row.high is not None and not row.low <= row.value <= row.high
    ]
    tasks = ", ".join(dict.fromkeys(TASKS[row.task] for row in outside))
    low = median(row.value - row.low for row in rows if row.low is not None)
    high = median(row.high - row.value for row in rows if row.high is not None)
    return Claim(
        where="scores at 12 leads, intervals",
        says="95 % intervals of the scores",
        found=(
            f"{len(outside)} of {len(rows)} scores lie outside their own interval ({tasks}); the "
            f"median distance is {pts(low)} to the lower end and {pts(high)} to the upper: a "
            f"label that a draw loses counts 0.5 there"
        ),
        agrees="no",
    )
