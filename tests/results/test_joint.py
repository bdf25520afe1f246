"""Means over tasks and datasets and their contrasts: equal to the table where there is one task,
paired within a dataset, independent between datasets.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ecgbench.cards.cell import Scoring
from ecgbench.errors import MissingData
from ecgbench.results.joint import Entry, joint, why_missing
from ecgbench.results.study import Run, read
from tests.invented import Data, Made, make

TWO = Made(
    data={"first": Data(tasks={"a": 3, "b": 2}, per_patient=2), "second": Data(tasks={"c": 4})},
    skill=lambda model, leads: (1.6 if model == "good" else 1.0) * (0.6 if leads == "1" else 1.0),
)
GOOD, WEAK = Entry("good", "zero", "12"), Entry("weak", "zero", "12")

LESS = (1, -1)
"""Of the first of two entries the second."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("joint") / "run", TWO)


def test_of_one_task_it_is_the_difference_of_the_table(two: Run) -> None:
    for leads in ("1", "12"):
        rows = two.comparisons.set_index(["task", "leads"])
        for task in ("a", "b", "c"):
            said = rows.loc[(task, leads)]
            best, other = (
                Entry(said["best_model"], "zero", leads),
                Entry(said["model"], "zero", leads),
            )
            found = joint(two, [best, other], [task]).contrast(LESS)
            assert (found.value, found.se, found.df, found.p) == pytest.approx(
                (said["difference"], said["se"], said["df"], said["p"]), rel=1e-9
            )


def test_a_mean_is_of_datasets_and_by_task_it_is_of_tasks(two: Run) -> None:
    value = two.main.set_index(["task", "model", "leads"])["value"]
    a, b, c = (value[task, "good", "12"] for task in "abc")
    assert joint(two, [GOOD]).values == pytest.approx([((a + b) / 2 + c) / 2], rel=1e-12)
    assert joint(two, [GOOD]).by("task").values == pytest.approx([(a + b + c) / 3], rel=1e-12)


def test_variances_of_datasets_add_and_tasks_of_one_are_paired(two: Run) -> None:
    whole = joint(two, [GOOD, WEAK]).contrast(LESS)
    parts = [joint(two, [GOOD, WEAK], t).contrast(LESS) for t in (["a", "b"], ["c"])]
    assert whole.variance == pytest.approx(sum(p.variance for p in parts) / 4, rel=1e-9)
    spread = sum((p.variance / 4) ** 2 / p.df for p in parts)
    assert whole.df == pytest.approx(whole.variance**2 / spread, rel=1e-9)
    assert whole.share == pytest.approx(
        max(p.variance for p in parts) / sum(p.variance for p in parts)
    )


def test_the_same_task_twice_is_no_more_evidence(tmp_path: Path) -> None:
    """Two tasks with the same labels and predictions in one dataset say what one says."""
    study = make(tmp_path / "run", replace(TWO, data={"first": Data(tasks={"a": 3, "b": 3})}))
    twin = read(tmp_path / "run")
    results = twin.finished
    for entry in (GOOD, WEAK):
        results[("b", *entry)] = results[("a", *entry)]
    one = joint(study, [GOOD, WEAK], ["a"]).contrast(LESS)
    both = joint(twin, [GOOD, WEAK], ["a", "b"]).contrast(LESS)
    assert both.value == pytest.approx(one.value, rel=1e-12)
    assert both.se == pytest.approx(one.se, rel=0.02)


def test_what_may_be_shared_is_not_taken_for_independent(tmp_path: Path) -> None:
    data = {"chapman": Data(tasks={"a": 3}), "ningbo": Data(tasks={"c": 3})}
    study = make(tmp_path / "run", replace(TWO, data=data))
    whole = joint(study, [GOOD, WEAK])
    assert whole.overlapping == [("chapman", "ningbo")]
    ses = [joint(study, [GOOD, WEAK], t).contrast(LESS).se for t in (["a"], ["c"])]
    assert whole.contrast(LESS).se == pytest.approx(sum(ses) / 2, rel=1e-9)
    names = [f"p{i:05}" for i in range(120)]
    same = {(d, p): p for d in data for p in names}
    paired = joint(study, [GOOD, WEAK], paired=same)
    assert not paired.overlapping
    assert paired.contrast(LESS).value == pytest.approx(whole.contrast(LESS).value, rel=1e-12)
    independent = np.sqrt(sum(s**2 for s in ses)) / 2
    assert 0.7 * independent < paired.contrast(LESS).se < sum(ses) / 2


def test_a_ragged_mean_is_refused(tmp_path: Path) -> None:
    study = make(tmp_path / "run", replace(TWO, lacking=[("b", "weak", "1")]))
    low = [Entry(m, "zero", "1") for m in ("good", "weak")]
    assert set(why_missing(study, low, ["a", "b", "c"])) == {"b"}
    with pytest.raises(MissingData, match="weak at 1: failed"):
        joint(study, low)
    assert joint(study, low, ["a", "c"]).datasets == ("first", "second")


def test_shares_of_skill_are_fiellers(two: Run) -> None:
    low = Entry("good", "zero", "1")
    both = joint(two, [low, GOOD], ["a"])
    share = both.share(low, GOOD)
    values = both.values - 0.5
    assert share.value == pytest.approx(values[0] / values[1], rel=1e-12)
    assert share.low < share.value < share.high
    for bound in (share.low, share.high):  # at its ends the difference is just not 0
        off = both.contrast([1, -bound]).shifted(-0.5 * (1 - bound))
        assert abs(off.value) == pytest.approx(off.t * off.se, rel=1e-4)


def test_joint_draws_have_the_size_and_the_correlation_of_the_contrasts(two: Run) -> None:
    low = Entry("good", "zero", "1")
    three = joint(two, [GOOD, WEAK, low])
    c = np.array([[1, -1, 0], [1, 0, -1], [2, -2, 0]])
    drawn = three.studentised(c, 4000)
    assert drawn.std(axis=0) == pytest.approx(1, abs=0.1)
    assert np.corrcoef(drawn[:, 0], drawn[:, 2])[0, 1] == pytest.approx(1, abs=1e-6)
    between = [e.variance for e in three.contrasts([[1, -1, 0], [1, 0, -1], [0, 1, -1]])]
    expected = (between[0] + between[1] - between[2]) / 2 / np.sqrt(between[0] * between[1])
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(expected, abs=0.12)


def test_metrics_without_placements_take_the_draws_of_patients(tmp_path: Path) -> None:
    scoring = Scoring(bootstrap="multinomial", draws=1000)
    study = make(tmp_path / "run", replace(TWO, scoring=scoring))
    exact = make(tmp_path / "exact", TWO)
    drawn = joint(study, [GOOD, WEAK]).contrast(LESS)
    placed = joint(exact, [GOOD, WEAK]).contrast(LESS)
    assert drawn.value == pytest.approx(placed.value, rel=1e-12)
    assert drawn.se == pytest.approx(placed.se, rel=0.25)
    assert joint(study, [GOOD, WEAK]).studentised([[1, -1]]).std() == pytest.approx(1, abs=0.1)


def test_repeated_fits_widen_it(tmp_path: Path) -> None:
    once = make(tmp_path / "once", replace(TWO, leads="12"))
    thrice = make(tmp_path / "thrice", replace(TWO, leads="12", fits=(0, 1, 2)))
    pair = joint(thrice, [GOOD, WEAK], ["c"])
    values = thrice.cells[(thrice.cells["task"] == "c")].set_index(["model", "fit_seed"])["value"]
    apart = [values["good", s] - values["weak", s] for s in range(3)]
    fitted = pair.groups[0].placed.difference(0, 1)
    found = pair.contrast(LESS)
    assert found.variance == pytest.approx(fitted.variance + np.var(apart, ddof=1) / 3, rel=1e-9)
    assert joint(once, [GOOD, WEAK], ["c"]).contrast(LESS).df > found.df


def test_draws_of_patients_do_not_take_shared_ones_for_independent(tmp_path: Path) -> None:
    """Each dataset has draws of its own, so the pairs widen the interval instead."""
    scoring = Scoring(bootstrap="multinomial", draws=500)
    data = {"first": Data(tasks={"a": 3}), "second": Data(tasks={"c": 3})}
    study = make(tmp_path / "run", replace(TWO, data=data, scoring=scoring, leads="12"))
    same = {(d, f"p{i:05}"): f"p{i:05}" for d in data for i in range(120)}
    alone, paired = (joint(study, [GOOD, WEAK], paired=p) for p in (None, same))
    assert (alone.overlapping, paired.overlapping) == ([], [("first", "second")])
    ses = [joint(study, [GOOD, WEAK], t).contrast(LESS).se for t in (["a"], ["c"])]
    assert alone.contrast(LESS).se == pytest.approx(np.hypot(*ses) / 2, rel=1e-9)
    assert paired.contrast(LESS).se == pytest.approx(sum(ses) / 2, rel=1e-9)
    blank = make(tmp_path / "blank", replace(TWO, skill=lambda model, leads: 0.05))
    low = Entry("good", "zero", "1")
    assert np.isnan(joint(blank, [low, GOOD], ["a"]).share(low, GOOD).value), "of no skill"
