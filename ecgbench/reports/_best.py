"""Which model is best in each task and lead setting, and whether that could be chance."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ecgbench.reports._facts import MODEL
from ecgbench.reports._scores import ranked
from ecgbench.reports._section import records
from ecgbench.results.study import Run, once

LEVEL = 0.05
"""Of p after Holm: a verdict is one of many."""
CLEAR, CHANCE, UNTESTED, EQUAL = "clear", "could be chance", "not tested", "equal"
COLUMNS = [
    *("task", "leads", "metric", "best_model", "best_policy", "value", "second_model"),
    *("second_policy", "difference", "low", "high", "p_holm", "verdict", "rivals", "beaten"),
]
Order = Sequence[Mapping[str, Any]]
"""The scores of a task and a setting, the best first."""
Tests = Mapping[tuple[str, ...], Mapping[str, Any]]
"""Comparisons with the best, by task, leads and the names of both."""


def compete(study: Run) -> tuple[list[Order], Tests]:
    """Of trained columns on real recordings, where two or more have a score of one kind."""
    rows = ranked(study)[study.metric]
    rows = rows[rows["value"].notna() & ~(rows["untrained"] | rows["synthetic"] | rows["alone"])]
    names = ("task", "leads", "best_model", "best_policy", "model", "policy")
    compared = records(study.of(study.metric).comparisons)
    tests: Tests = {tuple(row[n] for n in names): row for row in compared}
    lower = study.metrics[study.metric].direction == "lower"
    rows = rows.sort_values("value", ascending=lower, kind="stable")
    orders: list[Order] = [
        records(mine) for _, mine in rows.groupby(["place", "setting"]) if len(mine) > 1
    ]
    return orders, tests


@once
def best_of(study: Run) -> pd.DataFrame:
    """Rows of best.csv, in the order of the table."""
    orders, tests = compete(study)
    made = [_verdict(order, tests) | {"metric": study.metric} for order in orders]
    return pd.DataFrame(made, columns=COLUMNS)


def _verdict(order: Order, tests: Tests) -> dict[str, Any]:
    best, second = order[:2]
    names = [(row["model"], row["policy"]) for row in order]
    found = [tests.get((best["task"], best["leads"], *names[0], *other)) for other in names[1:]]
    clear = beyond_chance(found[0])
    word = UNTESTED if clear is None else CLEAR if clear else CHANCE
    test = found[0] or {"difference": best["value"] - second["value"]}
    return {
        **{name: best[name] for name in ("task", "leads", "value")},
        **{f"best_{name}": best[name] for name in MODEL},
        **{f"second_{name}": second[name] for name in MODEL},
        **{name: test.get(name) for name in ("difference", "low", "high", "p_holm")},
        "verdict": EQUAL if best["value"] == second["value"] else word,
        "rivals": len(order) - 1,
        "beaten": sum(bool(beyond_chance(each)) for each in found),
    }


def beyond_chance(test: Mapping[str, Any] | None) -> bool | None:
    """Whether a difference is larger than chance explains, by p after Holm; None where it was not
    tested. The asterisk of the main table follows the paper's rule, each interval by itself.
    """
    if test is None or test["not_significantly_worse"] is None:
        return None
    if test["p_holm"] is None:
        return not test["not_significantly_worse"]
    return bool(test["p_holm"] < LEVEL)
