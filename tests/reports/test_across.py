"""Across tasks: means within datasets first, gaps that are not averaged over, and what may be said
of who is best.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ecgbench.reports import across
from ecgbench.results.study import Study, read
from tests.results.made_run import Data, Made, write

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


def study(path: Path, how: Made = MADE) -> Study:
    write(path, how)
    return read(path)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study(tmp_path_factory.mktemp("across") / "run")


def rows_of(one: Study) -> dict[tuple[str, str], dict[str, object]]:
    (section,) = across.sections(one)
    table = next(p for p in section.parts if getattr(p, "name", "") == "across")
    return {(r["leads"], r["model"]): r for r in table.numbers.rows}


def test_a_mean_is_of_datasets_first(three: Study) -> None:
    value = three.main.set_index(["task", "model", "leads"])["value"]
    for leads in ("1", "12"):
        for model in MADE.models:
            a, b, c, d = (value[t, model, leads] for t in "abcd")
            row = rows_of(three)[leads, model]
            assert row["value"] == pytest.approx(np.mean([(a + b) / 2, c, d]), rel=1e-12)
            assert row["value_by_task"] == pytest.approx(np.mean([a, b, c, d]), rel=1e-12)
            assert row["low"] < row["value"] < row["high"]


def test_counts_and_gains_by_hand(three: Study) -> None:
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


def test_who_may_be_the_best_and_who_may_not(three: Study) -> None:
    rows = rows_of(three)
    assert [rows["12", m]["may_be_best"] for m in MADE.models] == [True, True, False]
    assert rows["12", "weak"]["p_holm"] < 0.001
    (section,) = across.sections(three)
    said = section.parts[0].texts
    assert "these 3 datasets" in said[1]
    assert "May be the best (95 %): Good and Near" in said[1] or "Near and Good" in said[1]


def test_a_model_without_a_score_has_no_mean_and_is_named(tmp_path: Path) -> None:
    lacking = replace(MADE, lacking=[("c", "near", "1")])
    one = study(tmp_path / "run", lacking)
    row = rows_of(one)["1", "near"]
    assert row["value"] is None
    assert row["note"] == "no mean: no score in c (near at 1: failed)"
    assert row["rank"] is None
    # the others are compared as before, and so is it at twelve leads
    assert rows_of(one)["1", "good"]["tasks"] == 4
    assert rows_of(one)["12", "near"]["value"] is not None


def test_first_places_are_those_of_the_main_table(tmp_path: Path) -> None:
    """The best column lacks one task, so it has no mean; it is first elsewhere all the same."""
    one = study(tmp_path / "run", replace(MADE, lacking=[("c", "good", "12")]))
    rows, value = rows_of(one), one.main.set_index(["leads", "task", "model"])["value"]
    own = value.loc["12"].unstack()
    for model in ("near", "weak"):
        row = rows["12", model]
        gain = own[model] - own.drop(columns=model).max(axis=1)
        assert row["first"] == (own.rank(axis=1, ascending=False)[model] == 1).sum()
        assert row["gain"] == pytest.approx(gain.mean())
    (section,) = across.sections(one)
    said = next(text for text in section.parts[0].texts if text.startswith("12 leads"))
    assert f"first on {rows['12', 'near']['first']} of 4 tasks. Without a mean: Good." in said


def test_settings_of_other_tasks_say_so_row_by_row(tmp_path: Path) -> None:
    gone = [("c", model, "1") for model in MADE.models]
    one = study(tmp_path / "run", replace(MADE, leads="1,aVR,12", lacking=gone))
    (section,) = across.sections(one)
    table = next(p for p in section.parts if getattr(p, "name", "") == "across")
    assert all("dataset" not in c.note or c.note.startswith("over") for c in table.columns)
    shown = {row["leads"]: (row["datasets"], row["tasks"]) for row in table.rows}
    assert shown == {"1 random lead": (2, 3), "lead aVR": (3, 4), "12 leads": (3, 4)}
    said = section.parts[0].texts
    assert [text.partition(",")[0] for text in said] == ["1 random lead", "Lead aVR", "12 leads"]


def test_models_that_predict_the_same_may_all_be_the_best(tmp_path: Path) -> None:
    same = replace(MADE, skill=lambda model, leads: 1.4, shared=1.0, leads="12")
    one = study(tmp_path / "run", same)
    rows = rows_of(one)
    assert ", the same as Near (p = 1.000" in across.sections(one)[0].parts[0].texts[0]
    assert [rows["12", m]["may_be_best"] for m in MADE.models] == [True] * 3
    assert {rows["12", m]["beyond_the_best"] for m in MADE.models} == {0.0}


def test_a_perfect_mean_keeps_a_doubt(tmp_path: Path) -> None:
    one = study(tmp_path / "run", replace(MADE, skill=lambda model, leads: 60.0))
    for row in rows_of(one).values():
        assert row["value"] == pytest.approx(1)
        assert 0.8 < row["low"] < 0.999
        assert row["high"] == pytest.approx(1)


def test_a_mean_without_an_interval_has_no_bounds(tmp_path: Path) -> None:
    data = {d: replace(of, per_patient=of.records) for d, of in MADE.data.items()}
    one = study(tmp_path / "run", replace(MADE, data=data))
    assert all(np.isnan(row["low"]) and np.isnan(row["high"]) for row in rows_of(one).values())
    (section,) = across.sections(one)
    table = next(p for p in section.parts if getattr(p, "name", "") == "across")
    for text in [*section.parts[0].texts, *(row["mean"].small for row in table.rows)]:
        assert "nan" not in text
        assert "  " not in text
    assert {row["mean"].small for row in table.rows} == {""}


def test_one_task_has_nothing_across(tmp_path: Path) -> None:
    assert (
        across.sections(study(tmp_path / "run", replace(MADE, data={"beta": Data(tasks={"c": 2})})))
        == []
    )


def test_the_difference_has_the_interval_of_its_patients(three: Study) -> None:
    """Against the same mean with patients drawn anew, all tasks of a dataset together."""
    from sklearn.metrics import roc_auc_score

    rows = rows_of(three)
    random = np.random.default_rng(0)
    tables = {
        (t, m): three.result(t, m, "12", "zero").predictions() for t in "abcd" for m in MADE.models
    }

    def macro(table: object, chosen: np.ndarray) -> float:
        part = table.iloc[chosen]  # type: ignore[attr-defined]
        names = [c.split(":")[1] for c in part if c.startswith("target:")]
        return float(
            np.mean([roc_auc_score(part[f"target:{n}"], part[f"probability:{n}"]) for n in names])
        )

    drawn = []
    for _ in range(80):
        sets = {k: random.integers(0, n, n) for k, n in (("ab", 200), ("c", 160), ("d", 160))}
        value = {
            m: np.mean(
                [
                    np.mean([macro(tables[t, m], sets["ab"]) for t in "ab"]),
                    macro(tables["c", m], sets["c"]),
                    macro(tables["d", m], sets["d"]),
                ]
            )
            for m in ("good", "weak")
        }
        drawn.append(value["good"] - value["weak"])
    row = rows["12", "weak"]
    (section,) = across.sections(three)
    pairs = next(p for p in section.parts if getattr(p, "name", "") == "across_pairs").rows
    pair = next(
        p for p in pairs if (p["leads"], p["model"], p["other_model"]) == ("12", "good", "weak")
    )
    assert pair["se"] == pytest.approx(np.std(drawn), rel=0.3)
    assert row["behind"] >= pair["difference"] - 1e-12
