"""Metrics that read all labels of a record together: against scikit-learn and the official scorer
of the Challenge, as scores with intervals, in a run, and refused where the labels are others.
"""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from ecgbench import datasets
from ecgbench.cards.dataset import Task
from ecgbench.errors import BadSetting
from ecgbench.evaluate.predict import prediction_table
from ecgbench.metrics import challenge2021, f1_challenge2017
from ecgbench.results.score import Draws, score
from ecgbench.results.study import read
from ecgbench.study.scores import demand_labels
from tests.invented import Data, Made, dataset_facts, write

GOLDEN = Path(__file__).parents[1] / "data" / "challenge2021" / "golden.npz"
RANDOM = np.random.default_rng(0)
FOUR = ["O", "~", "N", "A"]


def four_classes(records: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """One true class a record, and probabilities that know something of it."""
    target = np.eye(4, dtype=np.int8)[RANDOM.choice(4, records, p=[0.3, 0.05, 0.55, 0.1])]
    return target, (target + 2 * RANDOM.random(target.shape)) / 3


def test_f1_is_that_of_scikit_learn_on_the_likeliest_class() -> None:
    target, probability = four_classes()
    expected = f1_score(target.argmax(1), probability.argmax(1), labels=[0, 2, 3], average=None)
    given = f1_challenge2017.value(target, probability, FOUR)
    assert np.isnan(given[2])
    np.testing.assert_allclose(given[[0, 1, 3, 4]], [expected.mean(), *expected], atol=1e-12)


def test_intervals_of_f1_draw_patients() -> None:
    target, probability = four_classes()
    patients = [f"p{i // 3:03}" for i in range(len(target))]
    names = {"record": [f"r{i:03}" for i in range(len(target))], "patient": patients}
    table = prediction_table({**names, "leads": ["I"] * len(target)}, FOUR, probability, target)
    draws = Draws(dataset="any", patients=tuple(sorted({*patients})), draws=100, bootstrap="none")
    made = score("f1_challenge2017", table, draws)
    low, value, high = (made.columns[name] for name in ("low", "value", "high"))
    there = np.isfinite(value)
    assert there.tolist() == [True, True, False, True, True]
    assert (low[there] < value[there]).all()
    assert (value[there] < high[there]).all()
    assert made.columns["positives"][0] == made.n_distinct == 3
    for counts, replicate in zip(draws.weights(patients)[:5], made.replicates):
        again = target.repeat(counts, axis=0), probability.repeat(counts, axis=0)
        assert f1_challenge2017.value(*again, FOUR)[0] == pytest.approx(replicate, abs=1e-12)


def test_the_score_is_that_of_the_official_scorer() -> None:
    known = np.load(GOLDEN)
    classes = len(challenge2021.CLASSES)
    labels, binary = (
        np.unpackbits(known[name], axis=1)[:, :classes] == 1 for name in ("labels", "binary")
    )
    given = challenge2021.scores(labels, binary, np.ones((1, len(labels))))
    np.testing.assert_allclose(given, known["challenge_metric"], rtol=0, atol=1e-12)
    # by their codes, in another order; of a merged class each label has one of the two codes
    order = RANDOM.permutation(classes)
    codes = [challenge2021.CLASSES[k].split("|")[-1] for k in order] + ["none of them"]
    more = np.ones((len(labels), 1), bool)
    of_labels = np.hstack([labels[:, order], more]).astype(np.int8)
    probability = np.hstack([0.4 + 0.2 * binary[:, order], more])
    value = challenge2021.value(of_labels, probability, codes)
    np.testing.assert_allclose(value[:1], given, rtol=0, atol=1e-12)
    assert np.isnan(value[1:]).all()


def test_every_class_that_the_collections_of_the_challenge_have_is_found() -> None:
    """By the table of scored diagnoses: Ningbo has all but atrial fibrillation."""
    own = {c for codes in datasets.codes("ningbo").values() for c in codes.split("|")}
    without = [c for c in challenge2021.CLASSES if not own & {*c.split("|")}]
    assert without == ["164889003", "426627000"]
    for name in ("chapman", "georgia", "cpsc2018", "cpsc_extra"):
        demand_labels("challenge2021", datasets.tasks()[name][2], datasets.codes(name))
        assert {*datasets.codes(name)} <= {*datasets.get(name).CARD.tasks[0].labels}


@pytest.mark.parametrize(
    ("metric", "labels", "masked"),
    [
        ("f1_challenge2017", ("N", "A", "O"), False),
        ("challenge2021", ("426783006", "164889003"), True),
    ],
)
def test_other_labels_and_unknown_ones_are_refused(
    metric: str, labels: tuple[str, ...], masked: bool
) -> None:
    task = Task(name="mine", title="Mine", labels=labels, masked=masked)
    with pytest.raises(BadSetting, match=f"--tasks mine: metric '?{metric}"):
        demand_labels(metric, task, {})


def test_a_run_is_read_by_the_codes_of_its_labels(tmp_path: Path) -> None:
    codes = {"A0": "426783006", "A1": "164889003", "A2": "733534002|164909002"}
    plain = Data(tasks={"a": 4}, records=200, per_patient=2)
    tasks = dataset_facts("first", plain)["tasks"]
    tasks["a"]["codes"] = codes
    data = Data(tasks=plain.tasks, records=200, per_patient=2, facts={"tasks": tasks})
    write(tmp_path, Made(data={"first": data}, seeds=1, skill=lambda model, leads: 4.0))
    study = read(tmp_path, ("challenge2021", "auroc"))
    own = study.result("a", "good", "12", "zero").predicted()
    names = [codes.get(label, label) for label in own.labels]
    expected = challenge2021.value(own.target, own.probability, names)[0]
    rows = study.main.set_index(["metric", "model", "leads"])
    row = rows.loc[("challenge2021", "good", "12")]
    assert row["value"] == pytest.approx(expected, abs=1e-12)
    assert row["low"] < row["value"] < row["high"]
    assert (row["n_labels"], row["n_undefined"]) == (4, 0)
    with pytest.raises(BadSetting, match="metric f1_challenge2017"):
        read(tmp_path, ("f1_challenge2017",))
