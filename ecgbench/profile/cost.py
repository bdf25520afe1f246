"""The cost of models against the number of measured leads: which process measures what, and the
rows that come of it.

Loads no torch itself. A network that is padded to its own leads costs the same whatever was
measured, so it is measured once and stands in every row; one that reads any number of leads is
measured at each.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ecgbench import errors, models, published
from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.core import process
from ecgbench.ecg.leads import LEADS
from ecgbench.profile.stored import CLASSES, PAPER, Costs, Row, medians
from ecgbench.study.progress import Display

PATIENCE = 3600
"""Seconds after which a process that measures is killed."""


def measure(
    names: Sequence[str],
    leads: Sequence[int],
    device: str,
    batch: int,
    timed: bool,
    progress: Display,
) -> Costs:
    """Rows for each model (resolved names) at each number of leads; BadSetting for a device or a
    model that is not there.

    batch: windows of a timed pass. timed: whether memory and time are measured, not only counted.
    """
    paths = {path.stem: str(path) for path in models.ROOM.paths()}
    jobs = [(name, part) for name in names for part in _parts(name, leads, timed)]
    costs = Costs()
    costs.most = {name: top for name in names if (top := _most(name)) < max(leads)}
    how = {"device": device, "batch": batch, "timed": timed}
    with progress.stage("profile", len(jobs), "measurements") as advance:
        for name, part in jobs:
            if name not in costs.failed:
                job = {"model": name, "path": paths.get(name, ""), "leads": part, **how}
                _add(costs, name, leads, _answer(job))
            advance(1)
    costs.rows.sort(key=lambda row: (names.index(row["model"]), row["leads"]))
    costs.paper = with_the_paper(costs.rows)
    return costs


def _parts(name: str, leads: Sequence[int], timed: bool) -> list[list[int]]:
    """What each process measures: the memory of one number of leads must not be seen by the
    next.
    """
    if contract_of(models.ROOM.card(name)).policy != "native":
        return [[max(leads)]]
    there = sorted({min(n, _most(name)) for n in leads})
    return [[n] for n in there] if timed else [there]


def _most(name: str) -> int:
    """Beyond how many measured leads a model costs nothing more."""
    contract = contract_of(models.ROOM.card(name))
    return len(contract.leads) if contract.policy == "native" else len(LEADS)


def contract_of(card: ModelCard) -> InputContract:
    """The contract under which a model is measured: `paper`, or a plug-in's first."""
    return next((c for c in card.contracts if c.name == "paper"), card.contracts[0])


def _add(costs: Costs, name: str, leads: Sequence[int], answer: dict[str, Any]) -> None:
    if "error" in answer:
        costs.rows = [row for row in costs.rows if row["model"] != name]
        costs.failed[name] = f"{answer['error']}: {answer['reason']}"
        return
    costs.titles[name], costs.about = answer["title"], answer["about"]
    if answer["unknown"]:
        costs.unknown[name] = answer["unknown"]
    if answer["uncounted"]:
        costs.uncounted[name] = answer["uncounted"]
    if answer["any_leads"]:
        costs.any_leads = list(dict.fromkeys([*costs.any_leads, name]))
        costs.rows += [{"model": name, **row} for row in answer["rows"]]
    else:
        costs.rows += [{"model": name, **answer["rows"][0], "leads": n} for n in leads]


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    """What `profile.model` measures in a process of its own, or `error` and `reason`; BadSetting
    where that is what stopped it.
    """
    try:
        result = process.ask("ecgbench.profile.model", [json.dumps(job)], PATIENCE)
    except process.DiedError as died:
        return {"error": "DiedError", "reason": str(died)}
    if result.get("error") == "BadSetting":
        raise errors.named("BadSetting", result["reason"])
    return result


RULES = {
    "backward alone": lambda f, b, dense: b,
    "2 x forward": lambda f, b, dense: 2 * f,
    "forward + backward": lambda f, b, dense: f + b,
    "forward + backward, weight gradients of grouped convolutions counted as of one group": (
        lambda f, b, dense: f + dense
    ),
}
"""How a backward figure may have been made of a forward count f, the gradients b of all weights and
of every layer's input but the signal, and the same by torch's FlopCounterMode; the first that
rounds to the printed figure is taken for its rule.
"""


def with_the_paper(rows: Iterable[Row]) -> list[Row]:
    """The figures of the paper's cost table with our counts, for the models and numbers of leads
    that it has and `rows` too.
    """
    rows = list(rows)
    mine = {(row["model"], str(row["leads"])): row for row in [*rows, *medians(rows)]}
    compared = []
    for line in published.cost():
        row = mine.get((line["model"], line["leads"]))
        if row is not None and row.get("backward_layers") is not None:
            compared.append(_compared(line, row))
    return compared


def _compared(line: dict[str, str], row: Row) -> Row:
    printed = line["gflop_forward"]  # nothing of the median
    counts = ("gflop_forward_paper", "backward_layers", "backward_layers_dense")
    forward, alone, dense = (row[name] for name in counts)
    tried = {rule: value(forward, alone, dense) for rule, value in RULES.items()}
    rule = next(
        (rule for rule, value in tried.items() if _rounds(value, line["gflop_backward"])), None
    )
    dim = models.ROOM.card(row["model"]).dim
    # a learned query, three maps without biases, one to the classes
    pooling = dim + 3 * dim**2 + CLASSES * dim
    return {
        **{name: row[name] for name in PAPER if name in row},
        "params_printed_m": line["params_m"],
        "params_with_both_heads_m": row["params_with_head_m"] + pooling / 1e6,
        "gflop_forward_printed": printed,
        "forward_agrees": _rounds(forward, printed) if printed else None,
        "gflop_backward_printed": line["gflop_backward"],
        "gflop_backward_alone": alone,
        "gflop_forward_and_backward": forward + alone,
        "gflop_forward_and_backward_one_group": forward + dense,
        "backward_rule": rule or ("none of these" if printed else None),
        "gflop_backward_by_rule": None if rule is None else tried[rule],
        "peak_mb_printed": line["gpu_mem_mb"],
        "throughput_samples_s_printed": line["throughput_samples_s"],
        "latency_ms_sample_printed": line["latency_ms_sample"],
    }


def _rounds(value: float, printed: str) -> bool:
    """Whether a number rounds to what is printed, to as many places.

    >>> _rounds(62.77865, "62.779"), _rounds(1.1446, "1.003")
    (True, False)
    """
    places = len(printed.partition(".")[2])
    return f"{value:.{places}f}" == printed
