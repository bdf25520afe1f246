import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ecgbench import datasets, models, policies
from ecgbench.cards.cell import Scoring, Training
from ecgbench.cards.plan import Plan, Request, plan_of, weights_of
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import BadSetting, EcgbenchError, UnknownName
from ecgbench.study import plan as planning

PLUGINS = Path(__file__).parents[1] / "plugins"
ASKED = Request(
    models=("laef", "stmem"),
    tasks=("ptbxl_super",),
    leads=parse_leads("1,12,II"),
    seeds=2,
    weights="random",
)


def planned(**words: Any) -> Plan:
    if "leads" in words:
        words["leads"] = parse_leads(words["leads"])
    asked = planning.check(replace(ASKED, **words))
    return plan_of(asked)


def test_a_grid_in_the_order_typed() -> None:
    found = planned(models=("ST-MEM", "LAEF"), leads="II,12,1")
    assert [f"{c.fit.model} {c.setting} {c.policy}" for c in found.cells] == [
        *(f"stmem {s} zero" for s in ("II", "12", "1@seed0", "1@seed1")),
        *(f"laef {s} native" for s in ("II", "12", "1@seed0", "1@seed1")),
    ]
    assert len(found.fits) == 2


def test_files_of_ones_own_are_found_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "adapters"
    own.mkdir()
    shutil.copy(PLUGINS / "toy_csv.py", own / "clinic.py")
    (own / "average.py").write_text("def fill(signal, measured, state=None): return signal")
    monkeypatch.chdir(tmp_path)
    try:
        found = planned(leads="II", tasks=("Clinic",), policies=("average",))
        assert {c.task for c in found.cells} == {t.name for t in datasets.get("clinic").CARD.tasks}
        assert {c.policy for c in found.cells} == {"average"}
        with pytest.raises(BadSetting, match=r"dataset 'average'.* does not define CARD"):
            planned(leads="II", tasks=("average",))
    finally:
        datasets.ROOM.forget()
        policies.ROOM.forget()


def test_groups_of_models() -> None:
    asked = planning.check(replace(ASKED, models=("laef", "baselines")))
    assert asked.models == (
        *("laef", "ecgfounder", "ecgjepa", "stmem", "merl", "ecgfmked", "hubertecg", "ecgcpc"),
    )
    found = set(planning.check(replace(ASKED, models=("published",))).models)
    assert {*asked.models[1:], "clef_small", "clef_medium", "clef_large", "tolerantecg"} <= found
    assert {"ecgfm", "limb6_rhythm"} <= found
    assert not {"laef", "untrained_laef", "simple_features"} & found


def test_policies_are_those_of_each_model_and_named_once() -> None:
    found = planned(leads="II", policies=("paper", "Zero", "native", "paper"))
    assert [(c.fit.model, c.policy) for c in found.cells] == [
        ("laef", "native"),
        ("laef", "zero"),
        ("stmem", "zero"),
        ("stmem", "native"),
    ]


def test_columns_of_a_task_share_its_fit() -> None:
    found = planned(
        tasks=("ptbxl-diag", "ptbxl_super", "PTBXL_ALL", "ptbxl_form"), models=("laef",), leads="12"
    )
    assert [(c.task, c.fit.task) for c in found.cells] == [
        ("ptbxl_diag", "ptbxl_all"),
        ("ptbxl_all", "ptbxl_all"),
        ("ptbxl_form", "ptbxl_all"),
        ("ptbxl_super", "ptbxl_super"),
    ]
    assert len(found.fits) == 2


def test_fits_repeat_training_and_seeds_the_draw() -> None:
    found = planned(models=("laef",), fit_seeds=(0, 3), seeds=3)
    assert [f.seed for f in found.fits] == [0, 3]
    assert len(found.cells) == 2 * (3 + 1 + 1)


def test_draws_grow_with_the_family() -> None:
    assert planned().scoring.draws == 1000
    assert planned(scoring=Scoring(draws=3000)).scoring.draws == 3000
    policies = ("paper", "zero", "einthoven", "mean", "copy", "native")
    # paper is native for one and zero for the other: ten rows of a setting, 45 pairs
    assert planned(policies=policies, scoring=Scoring(draws=100)).scoring.draws == 100 * 45


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        ({"models": ("leaf",)}, UnknownName, "did you mean laef?"),
        ({"leads": "13"}, BadSetting, "--leads 13"),
        ({"leads": "I+V7"}, UnknownName, "V7"),
        ({"seeds": 0}, BadSetting, "--seeds 0"),
        ({"limit": 0}, BadSetting, "--limit 0"),
        ({"training": Training(epochs=0)}, BadSetting, "--set training.epochs=0"),
        ({"models": ()}, BadSetting, "--models"),
        ({"weights": "merl=random"}, BadSetting, "laef, stmem"),
    ],
)
def test_what_cannot_be_met_is_said(
    words: dict[str, Any], error: type[EcgbenchError], told: str
) -> None:
    with pytest.raises(error, match=told):
        planned(**words)


def test_weights_by_model_and_a_comma_in_the_name_of_a_file_is_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, told in {
        "random": {"laef": "random", "stmem": "random"},
        "LAEF=random,st-mem=/a/b.pth": {"laef": "random", "stmem": "/a/b.pth"},
        "stmem=random": {"laef": "released", "stmem": "random"},
    }.items():
        assert weights_of(given, ["laef", "stmem"], models.resolve) == told
    monkeypatch.chdir(tmp_path)
    for name in ("a,b=1.pth", "c.pth"):
        (tmp_path / name).touch()
    expected = {"laef": "a,b=1.pth", "stmem": "c.pth"}
    text = "laef=a,b=1.pth,stmem=c.pth"
    assert weights_of(text, ["laef", "stmem"], models.resolve) == expected
    request = Request(models=("laef", "stmem"), tasks=("demo",), leads=(12,), weights=text)
    assert request.weights_of() == expected
    both = dict.fromkeys(expected, "a,b=1.pth")
    assert weights_of("a,b=1.pth", ["laef", "stmem"]) == both
