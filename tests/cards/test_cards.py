"""Cards: no physical quantity by default, nothing out of order, and plain facts for keys. All
plug-ins' cards are read.
"""

import json
import re
from dataclasses import asdict, replace
from typing import Any, get_args

import numpy as np
import pytest

from ecgbench import datasets, models, policies
from ecgbench.cards.checked import facts
from ecgbench.cards.dataset import DatasetCard
from ecgbench.cards.model import InputContract, ModelCard, Normalisation
from ecgbench.core.registry import plain
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting

CONTRACT: dict[str, Any] = {"name": "paper", "fs": 250, "seconds": 2.4, "leads": LEADS}
CONTRACT |= {"unit": "mV", "filter": None, "normalisation": "none", "fill": "before"}
CONTRACT |= {"policy": "zero", "absent": "0 mV"}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"fs": "100"}, "fs is '100'"),
        ({"fs": True}, "fs is True"),
        ({"leads": (2, 3)}, "leads is (2, 3)"),
        ({"fill": "later"}, "fill is 'later'"),
        ({"filter": "none"}, "filter is 'none'"),
    ],
)
def test_a_fact_of_another_type_is_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(f"InputContract: {told}")):
        InputContract(**{**CONTRACT, **wrong})  # type: ignore[arg-type]
    InputContract(**{**CONTRACT, "fs": np.float32(100), "leads": [*LEADS]})  # type: ignore[arg-type]


@pytest.mark.parametrize("leads", [(), ("I", "I"), ("I", "V7"), ("avr",)])
def test_a_contract_reads_known_leads_once(leads: tuple[str, ...]) -> None:
    with pytest.raises(BadSetting, match="each once"):
        InputContract(**{**CONTRACT, "leads": leads})


@pytest.mark.parametrize("name", models.names())
def test_cards_of_models(name: str) -> None:
    card = models.get(name).CARD
    assert isinstance(card, ModelCard)
    assert models.get(name).__doc__
    assert json.loads(json.dumps(facts(card), allow_nan=False)) == facts(card)
    assert "paper" in [c.name for c in card.contracts]
    assert len({c.name for c in card.contracts}) == len(card.contracts)
    with pytest.raises(BadSetting, match=f"{card.title} has no contract 'mine'; it has paper"):
        card.contract("mine")
    assert set(card.groups) == ({"early", "late"} if card.parameters else set())
    assert all(
        value
        for key, value in asdict(card).items()
        if key not in ("weights", "choices", "native", "contracts", "fixed", "corpora")
        if card.parameters or key not in ("parameters", "groups")
    )
    assert len({w.name for w in card.weights}) == len(card.weights)
    for c in card.contracts:
        assert c.samples == pytest.approx(c.fs * c.seconds)
        assert c.policy in [*policies.names(), *(["native"] if card.native else [])]
        assert c.normalisation in get_args(Normalisation)
        assert c.samples % c.decimate == 0
        assert c.fill in ("before", "after")
        assert c.filter is None or 0 <= c.filter.low < c.filter.high


@pytest.mark.parametrize("name", datasets.names())
def test_cards_of_datasets(name: str) -> None:
    card = datasets.get(name).CARD
    assert isinstance(card, DatasetCard)
    assert datasets.get(name).__doc__
    assert json.loads(json.dumps(facts(card), allow_nan=False)) == facts(card)
    assert set(card.leads) <= set(LEADS)
    assert card.leads or not card.tasks  # a collection of noise has neither
    assert card.synthetic or card.folder
    names = [t.name for t in card.tasks]
    assert len(names) == len(set(names))
    for task in card.tasks:
        assert card.task(task.name) is task
        assert len(set(task.labels)) == len(task.labels) >= 1
        if task.parent is not None:
            parent = card.task(task.parent)
            assert parent.parent is None
            assert set(task.labels) <= set(parent.labels)


def test_tasks_of_all_datasets_have_names_of_their_own() -> None:
    names = [plain(t.name) for d in datasets.names() for t in datasets.get(d).CARD.tasks]
    assert len(names) == len(set(names))


def test_labels_of_a_masked_task_are_masked_in_its_parts() -> None:
    card = datasets.get("demo").CARD
    whole = replace(card.tasks[0], masked=True)
    part = replace(whole, name="part", parent="demo", labels=("AFIB",))
    replace(card, tasks=(whole, part))
    with pytest.raises(BadSetting, match="'part' reads labels of 'demo', which may be unknown"):
        replace(card, tasks=(whole, replace(part, masked=False)))
