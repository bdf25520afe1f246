"""Codes for the stages, and both stages one after the other on a few waves."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ecgbench.errors import BadSetting, LeakError
from ecgbench.models import laef
from ecgbench.pretraining.codebook import Codebook, load
from ecgbench.pretraining.corpus import Corpus
from ecgbench.pretraining.descriptors import preset
from ecgbench.pretraining.guard import Guard, Name
from ecgbench.pretraining.labels import Codes, Nodes, codebooks
from ecgbench.pretraining.objective import MaskedNodes
from ecgbench.pretraining.stage import Execution, Stage, run

pytestmark = pytest.mark.usefixtures("one_thread")


def waves(name: Name) -> np.ndarray:
    draw = np.random.default_rng(int(name.record[1:]))
    return np.sin(
        np.linspace(0, draw.uniform(5, 50, (12, 1)), 600, axis=1)[..., 0]
        + draw.uniform(0, 6, (12, 1))
    )


def corpus(records: int = 6) -> Corpus:
    names = [Name("demo", f"r{i}") for i in range(records)]
    return Corpus(
        Guard({"demo": [n.record for n in names]}, {}),
        dict.fromkeys(names, 600),
        waves,
        contract=laef.CARD.contracts[0],
    )


def encoder() -> laef.Laef:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return laef.build().eval()


def test_codes_are_those_of_the_books_on_the_description() -> None:
    describe = preset("mfcc-ecg")
    books = codebooks(corpus(), describe, (4, 7), seed=1)
    again = codebooks(corpus(), describe, (4, 7), seed=1)
    assert [books[c].digest for c in (4, 7)] == [again[c].digest for c in (4, 7)]
    assert codebooks(corpus(), describe, (4,), seed=2)[4].digest != books[4].digest
    labeller = Codes(describe, [books[4], books[7]])
    signal = torch.from_numpy(corpus().cut(np.arange(3), np.zeros(3, int)))
    codes = labeller(signal)
    assert codes.shape == (2, 3, 12, 20)
    assert torch.equal(codes[1, 2, 5, 7], books[7].assign(describe(signal)[2, 5, 7]))
    assert labeller.digest != Codes(describe, [books[4]]).digest
    signal[1, 3, 200] = torch.nan
    with pytest.raises(BadSetting, match="has no code"):
        labeller(signal)


def test_books_of_another_description_are_refused() -> None:
    book = codebooks(corpus(), preset("mfcc-ecg"), (4,), seed=1)[4]
    with pytest.raises(BadSetting, match="fit one on that description"):
        Codes(preset("mfcc-paper"), [book])
    network, other = encoder(), encoder()
    with torch.no_grad():
        other.blocks[0].norm.bias.add_(1)  # type: ignore[union-attr, operator]
    with pytest.raises(BadSetting, match="fit one on that description"):
        Codes(Nodes(other), codebooks(corpus(3), Nodes(network), (4,), seed=1).values())  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match=r"encoder\.eval"):
        Nodes(network.train())


def test_a_codebook_sees_no_record_that_must_not_enter_training() -> None:
    names = [Name("ptbxl", f"{i:05d}") for i in (1, 2)]
    folds = {1: 3, 2: 4}
    lengths, wave = dict.fromkeys(names, 600), waves(Name("demo", "r1"))
    allowed = Guard({"ptbxl": [n.record for n in names]}, folds)
    made = Corpus(allowed, lengths, lambda name: wave, contract=laef.CARD.contracts[0])
    codebooks(made, preset("mfcc-ecg"), (4,), seed=1)
    made._guard = Guard({"ptbxl": [n.record for n in names]}, {1: 3, 2: 10})
    with pytest.raises(LeakError, match="00002"):
        codebooks(made, preset("mfcc-ecg"), (4,), seed=1)


def test_both_stages(tmp_path: Path) -> None:
    """Stage 2 predicts codes of the nodes that stage 1 made, under edge drop, and begins from its
    network.
    """
    data, describe = corpus(), preset("mfcc-ecg")
    book = codebooks(data, describe, (5,), seed=1)[5]
    book.save(tmp_path / "book.npz")
    first = MaskedNodes(encoder(), (5,))
    short = {"steps": 2, "batch": 2, "precision": "float32", "checkpoint_every": 1}
    curve = run(
        Stage(**short, seed=1),
        first,
        data,
        Codes(describe, [load(tmp_path / "book.npz")]),
        Execution(folder=tmp_path / "one"),
    )  # type: ignore[arg-type]
    assert [round(point.loss, 1) > 0 for point in curve] == [True, True]
    frozen = encoder()
    frozen.load_state_dict(first.encoder.state_dict())
    nodes = Nodes(frozen.eval().requires_grad_(False))
    latent: Codebook = codebooks(data, nodes, (9,), seed=2)[9]
    assert latent.dim == 768
    second = MaskedNodes(encoder(), (9,))
    second.encoder.load_state_dict(first.encoder.state_dict())
    before = {k: v.clone() for k, v in second.encoder.state_dict().items()}
    run(
        Stage(**short, seed=2, edge_drop=0.2),
        second,
        data,
        Codes(nodes, [latent]),
        Execution(folder=tmp_path / "two"),
    )  # type: ignore[arg-type]
    assert all(torch.equal(v, nodes.encoder.state_dict()[k]) for k, v in before.items())
    assert not torch.equal(
        second.encoder.state_dict()["blocks.0.norm.bias"], before["blocks.0.norm.bias"]
    )
