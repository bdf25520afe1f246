"""Joining two runs: what is damaged does not replace what is whole, and two versions of a plug-in
do not share a row.
"""

from pathlib import Path
from typing import Any

import pytest

from ecgbench.cards.cell import Cell, Fit
from ecgbench.cards.plan import Request
from ecgbench.core.files import as_json
from ecgbench.core.folders import publish
from ecgbench.core.keys import key
from ecgbench.ecg.draw import Count
from ecgbench.errors import BadSetting
from ecgbench.study.merge import merge
from ecgbench.study.store import Store, noted
from ecgbench.study.stored import CELL

FIT = Fit(task="demo", model="a", contract="paper", weights="random", seed=0)
ONE, TWO = (Cell(fit=FIT, task="demo", setting=Count(k, 0), policy="zero") for k in (1, 2))
FACTS = {"model": "a", "source": "s1", "weights": "w1", "dataset": "demo", "data": "d1"}
FACTS |= {"policy": "zero", "policy_source": None}


def run(path: Path, cell: Cell, which: str, finished: float, **facts: Any) -> Store:
    """A run of one finished cell; `which` is in its key."""
    store, own = Store(path), known(cell, which, **facts)
    assert isinstance(cell.setting, Count)
    asked = {"models": ("a",), "tasks": ("demo",), "weights": "random", "policies": ("zero",)}
    store.add_request(Request(leads=(cell.setting.k,), seeds=1, **asked))  # type: ignore[arg-type]
    document = {"identity": cell.identity, "key": key(own), "finished": finished}
    document |= {"key_facts": own, "fit": "fits/demo/a/f"}
    publish(store.cell_folder(cell), {CELL: as_json(document), "more": "whole"})
    return store


def known(cell: Cell, which: str, **facts: Any) -> dict[str, Any]:
    """What a key is made of."""
    place = {"cell": cell.task, "setting": str(cell.setting), "fit": "f"}
    return {**FACTS, **place, "which": which, **facts}


def key_of(store: Store) -> str:
    return str(noted(store.cell_folder(ONE))["key"])


def test_a_damaged_newer_cell_does_not_replace_a_whole_one(tmp_path: Path) -> None:
    ours, theirs = run(tmp_path / "a", ONE, "k1", 1.0), run(tmp_path / "b", ONE, "k2", 2.0)
    (theirs.cell_folder(ONE) / "more").write_text("cut")
    own = (ours.cell_folder(ONE) / CELL).read_bytes()
    counts = merge(ours.path, theirs.path, ours.path)
    assert counts == {"cells": 0, "fits": 0, "files": 0, "damaged": 1}
    assert (ours.cell_folder(ONE) / CELL).read_bytes() == own


def test_a_whole_cell_replaces_a_damaged_newer_one(tmp_path: Path) -> None:
    ours, theirs = run(tmp_path / "a", ONE, "k1", 2.0), run(tmp_path / "b", ONE, "k2", 1.0)
    (ours.cell_folder(ONE) / "more").write_text("cut")
    assert merge(ours.path, theirs.path, ours.path)["cells"] == 1
    assert key_of(ours) == key(known(ONE, "k2"))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"source": "s2"}, "the model a"),
        ({"data": "d2"}, "the dataset demo"),
        ({"policy_source": "p2"}, "the policy zero"),
        ({"records": "r2"}, "the task demo"),
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
    assert key_of(ours) == key(known(ONE, "k2", source="s2"))


def test_what_was_derived_from_a_run_comes_along(tmp_path: Path) -> None:
    ours, theirs = run(tmp_path / "a", ONE, "k1", 1.0), run(tmp_path / "b", ONE, "k1", 1.0)
    run(ours.path / "controls/leads", ONE, "k1", 1.0)
    for place in ("controls/leads", "perturbations/em 6"):
        run(theirs.path / place, TWO, "k2", 1.0)
    for to in (tmp_path / "both", ours.path):
        assert merge(ours.path, theirs.path, to)["cells"] == 2
        whole = Store(to / "controls/leads")
        assert {whole.state(cell)[0] for cell in whole.existing_plan().cells} == {"ok"}
        assert Store(to / "perturbations/em 6").state(TWO)[0] == "ok"


def test_a_run_is_not_merged_into_itself(tmp_path: Path) -> None:
    ours, theirs = run(tmp_path / "a", ONE, "k1", 1.0), run(tmp_path / "b", TWO, "k2", 1.0)
    for inside in (ours.path / "sub", theirs.path / "sub"):
        inside.mkdir()
        with pytest.raises(BadSetting):
            merge(ours.path, theirs.path, inside)
