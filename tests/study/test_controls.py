"""Which cells a control has, and that a study itself knows nothing of controls."""

import json

import pytest

from ecgbench.core.cells import Cell, Fit, Plan, Training
from ecgbench.ecg.draw import Count, Fixed
from ecgbench.ecg.leads import LeadSubset
from ecgbench.errors import UnknownName
from ecgbench.study import controls


def plan(protocol: str = "probe") -> Plan:
    fits = [
        Fit(task="t", model=m, contract="paper", weights="random", seed=s)
        for m in ("a", "b")
        for s in (0, 1)
    ]
    settings = [Count(1, 0), Count(1, 1), Fixed(LeadSubset.of("I"))]
    cells = tuple(
        Cell(fit=fit, task="t", setting=s, policy="zero") for fit in fits for s in settings
    )
    return Plan(name="x", cells=cells, training=Training(protocol=protocol))  # type: ignore[arg-type]


def test_a_study_is_written_as_before_and_a_control_is_read_back() -> None:
    assert "control" not in json.dumps(plan().to_json())
    one = controls.derived(plan(), "labels@3")
    assert Plan.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_a_control_takes_the_first_draw_and_the_first_fit() -> None:
    cells = controls.derived(plan(), "phases").cells
    assert {(c.fit.model, c.fit.seed, str(c.setting)) for c in cells} == {
        (m, 0, s) for m in ("a", "b") for s in ("1@seed0", "I")
    }


def test_a_shortcut_stands_in_place_of_all_models_and_is_a_probe() -> None:
    one = controls.derived(plan("finetune"), "age_sex")
    assert [(c.fit.model, str(c.setting)) for c in one.cells] == [
        ("age_sex", "1@seed0"),
        ("age_sex", "I"),
    ]
    assert one.training == Training()


def test_names() -> None:
    assert controls.resolve(["phases", "labels"]) == ("labels", "phases")
    assert controls.resolve(["all"]) == tuple(controls.CONTROLS)
    assert len(controls.names("labels", Training())) == controls.REPEATS
    assert controls.names("labels", Training(protocol="finetune")) == ["labels@0"]
    with pytest.raises(UnknownName, match="did you mean labels"):
        controls.resolve(["label"])
