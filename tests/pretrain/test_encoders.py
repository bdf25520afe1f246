"""Checkpoints: how they are measured, which one is taken, and that a kept one is the one that was
measured.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ecgbench.data.prepare import prepare
from ecgbench.datasets import get
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate.protocols import linear
from ecgbench.models import laef
from ecgbench.pretrain.encoders import (
    KeptEncoders,
    read_checkpoints,
)
from ecgbench.pretrain.exclusion import HELD_OUT, hold_out
from ecgbench.pretrain.objective import MaskedNodes
from ecgbench.pretrain.probes import LAST, TRAINING, Development, Half, Probed, parts, probed
from ecgbench.pretrain.stage import Stage
from ecgbench.pretrain.stored import chosen, margin
from ecgbench.stats.auroc import macro_auroc
from ecgbench.weights.load import digest

pytestmark = pytest.mark.usefixtures("one_thread")


def half(records: int, seed: int, classes: int = 2) -> Half:
    """Waves whose frequency tells the label; of two recordings each patient."""
    draw = np.random.default_rng(seed)
    target = np.arange(records) % classes
    phase = draw.uniform(0, 6, (records, 12, 1))
    signal = np.sin(np.linspace(0, 1, 500) * (12 + 50 * target[:, None, None]) + phase)
    return Half(
        records=[f"r{seed}-{i}" for i in range(records)],
        patients=[f"p{i // 2}" for i in range(records)],
        signal=signal.astype(np.float32),
        target=np.eye(classes, dtype=np.int8)[target],
    )


def development() -> Development:
    return Development(task="waves", learn=half(20, 1), check=half(8, 2))


def narrow() -> laef.Laef:
    return laef.Laef(laef.LaefConfig(width=64))


def masked() -> MaskedNodes:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MaskedNodes(narrow(), [4]).eval()


def test_as_good_is_within_the_standard_error_that_drawn_patients_give() -> None:
    """The margin beside 2,000 draws of patients, each with all its recordings."""
    draw = np.random.default_rng(5)
    patients = draw.integers(0, 120, 300)
    target = (draw.random((300, 3)) < (0.5, 0.2, 0.1)).astype(np.int8)
    shared = target + draw.normal(0, 1.5, (300, 3))
    better, worse = (
        Probed(score=macro_auroc(target, s), probability=s)
        for s in (shared + draw.normal(0, 0.3, (300, 3)), shared + draw.normal(0, 1, (300, 3)))
    )
    own = Half(
        records=[str(i) for i in range(300)],
        patients=[f"p{p:03d}" for p in patients],
        signal=np.zeros((300, 12, 1), np.float32),
        target=target,
    )
    rows = [np.flatnonzero(patients == p) for p in np.unique(patients)]
    differences = []
    for _ in range(2000):
        taken = np.concatenate([rows[i] for i in draw.integers(0, len(rows), len(rows))])
        each = (macro_auroc(target[taken], one.probability[taken]) for one in (better, worse))
        differences.append(next(each) - next(each))
    near = margin(parts(worse, own), parts(better, own))
    assert near == pytest.approx(np.std(differences), rel=0.1)
    both = parts(worse, own), parts(better, own)
    for share, selected in ((0.99, 0), (1.01, 1)):
        assert chosen((0.70, 0.70 + share * near), both, falling=False) == selected


@pytest.mark.long
def test_the_probe_is_the_linear_protocol_on_pooled_features() -> None:
    """Against the network's own pooling, one window per recording."""
    network, task = masked().encoder, development()

    def split(part: Half) -> linear.Split:
        with torch.no_grad():
            pooled = network(
                torch.from_numpy(part.signal), torch.ones(len(part.records), 12, dtype=torch.bool)
            ).pooled
        record_of = np.arange(len(part.records))
        return linear.Split(
            records=part.records, features=pooled.numpy(), record_of=record_of, target=part.target
        )

    heads = []
    for epochs in range(TRAINING.epochs - LAST + 1, TRAINING.epochs + 1):
        until = replace(TRAINING, epochs=epochs)
        head, *_ = linear.train(until, 0, split(task.learn), split(task.check), last=1)
        heads.append([p.detach().numpy() for p in (head.weight, head.bias)])
    weight, bias = (np.mean(values, axis=0) for values in zip(*heads))
    features = split(task.check).features
    logits = features @ weight.T + bias
    found = probed(network, task)
    np.testing.assert_allclose(found.probability, 1 / (1 + np.exp(-logits)), rtol=1e-5)
    assert found.score == macro_auroc(task.check.target, found.probability)
    assert 0.5 < found.score <= 1


def test_a_validation_split_of_one_class_gives_no_score() -> None:
    alone = half(3, 2, classes=1)
    with pytest.raises(BadSetting, match="no label has both values"):
        probed(
            masked().encoder, Development(task="waves", learn=half(6, 1, classes=1), check=alone)
        )


def test_a_kept_encoder_is_measured_once_and_comes_back_to_the_bit(tmp_path: Path) -> None:
    said: list[str] = []
    kept, model = (
        KeptEncoders(tmp_path, development(), narrow, windows=4, note=said.append),
        masked(),
    )
    kept(5, model)
    kept(5, model)
    assert len(said) == 1
    assert "step 5" in said[0]
    (found,) = read_checkpoints(kept.folder, bool)
    assert (found.step, len(found.layers)) == (5, 3)
    assert found == kept.selected(Stage(steps=5))
    network, mask = kept.load(found)
    assert digest(network) == digest(model.encoder) == found.encoder
    assert torch.equal(mask, model.mask)
    with torch.no_grad():
        model.encoder.blocks[1].norm.bias.add_(0.1)  # type: ignore[union-attr, operator]
    kept(5, model)
    assert len(said) == 2
    assert read_checkpoints(kept.folder, bool)[0].encoder != found.encoder


@pytest.mark.parametrize(
    "fault", ["cut", "other", "mask", "gone", "json", "score", "lost", "folder"]
)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, fault: str) -> None:
    kept, model = KeptEncoders(tmp_path, development(), narrow, windows=4), masked()
    kept(5, model)
    kept(6, model)
    (found, _), path = (
        read_checkpoints(kept.folder, bool),
        tmp_path / "encoders" / "000005.safetensors",
    )
    if fault == "cut":
        path.write_bytes(path.read_bytes()[:-7])
    elif fault == "other":
        with torch.no_grad():
            model.encoder.blocks[1].norm.bias.add_(0.1)  # type: ignore[union-attr, operator]
        kept(6, model)
        path.write_bytes((tmp_path / "encoders" / "000006.safetensors").read_bytes())
    elif fault == "gone":
        path.unlink()
    elif fault == "mask":
        tensors = load_file(path)
        save_file(tensors | {"mask": tensors["mask"] + 1}, path)
    elif fault == "score":
        file = path.with_suffix(".json")
        file.write_text(re.sub(r'("score": )[\d.]+', r"\g<1>0.123", file.read_text()))
    elif fault == "json":
        path.with_suffix(".json").write_text("{}")
    else:
        path.with_suffix(".json").unlink()
        if fault == "folder":
            path.with_suffix(".json").mkdir()
    with pytest.raises(BadWeights, match=r"000005.*choose another folder"):
        _ = read_checkpoints(kept.folder, bool) and kept.load(found)


@pytest.mark.parametrize("check", ["val", pytest.param(HELD_OUT, marks=pytest.mark.long)])
def test_a_development_task_reads_training_recordings_and_those_to_compare_on_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    prepared = hold_out(prepare("demo", None, tmp_path), 4)
    read: set[str] = set()
    original = type(prepared).recording

    def noted(self: Any, record: str) -> Any:
        read.add(record)
        return original(self, record)

    monkeypatch.setattr(type(prepared), "recording", noted)
    (task,) = get("demo").CARD.tasks
    contract = laef.CARD.contracts[0]
    found = Development.of(prepared, task, contract, records=(30, None), seed=3, check=check)
    splits = prepared.index.set_index("record")["split"]
    assert {splits[r] for r in found.learn.records} == {"train"}
    assert len(found.learn.records) == 30
    assert sorted(found.check.records) == sorted(splits.index[splits == check])
    assert read == {*found.learn.records, *found.check.records}
    assert found.learn.signal.shape == (30, 12, 500)
    assert np.abs(found.learn.signal).max() <= 1
    again, other = (
        Development.of(prepared, task, contract, records=(30, None), seed=s) for s in (3, 4)
    )
    assert again.learn.records == found.learn.records != other.learn.records
