"""What models have met: each collection on a card is known, no task is missed by a spelling."""

import pytest

from ecgbench import datasets, models
from ecgbench.data import contamination as corpora


@pytest.mark.parametrize("name", [n for n in models.names() if models.ROOM.built_in(n)])
def test_every_collection_of_a_card_is_known(name: str) -> None:
    for title in models.get(name).CARD.corpora:
        assert title.partition(" (")[0] in corpora.NAMES


def test_every_dataset_has_an_identity_by_its_title() -> None:
    for name in datasets.names():
        card = datasets.get(name).CARD
        if datasets.ROOM.built_in(name) and not card.synthetic:
            assert corpora.NAMES[card.title] == name


def test_both_sides_of_a_relation_exist() -> None:
    for pair in corpora.RELATIONS:
        assert set(pair) <= set(corpora.NAMES.values())


@pytest.mark.parametrize(
    ("model", "dataset", "how"),
    [
        ("stmem", "chapman", "equal"),
        ("stmem", "code15", "equal"),
        ("stmem", "ptbxl", "none"),
        ("hubertecg", "ptbxl", "equal"),
        ("hubertecg", "echonext", "none"),
        ("hubertecg", "zzu", "none"),
        ("laef", "ptbxl", "part"),
        ("laef", "georgia", "none"),
        ("ecgfounder", "ningbo", "none"),
    ],
)
def test_what_models_have_met(model: str, dataset: str, how: str) -> None:
    assert corpora.met(models.get(model).CARD.corpora, dataset)[0] == how


def test_the_gravest_counts_and_what_is_not_stated_is_not_none() -> None:
    assert corpora.met(["HEEDB", "CODE", "CODE-15"], "code15") == ("equal", ["CODE-15"])
    assert corpora.met(["Chapman", "HEEDB"], "ningbo") == ("overlaps", ["Chapman"])
    assert corpora.met([corpora.NOT_STATED, "HEEDB"], "ptb") == ("unknown", [corpora.NOT_STATED])
    assert corpora.met([], "ptb") == ("unknown", [])
    assert corpora.relation("Challenge 2021 (without PTB-XL)", "ptbxl") == "overlaps"
    assert corpora.relation("My archive", "mine", "My archive") == "equal"


def test_a_dataset_of_ones_own_is_known_by_its_title() -> None:
    own = "mine", "Challenge 2021 (without INCART)"
    assert corpora.told_by(own, ("ptbxl", "PTB-XL")) == "signal"
    assert corpora.told_by(("sph", "SPH"), own) == ""
    assert corpora.told_by(("theirs", "PTB"), own) == "signal"
    assert corpora.told_by(("sph", "SPH"), ("mine", "An archive")) == "?"
