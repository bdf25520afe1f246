"""Across tasks: means within datasets first, gaps that are not averaged over, what may be said of
who is best; differences to a baseline equal to what the tables give.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecgbench import reports
from ecgbench.errors import BadSetting
from ecgbench.reports import records
from ecgbench.results.joint import Entry, joint
from ecgbench.results.options import Options
from ecgbench.results.study import Run
from tests.invented import Data, Made, make

pytestmark = pytest.mark.rendered

MADE = Made(
    data={
        "alpha": Data(tasks={"a": 3, "b": 2}, records=200),
        "beta": Data(tasks={"c": 4}, records=160),
        "gamma": Data(tasks={"d": 3}, records=160),
    },
    models=("good", "near", "weak"),
    skill=lambda model, leads: (
        {"good": 1.4, "near": 1.35, "weak": 0.5}[model] * (0.6 if leads == "1" else 1.0)
    ),
)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("across") / "run", MADE)


def part(study: Run, name: str) -> Any:
    """Of all sections."""
    parts = [p for section in reports.sections("across", study) for p in section.parts]
    return next(p for p in parts if getattr(p, "name", "") == name)


def rows_of(study: Run) -> dict[tuple[str, str], dict[str, object]]:
    return {(r["leads"], r["model"]): r for r in records(part(study, "across").numbers)}


def test_a_mean_is_of_datasets_first(three: Run) -> None:
    value = three.main.set_index(["task", "model", "leads"])["value"]
    for leads in ("1", "12"):
        for model in MADE.models:
            a, b, c, d = (value[t, model, leads] for t in "abcd")
            row = rows_of(three)[leads, model]
            assert row["value"] == pytest.approx(np.mean([(a + b) / 2, c, d]), rel=1e-12)
            assert row["value_by_task"] == pytest.approx(np.mean([a, b, c, d]), rel=1e-12)
            assert row["low"] < row["value"] < row["high"]


def test_counts_and_gains_by_hand(three: Run) -> None:
    value = three.main.set_index(["leads", "task", "model"])["value"].unstack()
    for leads in ("1", "12"):
        own = value.loc[leads]
        for model in MADE.models:
            row = rows_of(three)[leads, model]
            gain = own[model] - own.drop(columns=model).max(axis=1)
            assert row["first"] == (own.rank(axis=1, ascending=False)[model] == 1).sum()
            assert (row["top_three"], row["gain"]) == (4, pytest.approx(gain.mean()))
            assert (row["largest_gain"], row["largest_gain_task"]) == (
                pytest.approx(gain.max()),
                gain.idxmax(),
            )


def test_who_may_be_the_best_and_who_may_not(three: Run) -> None:
    rows = rows_of(three)
    assert [rows["12", m]["may_be_best"] for m in MADE.models] == [True, True, False]
    assert rows["12", "weak"]["p_holm"] < 0.001


def test_models_that_predict_the_same_may_all_be_the_best(tmp_path: Path) -> None:
    same = replace(MADE, skill=lambda model, leads: 1.4, shared=1.0, leads="12")
    one = make(tmp_path / "run", same)
    rows = rows_of(one)
    assert [rows["12", m]["may_be_best"] for m in MADE.models] == [True] * 3
    assert {rows["12", m]["beyond_the_best"] for m in MADE.models} == {0.0}


def test_a_pair_is_the_joint_difference_of_its_two(three: Run) -> None:
    pairs = records(part(three, "across_pairs").numbers)
    assert len(pairs) == 2 * 3
    for pair in pairs:
        entries = [Entry(pair[n], "zero", pair["leads"]) for n in ("model", "other_model")]
        found = joint(three, entries).contrast([1, -1])
        assert (pair["difference"], pair["se"], pair["p"]) == pytest.approx(
            (found.value, found.se, found.p), rel=1e-9
        )
    row = rows_of(three)["12", "weak"]
    behind = {(p["leads"], p["model"], p["other_model"]): p["difference"] for p in pairs}
    assert row["behind"] == pytest.approx(behind["12", "good", "weak"])


def test_the_forest_is_of_joint_differences(three: Run) -> None:
    against = replace(three, options=Options(baseline="near"))
    rows = records(part(against, "forest").numbers)
    entries = [Entry(m, "zero", "12") for m in ("good", "near")]
    for dataset, tasks in (("alpha", ["a", "b"]), ("all datasets", ["a", "b", "c", "d"])):
        row = next(
            r for r in rows if (r["leads"], r["model"], r["dataset"]) == ("12", "good", dataset)
        )
        both = joint(three, entries, tasks)
        found = both.contrast(both.less(*entries))
        assert (row["difference"], row["se"], row["p"]) == pytest.approx(
            (found.value, found.se, found.p), rel=1e-9
        )
        assert row["baseline"] == "near"
    assert len(rows) == 2 * 2 * 4
    with pytest.raises(BadSetting, match="--baseline nobody"):
        reports.sections("across", replace(three, options=Options(baseline="nobody")))
