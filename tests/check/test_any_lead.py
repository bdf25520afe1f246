"""The audit of missing leads tells what invented networks do, one fault each."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from ecgbench import models
from ecgbench.check.any_lead import Row, audit, examined
from ecgbench.core.seeds import rng
from ecgbench.datasets import demo
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.preprocess import view
from ecgbench.evaluate.network import Network
from ecgbench.layers.features import Features

FED = replace(models.get("laef").CARD.contracts[0], filter=None, normalisation="none")


class Invented(nn.Module):
    """Of each measured lead the spread and the largest voltage; their mean over the leads, unless
    `how` says otherwise.
    """

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.how = how

    def forward(self, signal: torch.Tensor, measured: torch.Tensor) -> Features:
        there = measured[..., None] & torch.ones(signal.shape, dtype=torch.bool)
        x = signal if self.how == "reads hidden rows" else torch.where(there, signal, 0.0)
        if self.how == "scales":
            x = x / x.abs().amax((1, 2), keepdim=True)
        each = torch.stack([x.std(2), x.amax(2), x.abs().mean(2)], 2)
        if self.how == "ignores V6":
            each = each[:, : LEADS.index("V6")]
        if self.how == "knows places":
            return Features(pooled=(each * torch.arange(1, each.shape[1] + 1)[:, None]).mean(1))
        if self.how == "wants all" and signal.shape[1] < len(LEADS):
            raise ValueError("twelve rows")
        if self.how == "says nothing":
            each = torch.ones_like(each)
        return Features(pooled=each.sum(1) / measured.sum(1, keepdim=True))


def found(how: str) -> dict[str, Row]:
    """The rows by policy."""
    card = replace(models.get("laef").CARD, parameters=0, dim=3, contracts=(FED,))
    rows = examined(Network("invented", card, Invented(how).eval(), "random", "0" * 64))
    return {row.policy: row for row in rows}


def test_a_network_without_a_fault():
    row = found("")["native"]
    assert (row.ignored, row.hidden, row.fewer) == ("none", "ignored", "works")
    assert row.ordered < 1e-6
    assert row.scaled > 1
    assert 0 < row.zeroed < 1


@pytest.mark.parametrize(
    ("how", "field", "told"),
    [
        ("ignores V6", "ignored", "V6"),
        ("reads hidden rows", "hidden", "read"),
        ("wants all", "fewer", "refused"),
    ],
)
def test_what_it_does_has_a_word(how, field, told):
    assert {getattr(row, field) for row in found(how).values()} == {told}


def test_order_and_scale_are_told_from_their_absence():
    assert found("knows places")["native"].ordered > 0.01
    assert found("scales")["native"].scaled < 1e-6


def test_a_hidden_lead_that_is_read_has_no_numbers():
    rows = found("reads hidden rows")
    assert rows["native"].verdict == "a hidden lead is read"
    assert rows["native"].plain["p"] is None
    assert rows["zero"].verdict != rows["native"].verdict


def test_the_numbers_are_those_of_forty_patients_by_hand():
    table = demo.index(None).drop_duplicates("patient").head(40)
    network, features = Invented(), {2: [], 6: [], 12: []}
    for line in table.to_dict("records"):
        recording = demo.read(None, line)
        signal = view(recording.rows, recording.fs, FED.preparation)[:, : FED.samples]
        for leads, values in features.items():
            measured = torch.arange(12)[None] < leads
            values.append(network(torch.from_numpy(signal[None]), measured).pooled[0].numpy())
    weights = rng("audit", "head", 3).standard_normal(3)
    two, six, whole = (np.array(v, np.float64) @ weights for v in features.values())
    two, six = (1 / (1 + np.exp(-(x - whole.mean()) / whole.std())) for x in (two, six))
    row = found("")["native"]
    assert row.recordings == 40
    # the audit cuts a recording before it resamples it, which gives it other ends
    assert row.median == pytest.approx(np.median(np.abs(two - six)), abs=1e-3)
    assert row.largest == pytest.approx(np.abs(two - six).max(), abs=1e-3)
    assert row.mean == pytest.approx(np.mean(two - six), abs=1e-3)


STORED = Path(__file__).parents[2] / "docs" / "reference" / "any_lead_audit.csv"


def test_the_page_holds_every_model():
    """`python tools/any_lead.py NAME` measures one that is missing."""
    own = {name for name in models.names() if models.ROOM.built_in(name)}
    published = {name for name in models.ROOM.variants() if models.ROOM.card(name).weights}
    assert own | published == {*pd.read_csv(STORED)["model"]}


def test_the_page_is_what_is_measured_today():
    stored = pd.read_csv(STORED, keep_default_na=False).query("model == 'simple_features'")
    today = pd.DataFrame([vars(row) for row in audit("simple_features")])
    pd.testing.assert_frame_equal(
        stored[today.columns].reset_index(drop=True), today, rtol=1e-3, atol=1e-4
    )
