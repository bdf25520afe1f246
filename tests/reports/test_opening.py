"""What a page opens with: a share of the skill above chance only with its interval, and only where
the score at 12 leads is surely beyond chance.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecgbench import reports
from ecgbench.reports import records
from ecgbench.results.joint import Entry, joint
from ecgbench.results.study import read
from tests.results.made_run import Data, Made, write

pytestmark = pytest.mark.rendered


def opened(path: Path) -> Any:
    return reports.get("main_table").sections(read(path))[0].parts[0]


def test_the_sentence_is_of_the_best_with_the_fewest_leads_and_has_fiellers_interval(
    tmp_path: Path,
) -> None:
    """The better one at 12 leads is another."""
    skill = {("good", "1"): 1.2, ("good", "12"): 2.0, ("weak", "1"): 0.4, ("weak", "12"): 2.3}
    made = Made(data={"real": Data(tasks={"heart": 3}, records=240)}, skill=lambda *of: skill[of])
    write(tmp_path, made)
    study, shown = read(tmp_path), opened(tmp_path)
    share = joint(
        study, entries := [Entry("good", "zero", "1"), Entry("good", "zero", "12")]
    ).share(*entries)
    assert share.low < share.value < share.high
    said = f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"
    assert shown.sentence == f"With 1 random lead, Good keeps {said} of its skill above chance."
    assert "Good has the highest score of 2 trained columns at 1 random lead." in shown.about
    assert [tile.value for tile in shown.tiles][2] == f"{100 * share.value:.0f} %"
    rows = study.main.set_index(["model", "leads"])["value"]
    assert share.value == pytest.approx(
        (rows["good", "1"] - 0.5) / (rows["good", "12"] - 0.5), abs=1e-9
    )


@pytest.mark.parametrize(("low", "said"), [(0.6001, True), (0.6, False), (0.55, False)])
def test_a_share_is_said_where_the_interval_at_12_leads_ends_above_06(
    tmp_path: Path, low: float, said: bool
) -> None:
    skill = {"1": 0.9, "12": 2.0}
    write(tmp_path, Made(data={"real": Data(tasks={"heart": 2})}, skill=lambda _, of: skill[of]))
    study = read(tmp_path)
    study.main.loc[study.main["leads"] == "12", "low"] = low
    shown = reports.get("main_table").sections(study)[0].parts[0]
    assert ("keeps" in shown.sentence) is said


def test_a_perfect_model_has_its_interval_wherever_it_has_a_score(tmp_path: Path) -> None:
    """Nine patients, all ordered: the bound of the label, and no row that is surely as good."""
    data = {"real": Data(tasks={"heart": 1}, records=9)}
    write(tmp_path / "run", Made(data=data, skill=lambda *of: 50.0, leads="12,1", seeds=1))
    study = read(tmp_path / "run")
    low, high = study.labels.loc[study.labels["label"] == "HEART0", ["low", "high"]].iloc[0]
    assert (study.main["value"] == 1).all()
    assert study.main[["low", "high"]].to_numpy() == pytest.approx(np.array([[low, high]] * 4))
    assert high == 1
    assert 0 < low < 0.7
    said = f"[{100 * low:.1f}, 100.0]"
    shown = opened(tmp_path / "run")
    assert [tile.interval for tile in shown.tiles[:2]] == [said, said]
    reports.write(study, tmp_path / "out", only=["main_table"])
    assert (tmp_path / "out" / "main_table.csv").read_text().count(repr(float(low))) == 4
    for kind in ("md", "tex"):
        assert (tmp_path / "out" / f"main_table.{kind}").read_text().count(said) >= 4
    for row in study.comparisons.to_dict("records"):
        assert row["difference"] == 0
        assert (row["low"], row["high"]) == pytest.approx((low - 1, 1 - low))
    rows = [p for p in reports.get("non_inferiority").sections(study)[0].parts if p.kind == "table"]
    assert {r["margin_0.02"] for r in records(rows[0].numbers)} == {"not tested"}
