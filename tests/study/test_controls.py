"""Which cells a control has."""

from ecgbench.cards.cell import Training
from ecgbench.cards.plan import Request, plan_of
from ecgbench.ecg.leads import LeadSubset
from ecgbench.study import controls


def request(protocol: str = "probe") -> Request:
    return Request(
        models=("a", "b"),
        tasks=("t",),
        leads=(1, LeadSubset.of("I")),
        seeds=2,
        fit_seeds=(0, 1),
        policies=("zero",),
        training=Training(protocol=protocol),
    )


def test_a_control_takes_the_first_draw_and_the_first_fit() -> None:
    cells = plan_of(controls.derived(request(), "phases")).cells
    assert {(c.fit.model, c.fit.seed, str(c.setting)) for c in cells} == {
        (m, 0, s) for m in ("a", "b") for s in ("1@seed0", "I")
    }


def test_a_shortcut_stands_in_place_of_all_models_and_is_a_probe() -> None:
    one = plan_of(controls.derived(request("finetune"), "age_sex"))
    assert [(c.fit.model, str(c.setting)) for c in one.cells] == [
        ("age_sex", "1@seed0"),
        ("age_sex", "I"),
    ]
    assert one.training == Training()
    assert one.control == "age_sex"
