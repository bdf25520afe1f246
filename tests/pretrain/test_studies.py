"""The studies are those that the paper prints: no cell is missing, and none is invented."""

import pytest

from ecgbench import published
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.pretrain import recipe as recipes
from ecgbench.pretrain.ablate import Budget, training
from ecgbench.pretrain.objective import new_network
from ecgbench.pretrain.recipe import SMALL_RATE
from ecgbench.pretrain.studies import STUDIES, Study, get


def budget(**changes: object) -> Budget:
    usual = {"recipe": recipes.get("small-cpu"), "steps": 4, "rates": (SMALL_RATE,), "seeds": 2}
    return Budget(**{**usual, "records": None, "epochs": 3, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "study", [s for s in STUDIES.values() if s.published], ids=lambda study: study.name
)
def test_cells_are_those_that_the_paper_prints(study: Study) -> None:
    """Of the masking ratio it prints one number and shows the others in a figure."""
    printed = {name for table, name in published.ablations() if table == study.published}
    ours = {cell.name for cell in study.cells}
    assert printed == (ours & printed) | {*study.not_reproduced}
    assert study.name == "masking" or ours <= printed
    assert study.reference in ours
    assert not ours & {*study.not_reproduced}


@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
def test_cells_differ_and_share_what_they_must(study: Study) -> None:
    made = [training(study, budget(), cell, seed=1, rates=(1e-4, 1e-4)) for cell in study.cells]
    pairs = {(one.recipe.digest, cell.probe) for one, cell in zip(made, study.cells)}
    assert len(pairs) == len(study.cells)
    if study.stage == 2:
        assert len({one.first.recipe.digest for one in made}) == 1
    seeds = {(s.seed, s.steps, s.batch) for one in made for s in one.recipe.stages}
    assert seeds == {(2, 4, 64), (3, 4, 64)} if study.stage == 2 else {(2, 4, 64)}


def test_networks_of_the_cells_are_what_their_names_say() -> None:
    study = get("encoders")
    for cell in study.cells:
        encoder, graph = cell.name.split("/")
        recipe = recipes.get("small-cpu").changed(cell.changes)
        net = new_network(recipe.model, recipe.shape)
        topology = {"fully_connected": "full"}.get(graph, graph)
        assert {block.topology for block in net.blocks} == {topology}  # type: ignore[attr-defined, union-attr]
        assert encoder[:3] in recipe.model or encoder in ("snn", "sheaf_attention_v1")
        assert net.width == 512


def test_what_is_no_budget_is_refused() -> None:
    for wrong, said in (
        ({"steps": 0}, "--set steps=0: 1 or more"),
        ({"seeds": 0}, "--seeds 0: 1 or more"),
        ({"records": 0}, "--set records=0: 1 or more"),
    ):
        with pytest.raises(BadSetting, match=said):
            budget(**wrong)
    with pytest.raises(UnknownName, match="did you mean encoders"):
        get("encoder")
    with pytest.raises(UnknownName, match="did you mean mlp/none"):
        get("encoders").cell("mlp/non")
