"""Joining two runs: what is damaged does not replace what is whole, and two versions of a plug-in
do not share a row.
"""

from pathlib import Path
from typing import Any

import pytest

from ecgbench.cells import Cell, Fit, Plan
from ecgbench.ecg.draw import Count
from ecgbench.errors import BadSetting
from ecgbench.files import as_json
from ecgbench.results.folders import publish
from ecgbench.results.merge import merge
from ecgbench.results.store import Store

FIT = Fit(task="demo", model="a", contract="paper", weights="random", seed=0)
ONE, TWO = (Cell(fit=FIT, task="demo", setting=Count(k, 0), policy="zero") for k in (1, 2))
FACTS = {
    "model": "a",
    "source": "s1",
    "weights": "w1",
    "dataset": "demo",
    "data": "d1",
    "policy": "zero",
    "policy_source": None,
}


def run(path: Path, cell: Cell, key: str, finished: float, **facts: Any) -> Store:
    """A run of one finished cell."""
    store = Store(path)
    store.write_plan(Plan(name="test", cells=(cell,)))
    document = {
        "identity": cell.identity,
        "key": key,
        "finished": finished,
        "key_facts": {**FACTS, **facts},
    }
    publish(store.cell_folder(cell, key), {"cell.json": as_json(document), "more": "whole"})
    store.add_keys({cell.identity: key})
    return store


def test_a_damaged_newer_cell_does_not_replace_a_whole_one(tmp_path: Path) -> None:
    ours, theirs = run(tmp_path / "a", ONE, "k1", 1.0), run(tmp_path / "b", ONE, "k2", 2.0)
    (theirs.cell_folder(ONE, "k2") / "more").write_text("cut")
    folder = ours.folder(ONE)
    assert merge(ours.path, theirs.path, ours.path) == {
        "cells": 0,
        "fits": 0,
        "files": 0,
        "damaged": 1,
    }
    assert folder is not None
    assert Store(ours.path).folder(ONE) == folder


def test_a_whole_cell_replaces_a_damaged_newer_one(tmp_path: Path) -> None:
    ours, theirs = run(tmp_path / "a", ONE, "k1", 2.0), run(tmp_path / "b", ONE, "k2", 1.0)
    (ours.cell_folder(ONE, "k1") / "more").write_text("cut")
    assert merge(ours.path, theirs.path, ours.path)["cells"] == 1
    assert Store(ours.path).folder(ONE) == ours.cell_folder(ONE, "k2")


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"source": "s2"}, "the model a"),
        ({"weights": "w2"}, "the model a"),
        ({"data": "d2"}, "the dataset demo"),
        ({"policy_source": "p2"}, "the policy zero"),
    ],
)
def test_two_versions_of_a_plugin_are_not_put_in_one_row(
    changed: dict[str, str], what: str, tmp_path: Path
) -> None:
    ours, theirs = (
        run(tmp_path / "a", ONE, "k1", 1.0),
        run(tmp_path / "b", TWO, "k2", 2.0, **changed),
    )
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadSetting, match=f"two versions of {what}"):
        merge(ours.path, theirs.path, tmp_path / "both")
    assert [p for p in sorted(tmp_path.rglob("*")) if "locks" not in p.parts] == [
        p for p in before if "locks" not in p.parts
    ]


def test_a_newer_version_of_every_cell_replaces_the_older(tmp_path: Path) -> None:
    ours, theirs = (
        run(tmp_path / "a", ONE, "k1", 1.0),
        run(tmp_path / "b", ONE, "k2", 2.0, source="s2"),
    )
    merge(ours.path, theirs.path, ours.path)
    ours.index_file.unlink()
    assert Store(ours.path).folder(ONE) == ours.cell_folder(ONE, "k2")
