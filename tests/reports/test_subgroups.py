"""The report of subgroups, on runs written by hand: numbers again by scikit-learn, groups that are
too small, and who is unknown.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench import reports
from ecgbench.reports import records
from ecgbench.results.study import Run, read
from ecgbench.results.subgroups import groups
from ecgbench.study.people import COLUMNS, keep
from tests.invented import Data, Made, write

N = 900
MADE = Made(
    data={"a": Data(tasks={"a": 3}, records=N, per_patient=2)},
    skill=lambda model, leads: {"12": 1.8, "1": 0.8}[leads],
    prevalence={"A2": 0.02},
)


def _people(**more: list[object]) -> pd.DataFrame:
    """Of the records of MADE: patients in turn, the last of whom no age is known."""
    whose = np.arange(N) // 2
    table = {
        "record": [f"r{i:05}" for i in range(N)],
        "patient": [f"p{i:05}" for i in whose],
        "age": np.where(whose >= 440, np.nan, 20.0 + whose % 80),
        "sex": np.where(whose % 2, "female", "male"),
        "device": np.where(whose == 0, "one of a kind", np.where(whose % 3, "A", "B")),
        "site": "",
        "paced": "",
        "noted": "",
    }
    return pd.DataFrame({**table, **more})[list(COLUMNS)]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = tmp_path_factory.mktemp("subgroups") / "run"
    write(run, MADE)
    keep(run, "a", _people())
    return read(run)


def _tables(study: Run) -> dict[str, list[dict]]:
    (section,) = reports.sections("subgroups", study)
    found = {}
    for part in section.parts:
        for one in part.parts if part.kind == "group" else [part]:
            if one.kind == "table":
                found[one.name] = records(one.numbers)
    return found


def test_each_difference_is_that_of_the_same_labels_on_both_sides(study: Run) -> None:
    rows = _tables(study)["subgroups"]
    people = _people().set_index("record")
    for row in rows:
        assert "A2" not in row["labels"], "a label with few positives is left out"
        cells = [
            r.predictions()
            for r in study.results
            if (r.cell.fit.model, r.cell.setting.typed) == (row["model"], row["leads"])
        ]
        means = []
        for own in (row["group"], row["rest"]):
            values = []
            for table in cells:
                who = people.loc[table["record"]]
                band = pd.cut(
                    who["age"],
                    [0, 40, 65, 80, 200],
                    right=False,
                    labels=["under 40", "40 to 64", "65 to 79", "80 and over"],
                ).astype(object)
                word = band if row["variable"] == "age" else who[row["variable"]]
                inside = (
                    word.notna() & (word != row["group"]) if own == "all others" else word == own
                ).to_numpy()
                values += [
                    roc_auc_score(table[f"target:{k}"][inside], table[f"probability:{k}"][inside])
                    for k in row["labels"].split("+")
                ]
            means.append(np.mean(values))
        assert row["value"] == pytest.approx(means[0], abs=1e-9)
        assert row["difference"] == pytest.approx(means[0] - means[1], abs=1e-9)
    full = {(r["model"], r["group"]): r["difference"] for r in rows if r["leads"] == "12"}
    for row in (r for r in rows if r["leads"] == "1"):
        assert row["change"] == pytest.approx(
            row["difference"] - full[row["model"], row["group"]], abs=1e-9
        )
    assert {r["variable"] for r in rows} == {"sex", "age", "device"}
    assert {r["group"] for r in rows if r["variable"] == "sex"} == {"female"}, "once, not twice"


def test_small_groups_are_counted_with_their_reason_and_the_unknown_are_in_none(
    study: Run,
) -> None:
    tables = _tables(study)
    left = {(r["variable"], r["group"]): r for r in tables["subgroups_left"]}
    assert left["device", "one of a kind"]["n_patients"] == 1
    ages = {r["group"]: r["n_patients"] for r in tables["subgroups"] if r["variable"] == "age"}
    ages |= {g: r["n_patients"] for (v, g), r in left.items() if v == "age"}
    assert sum(ages.values()) == 440


def test_a_group_may_be_missing_in_a_fold(tmp_path: Path) -> None:
    """As the patients of a recorder are with `--folds device=3`."""
    write(tmp_path / "run", replace(MADE, folds=3))
    whose = np.arange(N) // 2
    keep(tmp_path / "run", "a", _people(device=np.where(whose % 3, "A", "B")))
    rows = _tables(read(tmp_path / "run"))["subgroups"]
    found = [r for r in rows if r["variable"] == "device" and r["leads"] == "12"]
    one = next(r for r in found if r["model"] == "good")
    assert one["difference"] == pytest.approx(one["value"] - one["value_rest"])
    assert one["n_patients"] + one["n_patients_rest"] == N // 2


def test_nothing_is_said_of_a_run_that_knows_nobody(tmp_path: Path) -> None:
    write(tmp_path / "run", Made(data={"a": Data(tasks={"a": 1})}))
    assert reports.sections("subgroups", read(tmp_path / "run")) == []
    unknown = _people(sex=[""] * N, device=[""] * N, age=[np.nan] * N)
    assert groups(unknown) == []
