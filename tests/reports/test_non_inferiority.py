"""Verdicts by margin: as good, worse, not known, and none where a verdict would mean nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ecgbench import reports
from ecgbench.reports import non_inferiority as report
from ecgbench.reports import records
from ecgbench.results.non_inferiority import BEST
from ecgbench.results.study import Run
from tests.invented import Data, Made, make

SKILL = {"12": 2.0, "II": 2.0, "V1": 1.7, "I": 0.8}
MADE = Made(
    data={"alpha": Data(tasks={"a": 3}, records=1500)},
    models=("good", "blind"),
    leads="I,II,V1,12",
    skill=lambda model, leads: SKILL[leads] if model == "good" else 0.02,
    shared=0.97,
)


def rows_of(one: Run) -> dict[tuple[str, str, str], dict[str, Any]]:
    (section,) = reports.sections("non_inferiority", one)
    table = next(p for p in section.parts if getattr(p, "name", "") == "non_inferiority")
    return {(r["model"], r["leads"], r["against"]): r for r in records(table.numbers)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("margins") / "run", MADE)


def test_verdicts_follow_the_interval(made: Run) -> None:
    rows = rows_of(made)
    assert [rows["good", s, report.OWN]["margin_0.05"] for s in ("II", "V1", "I")] == [
        "yes",
        "yes",
        "no",
    ]
    for (_, _, against), row in rows.items():
        for margin in (0.01, 0.02, 0.05):
            said = row[f"margin_{margin:g}"]
            if against == report.OWN and row["model"] == "good":
                expected = (
                    "yes"
                    if row["low"] > -margin
                    else "no"
                    if row["high"] < -margin
                    else "undecided"
                )
                assert said == expected
    assert rows["good", "II", report.OWN]["detectable"] == pytest.approx(
        (1.96 + 0.842) * rows["good", "II", report.OWN]["se"], rel=0.05
    )


def test_what_is_at_chance_gets_no_verdict_and_is_compared_with_the_best(made: Run) -> None:
    rows = rows_of(made)
    assert {rows["blind", s, report.OWN]["margin_0.05"] for s in ("I", "II", "V1")} == {
        "no verdict"
    }
    against = rows["blind", "II", BEST]
    assert against["against_model"] == "good"
    assert against["high"] < -0.1
    assert ("good", "II", BEST) not in rows


def test_a_label_that_is_lost_cancels_a_yes(tmp_path: Path) -> None:
    """One label of eight falls from 0.92 to 0.76, the mean by 0.02 only."""
    data = {"alpha": Data(tasks={"a": 8}, records=1500)}
    how = replace(MADE, data=data, lost={("II", "A3"): 1.0}, shared=0.8)
    row = rows_of(make(tmp_path / "run", how))["good", "II", report.OWN]
    assert row["low"] > -0.05
    assert (row["margin_0.05"], row["lost_label"]) == ("cancelled", "A3")
    few = replace(how, prevalence={"A3": 0.008})
    row = rows_of(make(tmp_path / "few", few))["good", "II", report.OWN]
    assert row["lost_label"] == ""
