"""Loading weights: both layouts of a real card, and files that must be refused without a trace."""

import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from ecgbench.errors import BadSetting, BadWeights, UnknownName
from ecgbench.models import stmem
from ecgbench.weights import load

KEYS = json.loads(
    (Path(__file__).parents[1] / "data" / "parity" / "stmem" / "keys.json").read_text()
)
CARD = stmem.CARD


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """ST-MEM of width 24 with all 166 names of the real one."""
    monkeypatch.setattr(stmem, "WIDTH", 24)
    monkeypatch.setattr(stmem, "HIDDEN", 48)


def state() -> dict[str, torch.Tensor]:
    return dict(stmem.build().state_dict())


def full(encoder: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The layout of the authors' full file: encoder entries with a prefix, aliases, a decoder."""
    aliases = KEYS["aliases_in_full_checkpoint"]
    source = {
        e["key"]: aliases.get(e["key"], e["key"]).removeprefix("encoder.")
        for e in KEYS["full_checkpoint"]
    }
    return {
        key: encoder[name] if name in encoder else torch.randn(3) for key, name in source.items()
    }


def checkpoint(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {
        "model": tensors,
        "epoch": 799,
        "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}},
        "scaler": {},
        "config": {"seed": 0},
    }


@pytest.mark.parametrize(
    "layout", ["plain", "safetensors", "encoder", "full", "full, legacy", "full as safetensors"]
)
def test_every_layout_gives_the_same_network(layout: str, tmp_path: Path) -> None:
    encoder = state()
    path = tmp_path / ("w.safetensors" if "safetensors" in layout else "w.pth")
    match layout:
        case "plain":
            torch.save(encoder, path)
        case "safetensors":
            save_file(encoder, path)
        case "encoder":
            torch.save(checkpoint(encoder), path)
        case "full":
            torch.save(checkpoint(full(encoder)), path)
        case "full, legacy":
            torch.save(checkpoint(full(encoder)), path, _use_new_zipfile_serialization=False)
        case _:
            save_file({k: v.clone() for k, v in full(encoder).items()}, path)
    network = stmem.build(weights=path)
    assert all(torch.equal(t, encoder[name]) for name, t in network.state_dict().items())


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda tensors: tensors.__delitem__(name)


def having(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda tensors: tensors.update({name: value})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without("block11.ff.fn.net.3.bias"), "1 missing: block11.ff.fn.net.3.bias"),
        (without("pos_embedding"), "1 missing: pos_embedding"),
        (having("head.weight", torch.zeros(5, 24)), "1 unexpected: head.weight"),
        (having("encoder.norm.bias", torch.zeros(24)), "1 unexpected: encoder.norm.bias"),
        # the decoder belongs to the full layout only
        (having("decoder_norm.bias", torch.zeros(24)), "1 unexpected: decoder_norm.bias"),
        (having("norm.bias", torch.zeros(23)), "1 of the wrong shape or type: norm.bias"),
        (
            having("norm.bias", torch.zeros(24, dtype=torch.int32)),
            "1 of the wrong shape or type: norm.bias",
        ),
        (having("norm.bias", [0.0] * 24), "1 missing: norm.bias; 1 unexpected: norm.bias"),
        (having("norm.bias", torch.full((24,), torch.nan)), "NaN or infinity in norm.bias"),
    ],
)
def test_one_tensor_astray_is_refused(
    change: Callable[[dict[str, Any]], None], told: str, tmp_path: Path
) -> None:
    tensors: dict[str, Any] = state()
    change(tensors)
    torch.save(checkpoint(tensors), tmp_path / "w.pth")
    refused(tmp_path / "w.pth", told)


def refused(path: Path, told: str) -> None:
    network = stmem.build()
    before = load.digest(network)
    with pytest.raises(BadWeights) as caught:
        load.load(network, path, CARD)
    text = str(caught.value)
    assert told in text
    assert str(path) in text
    assert "\n" not in text
    assert load.digest(network) == before


class Deep(nn.Module):
    """A convolution, a norm and some numbered layers; with a head where it has labels."""

    def __init__(self, layers: int = 2, labels: int = 0) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(layers))
        if labels:
            self.head = nn.Linear(4, labels)


def behind(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


TRAINED = dict(Deep(labels=5).state_dict())
ANOTHER = {name: tensor + 1 for name, tensor in TRAINED.items()}
DECODER = {"decoder.0.weight": torch.zeros(3)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (dict(Deep().state_dict()), ""),
        (TRAINED, "plain state dict; left out: head"),
        (checkpoint(behind("module.", TRAINED)), "'model.module.'; left out: model.module.head"),
        ({"net": behind("encoder.", TRAINED) | DECODER}, "net.encoder.head, net.decoder"),
        ({"state_dict": TRAINED, "ema": dict(TRAINED)}, "left out: state_dict.head, ema"),
    ],
)
def test_a_usual_checkpoint_is_found_in_its_file(
    content: dict[str, Any], said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.save(content, tmp_path / "w.pt")
    network = load.load_checkpoint(Deep(), tmp_path / "w.pt")
    if said:
        assert all(torch.equal(t, TRAINED[name]) for name, t in network.state_dict().items())
    assert said in caplog.text
    assert bool(said) == bool(caplog.text)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({k: v for k, v in TRAINED.items() if k != "conv.bias"}, "1 missing: conv.bias"),
        (dict(Deep(3).state_dict()), "2 unexpected: layers.2.weight, layers.2.bias"),
        (TRAINED | {"conv.scale": torch.ones(1)}, "1 unexpected: conv.scale"),
        (
            TRAINED | {"conv.weight": torch.ones(4, 3, 5)},
            "shape or type: conv.weight (in the file (4, 3, 5), here (4, 3, 3))",
        ),
        (
            {"state_dict": {"conv.weight": torch.ones(2, 3, 3), "conv.bias": torch.ones(2)}},
            "'state_dict.': 9 missing",
        ),
        (TRAINED | {"layers.0.lora.weight": torch.ones(4, 4)}, "1 unexpected: layers.0.lora"),
        (TRAINED | {"norm.bias": torch.full((4,), torch.nan)}, "NaN or infinity in norm.bias"),
        ({"teacher": TRAINED, "student": ANOTHER}, "under 'teacher.' and 'student.'"),
        ({"epoch": 3}, "missing: conv.weight"),
    ],
)
def test_an_incomplete_or_ambiguous_checkpoint_is_refused(
    content: dict[str, Any], why: str, tmp_path: Path
) -> None:
    torch.save(content, tmp_path / "w.pt")
    network = Deep()
    before = load.digest(network)
    with pytest.raises(BadWeights, match=re.escape(why)):
        load.load_checkpoint(network, tmp_path / "w.pt")
    assert load.digest(network) == before


def test_a_prefix_chooses_among_several_networks(tmp_path: Path) -> None:
    torch.save({"teacher": TRAINED, "student": ANOTHER}, tmp_path / "w.pt")
    network = load.load_checkpoint(Deep(), tmp_path / "w.pt", "student.")
    assert all(torch.equal(t, ANOTHER[name]) for name, t in network.state_dict().items())
    with pytest.raises(BadWeights, match=r"under 'pupil\.': 11 missing"):
        load.load_checkpoint(network, tmp_path / "w.pt", "pupil.")


class Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("how", ["torch", "pickle", "inside"])
def test_a_pickle_that_would_run_code_does_not(how: str, tmp_path: Path) -> None:
    path, marker = tmp_path / "w.pth", tmp_path / "ran"
    if how == "pickle":
        path.write_bytes(pickle.dumps(Bomb(marker), protocol=2))
    else:
        torch.save(
            Bomb(marker) if how == "torch" else checkpoint(state()) | {"config": Bomb(marker)}, path
        )
    refused(path, "nothing of it was run")
    assert not marker.exists()


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
@pytest.mark.parametrize("kind", ["empty", "web page", "zeros", "half", "flipped"])
def test_a_damaged_file_is_refused(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    if suffix == ".pth":
        torch.save(state(), path)
    else:
        save_file(state(), path)
    whole = path.read_bytes()
    flipped = bytes(255 - b for b in whole[:4000]) + whole[4000:]
    page = b"\n<!DOCTYPE html><html><title>Google Drive - Virus scan warning</title></html>"
    path.write_bytes(
        {
            "empty": b"",
            "web page": page,
            "zeros": bytes(9999),
            "half": whole[: len(whole) // 2],
            "flipped": flipped,
        }[kind]
    )
    refused(path, "is a web page" if kind == "web page" else "")


def test_the_file_of_another_model_is_refused(tmp_path: Path) -> None:
    torch.save(nn.Linear(3, 3).state_dict(), tmp_path / "w.pt")
    refused(tmp_path / "w.pt", "166 missing: pos_embedding")
    torch.save([torch.zeros(3)], tmp_path / "w.ckpt")
    refused(tmp_path / "w.ckpt", "holds one list")


def test_a_name_is_not_a_path() -> None:
    network = stmem.build()
    told = (
        r"run: ecgbench models fetch stmem\. It gets st_mem_vit_base_full\.pth from "
        r"https://drive\.google.*--weights stmem=PATH, or"
    )
    with pytest.raises(BadSetting, match=told):
        load.load(network, "released", CARD)
    with pytest.raises(
        BadSetting, match="run: ecgbench models fetch stmem --weights released-encoder"
    ):
        load.load(network, "released-encoder", CARD)
    with pytest.raises(UnknownName, match="did you mean released"):
        load.load(network, "relesed", CARD)
    with pytest.raises(BadSetting, match=r"no file elsewhere/w\.pth"):
        load.load(network, "elsewhere/w.pth", CARD)
    before = load.digest(network)
    load.load(network, "random", CARD)
    assert load.digest(network) == before


def test_a_card_without_weights_says_so() -> None:
    card = type(CARD)(**{**vars(CARD), "weights": ()})
    with pytest.raises(BadSetting, match="no weights of ST-MEM are released"):
        load.load(stmem.build(), "released", card)


def test_the_digest_sees_every_bit_buffers_and_names() -> None:
    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.BatchNorm1d(2)})

    same, bit, buffer = make(), make(), make()
    bit.get_parameter("a.bias").data[1] += 1e-6
    buffer.get_buffer("b.num_batches_tracked").add_(1)
    renamed = nn.ModuleDict({"a": same.get_submodule("a"), "c": same.get_submodule("b")})
    reordered = nn.ModuleDict({"b": same.get_submodule("b"), "a": same.get_submodule("a")})
    assert load.digest(make()) == load.digest(same) == load.digest(reordered)
    assert len({load.digest(n) for n in (same, bit, buffer, renamed, make().half())}) == 5
