"""A key contains what is upstream of a number, and nothing else."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ecgbench.cards.cell import Cell, Fit, Scoring, Training
from ecgbench.cards.dataset import Task
from ecgbench.core.keys import key
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.ecg.draw import Count
from ecgbench.evaluate import evaluation, fits, protocols
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.protocols import probe
from ecgbench.study import cell as cell_module
from ecgbench.study.cell import cell_facts
from ecgbench.study.facts import dataset_facts
from ecgbench.study.store import Store

TASK = Task(name="task", title="Task", labels=("A", "B"))
FIT = Fit(task="task", model="m", contract="paper", weights="random", seed=0)
LINEAR = Training(protocol="linear")
CELL = Cell(fit=FIT, task="task", setting=Count(2, 1), policy="zero")


class Features(Evaluation):
    """An evaluation of which only the facts of its features are asked."""

    def __init__(self, selection: Any, task: Task, training: Training) -> None:
        self.contract: Any = SimpleNamespace(policy="zero")
        self.selection, self.learned, self.training = selection, task, training

    def task(self, fit: Fit) -> Task:
        return self.learned

    def facts(self, policy: str) -> dict[str, Any]:
        return {"features": evaluation.FEATURES, "policy": policy, "data": self.selection.signals}


def made(training: Training = LINEAR) -> tuple[Features, Any]:
    import pandas as pd

    known = {"sha256": ["1", "2"], "patient": ["p", "q"], "split": ["train", "test"]}
    labels = {"task:A": [0, 1], "task:B": [1, 0], "other:C": [0, 0]}
    index = pd.DataFrame({"record": ["a", "b"], **known, **labels})
    prepared = SimpleNamespace(index=index, name="toy", digest="of the whole release")
    selection = Selection(prepared, None)  # type: ignore[arg-type]
    return Features(selection, TASK, training), prepared


def fit_facts(one: Evaluation, fit: Fit) -> dict[str, Any]:
    return fits.Fitting(one, fit, Store(Path())).key_facts


def three(
    changed: Any = None,
    fit: Fit = FIT,
    cell: Cell = CELL,
    training: Training = LINEAR,
    scoring: Scoring = Scoring(),  # noqa: B008
) -> tuple[str, str, str]:
    """Keys of the features, of a fit and of a cell."""
    one, prepared = made(training)
    if changed:
        changed(prepared.index)
    fitted = key(fit_facts(one, fit))
    return key(one.facts("zero")), fitted, key(cell_facts(one, cell, TASK, fitted, scoring))


USUAL, ALL = three(), ["features", "fit", "cell"]


def moved(now: tuple[str, str, str]) -> list[str]:
    return [name for name, a, b in zip(ALL, USUAL, now, strict=True) if a != b]


def test_preparing_all_or_what_a_limit_takes_gives_one_key(
    fake_ptbxl: Path, tmp_path: Path
) -> None:
    keyed, taken = [], prepare("ptbxl", fake_ptbxl, tmp_path / "sound", limit=9).index
    (fake_ptbxl / "ptbxl" / f"{taken['path'][4]}.dat").write_bytes(b"")
    for limit in (None, 9):
        prepared = prepare("ptbxl", fake_ptbxl, tmp_path / f"{limit}", limit=limit)
        for task in prepared.card.tasks:
            one = Features(Selection(prepared, 9), task, LINEAR)
            facts = fit_facts(one, FIT)
            cell = cell_facts(one, CELL, task, key(facts), Scoring())
            keyed.append((limit, key(one.facts("zero")), key(facts), key(cell)))
        keyed.append((limit, key(dataset_facts(one.selection) | {"quarantined": []})))
        assert (prepared.count == 30) == (limit is None)
    half = len(keyed) // 2
    assert [k[1:] for k in keyed[:half]] == [k[1:] for k in keyed[half:]]


@pytest.mark.parametrize(
    ("number", "expected"),
    [("FEATURES", ALL), ("FITS", ["fit", "cell"]), ("SCORES", ["cell"])],
)
def test_a_number_that_is_raised_moves_what_lies_below_it(
    number: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (evaluation, fits, cell_module):
        if hasattr(module, number):
            monkeypatch.setattr(module, number, 99)
    assert moved(three()) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"scoring": Scoring(draws=5000)}, []),
        ({"scoring": Scoring(bootstrap="multinomial")}, []),
        ({"scoring": Scoring(draw="window")}, ["cell"]),
        ({"scoring": Scoring(rows="labelled")}, ["cell"]),
        ({"cell": replace(CELL, setting=Count(2, 2))}, ["cell"]),
        ({"training": Training()}, ["fit", "cell"]),
        ({"training": replace(LINEAR, epochs=7)}, ["fit", "cell"]),
        ({"training": replace(LINEAR, lr_groups=False)}, []),
        ({"fit": replace(FIT, seed=1)}, ["fit", "cell"]),
        ({"fit": replace(FIT, fold="2")}, ["fit", "cell"]),
        ({"changed": lambda index: index.__setitem__("other:C", [1, 1])}, []),
        ({"changed": lambda index: index.__setitem__("task:A", [1, 1])}, ["fit", "cell"]),
        ({"changed": lambda index: index.__setitem__("patient", ["p", "p"])}, ["fit", "cell"]),
        ({"changed": lambda index: index.__setitem__("sha256", ["1", "3"])}, ALL),
    ],
)
def test_a_fact_moves_what_rests_on_it_and_nothing_else(
    words: dict[str, Any], expected: list[str]
) -> None:
    assert moved(three(**words)) == expected


def test_a_fold_has_its_own_identity_and_folder(tmp_path: Path) -> None:
    other = replace(FIT, fold="2")
    assert replace(CELL, fit=other).identity == f"{CELL.identity}|fold 2"
    assert Store(tmp_path).fit_folder(other, "k") != Store(tmp_path).fit_folder(FIT, "k")


def test_the_key_of_a_probe_holds_its_own_settings_and_none_of_the_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = three(training=Training())
    assert three(training=Training(epochs=7, lr=0.1, weight_decay=0.1, batch=3)) == usual
    assert three(training=Training(leads="random"))[1:] != usual[1:]
    monkeypatch.setattr(probe, "PENALTIES", (1.0, 0.1))
    assert three(training=Training())[1:] != usual[1:]
    assert three(training=LINEAR) == USUAL


def test_keys_of_linear_and_finetune_are_those_before_there_was_a_probe() -> None:
    """Fits that are stored are found again."""
    linear, finetune = (protocols.facts(Training(protocol=p)) for p in ("linear", "finetune"))
    own = {"epochs": 100, "lr": 1e-3, "weight_decay": 1e-3, "batch": 64, "leads": "all"}
    more = {"lr_groups": True, "precision": "float32", "micro_batch": None}
    assert linear == {"protocol": "linear", **own}
    assert finetune == {"protocol": "finetune", **own, **more}
