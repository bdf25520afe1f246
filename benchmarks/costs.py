"""What fine-tuning the paper's grid costs: `python benchmarks/costs.py [--models a,b] [--device
cpu] [--batch 8] [--write]`.

Of each model one training step (forward, backward, AdamW; all 12 leads, random weights, float32)
and one forward pass are timed, per window, and the floating-point operations of the step are
counted. The rest is multiplication: an epoch shows one window of every training record and all
windows of every validation record; 100 epochs; records of the cards, by their splits. Hours so
found are extrapolated, and hours of a GPU whose rate is assumed are no measurement at all: both are
called so. `--write` puts the table into docs/scaling.md.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import torch
from laef import machine

EPOCHS, ASSUMED = 100, 10e12
"""Operations a second that are assumed of a GPU: far below its peak, as small batches are."""
SHARES = {"code15": (0.98, 0.01), "ptb": (0.6, 0.2), "echonext": (72_475 / 82_543, 4_626 / 82_543)}
"""Dataset -> shares of the training and the validation split, where they are not 0.8 and 0.1."""
PLACE = Path(__file__).resolve().parents[1] / "docs/scaling.md"
BEGIN, END = "<!-- costs -->\n", "<!-- end of costs -->\n"


def timed(name: str, device: str, batch: int, repeats: int = 3) -> tuple[float, float, float]:
    """Seconds a window of a training step and of a forward pass, and operations of the step."""
    from ecgbench import models
    from ecgbench.profile.flop import FlopCounter, plain_kernels

    network = models.get(name).build().to(device).train()
    contract = models.ROOM.card(name).contracts[0]
    shape = batch, len(contract.leads), contract.samples
    signal = torch.rand(shape, device=device)
    measured = torch.ones(shape[:2], dtype=torch.bool, device=device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-6)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        network(signal, measured).pooled.square().mean().backward()
        optimiser.step()

    @torch.no_grad()
    def forward() -> None:
        network(signal, measured)

    def seconds(work) -> float:
        work()
        taken = []
        for _ in range(repeats):
            started = time.perf_counter()
            work()
            if device != "cpu":
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - started)
        return sorted(taken)[repeats // 2] / batch

    with plain_kernels(), FlopCounter() as counted:
        step()
    training = seconds(step)
    network.eval()
    return training, seconds(forward), (counted.total or float("nan")) / batch


def epochs(name: str) -> dict[str, tuple[float, float]]:
    """Dataset -> windows of an epoch that are trained, and that are only passed forward."""
    from ecgbench import datasets, models, suites
    from ecgbench.study import plan_file

    paper = plan_file.load(suites.path("paper")).request().tasks
    contract, rows = models.ROOM.card(name).contracts[0], {}
    for dataset in datasets.names():
        card = datasets.get(dataset).CARD
        tasks = sum(task.name in paper for task in card.tasks)
        if tasks:
            train, validation = SHARES.get(dataset, (0.8, 0.1))
            windows = contract.windows(int(card.seconds * contract.fs))
            rows[dataset] = (
                tasks * card.records * train,
                tasks * card.records * validation * windows,
            )
    return rows


def table(rows: dict[str, tuple[float, float, float]], where: str) -> str:
    """The table in Markdown: a column for each model."""
    known = {name: epochs(name) for name in rows}
    hours = {
        name: {d: EPOCHS * (n * step + m * forward) / 3600 for d, (n, m) in known[name].items()}
        for name, (step, forward, _) in rows.items()
    }
    work = {
        name: sum(EPOCHS * (n * flop + m * flop / 3) for n, m in known[name].values())
        for name, (*_, flop) in rows.items()
    }
    lines: dict[str, list[str]] = {
        "training step, ms a window": [f"{1000 * step:.0f}" for step, _, _ in rows.values()],
        "forward pass, ms a window": [f"{1000 * forward:.0f}" for _, forward, _ in rows.values()],
        "training step, GFLOP a window": [
            _counted(flop / 1e9, ".1f") for *_, flop in rows.values()
        ],
    }
    for dataset in next(iter(known.values())):
        lines[f"{dataset}, hours"] = [f"{hours[name][dataset]:,.0f}" for name in rows]
    lines["all 18 tasks, hours"] = [f"{sum(hours[name].values()):,.0f}" for name in rows]
    rate = f"{ASSUMED / 1e12:.0f} TFLOP/s"
    lines[f"all 18 tasks at {rate} (assumed), hours"] = [
        _counted(work[name] / ASSUMED / 3600, ",.0f") for name in rows
    ]
    said = [
        f"Steps and passes: measured on {where}, 12 leads, random weights, float32. Hours: "
        f"extrapolated",
        f"from them, {EPOCHS} epochs of one fit of each task of a dataset. Last row: the counted "
        f"operations at",
        f"{rate}, which is assumed of a GPU and was not measured.",
        "",
        f"| | {' | '.join(f'`{name}`' for name in rows)} |",
        "|---|" + "---:|" * len(rows),
        *(f"| {what} | {' | '.join(cells)} |" for what, cells in lines.items()),
    ]
    return "\n".join(said) + "\n"


def _counted(value: float, form: str) -> str:
    """A number, or that an operator of the model has no rule (`profile/operators.csv`)."""
    return "not counted" if math.isnan(value) else format(value, form)


def main() -> None:
    from ecgbench import models

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    twelve = [name for name in models.names() if models.ROOM.card(name).contracts[0].leads[1:]]
    parser.add_argument("--models", default=",".join(twelve))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    rows = {}
    for name in asked.models.split(","):
        rows[name] = timed(name, asked.device, asked.batch)
        step, forward, _ = rows[name]
        print(f"{name}: {1000 * step:.1f} and {1000 * forward:.1f} ms a window", file=sys.stderr)
    said = table(rows, machine(asked.device))
    print(said)
    if asked.write:
        text = PLACE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        PLACE.write_text(before + BEGIN + "\n" + said + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
