"""Cells, plans and keys: pure data that survives JSON; a key knows every value and no order."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ecgbench.core.cells import Cell, Fit, Plan, Scoring, Training, grid, key
from ecgbench.ecg.draw import Count, Fixed, parse_leads, settings
from ecgbench.ecg.leads import LeadSubset

FITS = [
    Fit(task="all", model=m, contract="paper", weights="random", seed=s)
    for m in ("laef", "stmem")
    for s in (0, 1)
]
SETTINGS = settings(parse_leads("1,12,II,I+V2"), 2)
PLAN = Plan(
    name="mine",
    cells=grid(FITS, SETTINGS, ["zero", "native"], {"all": ["all", "form"]}),
    training=Training(epochs=3, lr=1e-4),
    scoring=Scoring(draw="window", rows="labelled", bootstrap="multinomial", draws=7),
    limit=60,
)


def test_a_grid_is_every_combination_once() -> None:
    assert len(PLAN.cells) == len(set(PLAN.cells)) == 4 * 2 * 2 * 5
    assert {(c.fit, c.task, c.policy, c.setting) for c in PLAN.cells} == {
        (f, t, p, s)
        for f in FITS
        for t in ("all", "form")
        for p in ("zero", "native")
        for s in SETTINGS
    }
    assert PLAN.fits == tuple(FITS)
    with pytest.raises(KeyError):
        grid(FITS, SETTINGS, ["zero"], {"other": ["other"]})


def test_cells_are_told_apart_in_words() -> None:
    assert PLAN.cells[1].label == "all · laef · 1@seed1 · zero"
    assert len({c.identity for c in PLAN.cells}) == len(PLAN.cells)


def test_joined_plans_hold_every_cell_once_and_keep_the_order() -> None:
    one, two = (
        replace(PLAN, cells=PLAN.cells[:6]),
        replace(PLAN, cells=PLAN.cells[4:9], name="other"),
    )
    assert one.joined(two).cells == PLAN.cells[:9]
    assert two.joined(one).cells == (*PLAN.cells[4:9], *PLAN.cells[:4])
    assert one.joined(one) == one
    assert one.joined(two).name == "mine"


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"limit": 61}, True),
        ({"training": Training(epochs=4, lr=1e-4)}, True),
        ({"scoring": replace(PLAN.scoring, draw="record")}, True),
        ({"scoring": replace(PLAN.scoring, draws=8)}, False),
        ({"name": "x", "cells": PLAN.cells[:1]}, False),
        (
            {
                "cells": tuple(
                    replace(c, fit=replace(c.fit, contract="upstream")) for c in PLAN.cells
                )
            },
            True,
        ),
    ],
)
def test_what_two_plans_in_one_folder_must_share(change: dict[str, Any], differs: bool) -> None:
    assert (replace(PLAN, **change).shared() != PLAN.shared()) is differs


def test_a_key_does_not_know_the_order_of_what_it_is_given() -> None:
    forth: dict[str, Any] = {"a": 1, "b": {"x": [1, 2.5], "y": None}, "c": "ü"}
    back = {"c": "ü", "b": {"y": None, "x": (1, 2.5)}, "a": 1}
    canonical = b'{"a":1,"b":{"x":[1,2.5],"y":null},"c":"\\u00fc"}'
    assert key(forth) == key(back) == hashlib.sha256(canonical).hexdigest()
    code = f"from ecgbench.core.cells import key; print(key({back!r}))"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "5", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert other.stdout.strip() == key(forth)


def test_a_key_knows_every_value_and_the_order_of_lists() -> None:
    kinds: list[dict[str, Any]] = [
        {"a": 1},
        {"a": 2},
        {"b": 1},
        {"a": "1"},
        {"a": True},
        {"a": None},
        {"a": [1, 2]},
        {"a": [2, 1]},
        {"a": {"1": 2}},
        {},
        {"a": 0.1},
        {"a": float(np.nextafter(0.1, 1))},
        {"a": 1, "b": None},
    ]
    assert len({key(k) for k in kinds}) == len(kinds)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32(1), {1, 2}, b"x"])
def test_what_has_no_canonical_json_has_no_key(value: object) -> None:
    """Rather an error than a key that means two things or changes from process to process."""
    with pytest.raises((TypeError, ValueError)):
        key({"a": value})


def test_a_cell_is_hashable_and_equal_by_value() -> None:
    cell = Cell(fit=FITS[0], task="all", setting=Fixed(LeadSubset.of("V2", "I")), policy="zero")
    assert cell in PLAN.cells
    assert replace(cell, setting=Count(2, 0)) not in PLAN.cells
