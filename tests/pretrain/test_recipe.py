"""Recipes as the paper and the command line have them."""

import json
from pathlib import Path

import pytest

from ecgbench.errors import BadSetting, UnknownName
from ecgbench.pretrain.recipe import get

ROOT = Path(__file__).parents[2]


def test_the_papers_recipe_is_the_papers() -> None:
    paper = get("paper")
    first, second = paper.stages
    assert (len(paper.datasets), paper.codes, paper.refined, paper.block, paper.init) == (
        11,
        (50,),
        (500,),
        1,
        "previous",
    )
    assert (first.steps, second.steps, first.batch, first.lr, first.weight_decay, first.adamw) == (
        80_000,
        75_000,
        448,
        1e-3,
        1e-3,
        False,
    )
    assert (first.ratio, first.edge_drop, second.edge_drop) == (0.4, 0.0, 0.2)


def test_choices_change_the_digest_and_names_do_not() -> None:
    recipe = get("small-cpu")
    assert (
        recipe.changed({}).digest
        == recipe.digest
        == recipe.changed({"name": "mine", "checkpoint_every": 7}).digest
    )
    choices = {
        "steps": (5, 6),
        "batch": 3,
        "micro": 2,
        "ratio": 0.3,
        "edge_drop": 0.1,
        "lr": 0.1,
        "weight_decay": 0.0,
        "adamw": True,
        "precision": "float32",
        "seed": 3,
        "descriptor": "mixed",
        "codes": (5, 7),
        "refined": (9,),
        "init": "scratch",
        "probe_every": 3,
    }
    made = {k: recipe.changed({k: v}) for k, v in choices.items()}
    assert len({recipe.digest, *(r.digest for r in made.values())}) == len(choices) + 1
    assert [s.steps for s in made["steps"].stages] == [5, 6]
    assert [s.edge_drop for s in made["edge_drop"].stages] == [0.0, 0.1]
    assert [s.ratio for s in made["ratio"].stages] == [0.3, 0.3]
    seeds = {s.seed for r in (recipe, made["seed"]) for s in r.stages}
    assert len(seeds) == 4, "equal seeds would hide the same nodes"


def test_impossible_choices_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean small"):
        get("smal")
    for words, said in (
        ({"init": "middle"}, "previous"),
        ({"codes": (1,)}, "at least 2"),
        ({"descriptor": "mfc"}, "mfcc"),
        ({"ratio": 1.5}, "1.5"),
        ({"steps": (0, 4)}, "steps=0"),
    ):
        with pytest.raises((BadSetting, UnknownName), match=said):
            get("smoke").changed(words)


@pytest.mark.parametrize(
    ("recipe", "apart", "digest"),
    [
        ("shipped", 8, None),
        ("small-cpu", None, "29aad2dd98e22937508f22da08f5ee9357bb4814510a8195cae7c7d47b576a76"),
    ],
)
def test_recipes_of_shipped_weights_keep_their_hash_and_another_model_changes_it(
    recipe: str, apart: int | None, digest: str | None
) -> None:
    """The hash stands in the weights; naming LAEF, which recipes did not do when the first were
    made (`small-cpu`, in commit 3ab0a5f), leaves it as it was. Encoders of the first were compared
    on the validation split.
    """
    told = json.loads((ROOT / "models" / "laef" / "pretraining.json").read_text())["recipe"]
    made = get(recipe).changed({"apart": apart})
    wanted = digest or told["digest"]
    assert made.digest == made.changed({"model": "laef"}).digest == wanted
    assert made.changed({"model": "stmem"}).digest != made.digest
    assert made.changed({"apart": 9}).digest != made.digest
