"""Protocol `finetune-modern`: timm's recipe against the formulas of its parts, a stop, refusals."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ecgbench.cards.cell import Training
from ecgbench.cards.model import ModelCard
from ecgbench.core.seeds import rng
from ecgbench.evaluate import gates, loop, tuning
from ecgbench.evaluate.protocols import Trained
from ecgbench.evaluate.tuning_modern import Modern
from tests.evaluate.test_finetune import (
    CARD,
    SAMPLES,
    Half,
    Of,
    Small,
    Stop,
    fit_of,
    nowhere,
    split,
    stopping,
)

LAYERS = {"stem": r"^first|^spare", "blocks": r"^second|^norm"}


class Layered(Small):
    """With a group_matcher, and a copy of its own."""

    matcher: Any = LAYERS

    def __deepcopy__(self, memo: Any) -> "Layered":
        with torch.random.fork_rng():
            other = type(self)(self.dropout, not isinstance(self.norm, nn.Identity))
        other.load_state_dict(self.state_dict())
        for mine, its in zip(self.parameters(), other.parameters()):
            its.requires_grad_(mine.requires_grad)
        return other

    def group_matcher(self, coarse: bool = False) -> Any:
        return self.matcher


class Whole(Layered):
    matcher = {"stem": "."}  # noqa: RUF012


class OfCard(Layered):
    group_matcher = None  # type: ignore[assignment]


def network(kind: type[Layered] = Layered, **options: Any) -> Layered:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return kind(**options)


def short(**settings: Any) -> Training:
    usual = {"protocol": "finetune_modern", "epochs": 3, "batch": 8, "lr": 0.02}
    return Training(**{**usual, "layer_decay": 0.5, "warmup": 0.3, "ema": 0.6, **settings})


def tune(
    folder: Path,
    training: Training,
    start: nn.Module,
    data: tuple[Half, Half],
    advance: Any = lambda n: None,
    card: ModelCard = CARD,
) -> Trained:
    of = Of(start, training, data, card=card)
    return tuning.tune(of, fit_of(5), folder / "checkpoint.pt", advance, Modern)


def same(a: Trained, b: Trained) -> bool:
    assert a.encoder
    assert b.encoder
    alike = all(torch.equal(a.encoder[k], b.encoder[k]) for k in a.encoder)
    return alike and a.files == b.files and np.array_equal(a.head[0], b.head[0])


@pytest.mark.parametrize("kind", [Layered, OfCard])
def test_equals_the_formulas(kind: type[Layered], tmp_path: Path) -> None:
    """Two steps in each of three epochs; of 21 records 5 are dropped."""
    data, steps, warm = split(21, 1), 6, round(0.3 * 6)
    tuned = tune(tmp_path, short(weight_decay=0.1), network(kind), (data, nowhere(4, 2)))
    module, head = network(), loop.head(8, 2, 5)
    scale = {module.first: 0.25, module.second: 0.5, head: 1.0}
    optimiser = torch.optim.AdamW(
        [
            {"params": [p], "of": s, "weight_decay": 0.1 if p.ndim > 1 else 0.0}
            for part, s in scale.items()
            for p in part.parameters()
        ]
    )
    everything = nn.ModuleDict({"encoder": module, "head": head})
    mean = {k: v.clone() for k, v in everything.state_dict().items()}
    step = 0
    for epoch in range(3):
        order = rng("order", 5, epoch).permutation(21)
        for rows in (order[:8], order[8:16]):
            cut = []
            for record in (data.records[i].name for i in rows):
                view = data.views[record]
                start = rng("crop", 5, epoch, record).integers(view.shape[1] - SAMPLES + 1)
                cut.append(torch.from_numpy(view[:, start : start + SAMPLES]))
            logits = head(module(torch.stack(cut), torch.ones(8, 12, dtype=torch.bool)).pooled)
            target = torch.from_numpy(data.target[rows]).float()
            optimiser.zero_grad()
            F.binary_cross_entropy_with_logits(logits, target).backward()
            step += 1
            cosine = (1 + math.cos(math.pi * step / (steps + 1))) / 2
            for group in optimiser.param_groups:
                group["lr"] = 0.02 * group["of"] * (step / warm if step < warm else cosine)
            optimiser.step()
            old = 0 if step == 1 else min(0.6, 1 - step ** (-2 / 3))
            mean = {k: old * mean[k] + (1 - old) * v for k, v in everything.state_dict().items()}
    assert tuned.encoder
    found = {f"encoder.{k}": v for k, v in tuned.encoder.items()}
    found |= {f"head.{k}": torch.from_numpy(v) for k, v in zip(("weight", "bias"), tuned.head)}
    for name, value in mean.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-6, msg=name)
    rates = {g: v["lr"] for g, v in tuned.note["groups"].items()}
    assert rates == pytest.approx({"layer 0": 0.005, "layer 1": 0.01, "head": 0.02})


def test_a_stopped_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Dropout and batch normalisation; stopped in the second epoch, and in its validation."""
    data = split(20, 1), split(5, 2)
    whole = tune(tmp_path / "whole", short(), network(dropout=0.3, norm=True), data)
    for at in (4, 5, 7):
        start = network(dropout=0.3, norm=True)
        with pytest.raises(Stop):
            tune(tmp_path / str(at), short(), start, data, stopping(at))
        again = tune(tmp_path / str(at), short(), network(dropout=0.3, norm=True), data)
        assert same(again, whole)
        assert again.note["groups"] == whole.note["groups"]


@pytest.mark.parametrize(
    ("kind", "settings", "groups", "told"),
    [
        (Whole, {}, CARD.groups, "are one layer"),
        (OfCard, {}, {}, "not in exactly one optimiser group"),
        (Layered, {"layer_decay": 0.0}, CARD.groups, "left group 'layer 0' as it was"),
    ],
)
def test_what_no_layer_decay_could_be_is_refused(
    kind: type[Layered], settings: Any, groups: Any, told: str, tmp_path: Path
) -> None:
    card, data = replace(CARD, groups=groups), (split(20, 1), split(5, 2))
    with pytest.raises(gates.FitError, match=told):
        tune(tmp_path, short(**settings), network(kind), data, card=card)
