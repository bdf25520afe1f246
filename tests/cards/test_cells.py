"""Cells, plans and keys: pure data that survives JSON; a key knows every value and no order."""

import hashlib
from dataclasses import replace
from typing import Any

from ecgbench.cards.cell import Fit, Scoring, Training
from ecgbench.cards.plan import Request, plan_of
from ecgbench.core.keys import key
from ecgbench.ecg.draw import parse_leads, settings

FITS = [
    Fit(task="all", model=m, contract="paper", weights="random", seed=s)
    for m in ("laef", "stmem")
    for s in (0, 1)
]
SETTINGS = settings(parse_leads("1,12,II,I+V2"), 2)
PLAN = plan_of(
    Request(
        models=("laef", "stmem"),
        tasks=("all", "form"),
        leads=parse_leads("1,12,II,I+V2"),
        seeds=2,
        fit_seeds=(0, 1),
        weights="random",
        policies=("zero", "native"),
        parents={"form": "all"},
        training=Training(epochs=3, lr=1e-4),
        scoring=Scoring(draw="window", rows="labelled", bootstrap="multinomial", draws=7),
        name="mine",
    )
)


def test_a_plan_is_every_combination_once() -> None:
    assert len(PLAN.cells) == len(set(PLAN.cells)) == 4 * 2 * 2 * 5
    assert {(c.fit, c.task, c.policy, c.setting) for c in PLAN.cells} == {
        (f, t, p, s)
        for f in FITS
        for t in ("all", "form")
        for p in ("zero", "native")
        for s in SETTINGS
    }
    assert PLAN.fits == tuple(FITS)


def test_joined_plans_hold_every_cell_once_and_keep_the_order() -> None:
    one, two = (
        replace(PLAN, cells=PLAN.cells[:6]),
        replace(PLAN, cells=PLAN.cells[4:9], name="other"),
    )
    assert one.joined(two).cells == PLAN.cells[:9]
    assert two.joined(one).cells == (*PLAN.cells[4:9], *PLAN.cells[:4])
    assert one.joined(one) == one
    assert one.joined(two).name == "mine"


def test_a_key_does_not_know_the_order_of_what_it_is_given() -> None:
    forth: dict[str, Any] = {"a": 1, "b": {"x": [1, 2.5], "y": None}, "c": "ü"}
    back = {"c": "ü", "b": {"y": None, "x": (1, 2.5)}, "a": 1}
    canonical = b'{"a":1,"b":{"x":[1,2.5],"y":null},"c":"\\u00fc"}'
    assert key(forth) == key(back) == hashlib.sha256(canonical).hexdigest()
