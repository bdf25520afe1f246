"""Loading weights: both layouts of a real card, and files that must be refused without a trace."""

import json
import os
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save, save_file
from torch import nn

from ecgbench.errors import BadSetting, BadWeights, UnknownName
from ecgbench.models import stmem
from ecgbench.weights import load
from ecgbench.weights.state import fill

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


class Tied(nn.Module):
    """Two names of one matrix, a mask with infinity, and what is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.ones(4))
        self.second.register_buffer("shift", self.shift)
        self.register_buffer("mask", torch.full((2, 2), -torch.inf).triu(1))
        self.register_buffer("turns", torch.ones(2, dtype=torch.complex64))
        self.seen = 0

    def get_extra_state(self) -> Any:
        return {"seen": self.seen}

    def set_extra_state(self, state: Any) -> None:
        self.seen = state["seen"]


def behind(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


TRAINED = dict(Deep(labels=5).state_dict())
ANOTHER = {name: tensor + 1 for name, tensor in TRAINED.items()}
TIED = dict(Tied().state_dict())
DECODER = {"decoder.0.weight": torch.zeros(3)}
SCALE = {"conv.scale": torch.ones(1)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (dict(Deep().state_dict()), ""),
        (TRAINED, "plain state dict; left out: head"),
        (checkpoint(behind("module.", TRAINED)), "'model.module.'; left out: model.module.head"),
        ({"net": behind("encoder.", TRAINED) | DECODER}, "net.decoder (1 tensor)"),
        (
            {"state_dict": TRAINED, "ema": dict(TRAINED)},
            "state_dict.head (2 tensors), ema (",
        ),
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
            "'state_dict.': 8 missing",
        ),
        (TRAINED | {"layers.0.lora.weight": torch.ones(4, 4)}, "1 unexpected: layers.0.lora"),
        (TRAINED | {"norm.bias": torch.full((4,), torch.nan)}, "NaN or infinity in norm.bias"),
        ({"teacher": TRAINED, "student": ANOTHER}, "under 'teacher.' and 'student.'"),
        ({"epoch": 3}, "missing: conv.weight"),
        ({"m_q": TRAINED, "m_k": ANOTHER}, "under 'm_q.' and 'm_k.'"),
        (behind("m.", TRAINED) | {"m": ANOTHER}, "two tensors for 'm.conv.weight'"),
        (TRAINED | {"conv.weight": TRAINED["conv.weight"].to_sparse()}, "type: conv.weight"),
        (TRAINED | {"conv.weight": TRAINED["conv.weight"].to("meta")}, "type: conv.weight"),
        ({n: t.to(torch.float8_e4m3fn) for n, t in TRAINED.items()} | SCALE, "unexpected: conv.s"),
        ({n: t for n, t in TIED.items() if "extra" not in n}, "1 missing: _extra_state"),
        (TIED | {"second.weight": torch.zeros(4, 4)}, "in the file: second.weight"),
        (TIED | {"second.shift": torch.zeros(4)}, "in the file: second.shift"),
        (TIED | {"turns": torch.ones(2, dtype=torch.int64)}, "wrong shape or type: turns"),
        (TIED | {"turns": torch.full((2,), complex("nan"))}, "infinity in turns"),
        (TIED | {"mask": torch.full((2, 2), -torch.inf)}, "infinity in mask"),
        (TIED | {"first.bias": torch.full((4,), -torch.inf)}, "infinity in first.bias"),
    ],
)
def test_what_is_incomplete_ambiguous_or_cannot_be_meant_is_refused(
    content: dict[str, Any], why: str, tmp_path: Path
) -> None:
    torch.save(content, tmp_path / "w.pt")
    network = Tied() if "mask" in content else Deep()
    before = load.digest(network)
    with pytest.raises(BadWeights, match=re.escape(why)):
        load.load_checkpoint(network, tmp_path / "w.pt", "m_" if "m_q" in content else "")
    assert load.digest(network) == before


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize(
    ("parts", "more"),
    [
        ("conv bn layer1", {"layer1.gate.weight": torch.ones(4, 4)}),
        ("conv bn layer1", {"layer1.lora_A.weight": torch.ones(1, 4)}),
        ("conv layer1", {"norm.weight": torch.ones(4), "norm.bias": torch.ones(4)}),
        ("conv layer1 bn", {"norm.weight": torch.ones(4), "norm.bias": torch.ones(4)}),
        ("fc fc1 bn", {"fc2.weight": torch.ones(5, 5), "fc2.bias": torch.ones(5)}),
    ],
)
def test_a_part_of_a_layer_a_norm_and_a_further_number_are_no_head(
    parts: str, more: dict[str, torch.Tensor], suffix: str, tmp_path: Path
) -> None:
    """Wherever they stand; of a file with an order the last matrix may be one."""
    network, path = Ported(*parts.split()), tmp_path / f"w{suffix}"
    tensors = dict(network.state_dict()) | more
    save_file(tensors, path) if suffix != ".pt" else torch.save(tensors, path)
    if "fc" in parts and suffix == ".pt":
        load.load_checkpoint(network, path)
        return
    with pytest.raises(BadWeights, match="unexpected") as caught:
        load.load_checkpoint(network, path)
    without = re.findall(r"'([^']*)'", str(caught.value).rpartition("without=")[2])
    load.load_checkpoint(network, path, without=without)


def test_wrappers_inside_a_network_and_around_it_have_no_names(tmp_path: Path) -> None:
    names = {"conv.": "conv._orig_mod.", "layers.1.": "layers._fsdp_wrapped_module.1.module."}
    torch.save({"net": renamed(TRAINED, names)}, tmp_path / "w.pt")
    network = load.load_checkpoint(nn.Sequential(Deep(labels=5)), tmp_path / "w.pt")
    assert all(torch.equal(t, TRAINED[n]) for n, t in network[0].state_dict().items())


def renamed(tensors: dict[str, torch.Tensor], names: dict[str, str]) -> dict[str, torch.Tensor]:
    found = {}
    for name, tensor in tensors.items():
        known = next((old for old in names if name.startswith(old)), "")
        found[names.get(known, "") + name.removeprefix(known)] = tensor
    return found


class Turned(nn.Module):
    """Before its version 2 it kept its matrix the other way round."""

    _version = 2

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(9.0).view(3, 3))

    def _load_from_state_dict(self, state: Any, prefix: str, about: Any, *others: Any) -> None:
        if about.get("version", 0) < 2:
            state[f"{prefix}weight"] = state[f"{prefix}weight"].T
        super()._load_from_state_dict(state, prefix, about, *others)


@pytest.mark.parametrize("version", [1, 2, None])
def test_an_older_file_is_turned_as_its_version_says(version: int | None, tmp_path: Path) -> None:
    """One that states none is of today."""
    network, path = nn.Sequential(Turned()), tmp_path / ("w.pt" if version else "w.safetensors")
    state = network.state_dict()
    state._metadata["0"]["version"] = version
    torch.save({"net": state}, path) if version else save_file(state, path)
    given = load.load_checkpoint(nn.Sequential(Turned()), path)[0].weight
    assert torch.equal(given, state["0.weight"].T if version == 1 else state["0.weight"])


def test_a_copy_of_a_network_is_put_back_as_it_is() -> None:
    """As fine-tuning does with its best epoch, and with what it has stored."""
    network = nn.Sequential(Turned(), Tied())
    kept = load.state_of(network)
    fill(network, kept)
    load.assign(network, save(kept), "a fit")
    assert torch.equal(network[0].weight, Turned().weight)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_list_is_in_the_order_of_its_numbers(suffix: str, tmp_path: Path) -> None:
    network = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(12)))
    own = {str(n): p.detach().clone() for n, p in enumerate(network.parameters())}
    listed = {n: own[n] for n in sorted(own)}
    path = tmp_path / f"w{suffix}"
    torch.save(listed, path) if suffix == ".pt" else save_file(listed, path)
    blank = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(12)))
    load.load_checkpoint(blank, path)
    assert load.digest(blank) == load.digest(network)


def test_a_network_beside_its_average_is_chosen_without_the_other(tmp_path: Path) -> None:
    torch.save(TRAINED | behind("ema.", ANOTHER), tmp_path / "w.pt")
    network = load.load_checkpoint(Deep(), tmp_path / "w.pt", without=["ema"])
    assert all(torch.equal(t, TRAINED[name]) for name, t in network.state_dict().items())


def test_a_prefix_chooses_among_several_networks(tmp_path: Path) -> None:
    torch.save({"teacher": TRAINED, "student": ANOTHER}, tmp_path / "w.pt")
    network = load.load_checkpoint(Deep(), tmp_path / "w.pt", "student.")
    assert all(torch.equal(t, ANOTHER[name]) for name, t in network.state_dict().items())
    with pytest.raises(BadWeights, match=r"under 'pupil\.': 8 missing"):
        load.load_checkpoint(network, tmp_path / "w.pt", "pupil.")


class Ported(nn.Module):
    """Layers as many networks name them; `parts` are those that it has."""

    def __init__(self, *parts: str) -> None:
        super().__init__()
        kinds: dict[str, Callable[[], nn.Module]] = {
            "conv": lambda: nn.Conv1d(3, 4, 3),
            "bn": lambda: nn.BatchNorm1d(4),
            "fc": lambda: nn.Linear(4, 5),
        }
        for part in parts:
            self.add_module(part, kinds.get(part, lambda: nn.Conv1d(4, 4, 3))())


WHOLE = ("conv", "bn", "layer1", "layer2", "layer3", "fc")


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("lost", ["bn", "layer1", "layer2", "layer3"])
def test_a_layer_in_the_middle_is_no_head(lost: str, suffix: str, tmp_path: Path) -> None:
    """Unless who ports the network says so."""
    trained, path = Ported(*WHOLE).state_dict(), tmp_path / f"w{suffix}"
    save_file(trained, path) if suffix != ".pt" else torch.save({"net": trained}, path)
    network = Ported(*(part for part in WHOLE if part not in (lost, "fc")))
    with pytest.raises(BadWeights, match=f"unexpected: {lost}"):
        load.load_checkpoint(network, path)
    load.load_checkpoint(network, path, without=[lost])
    assert all(torch.equal(t, trained[n]) for n, t in network.state_dict().items())
    load.load_checkpoint(Ported(*WHOLE[:-1]), path)


def test_two_models_with_one_file_each_say_what_they_leave_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.save(Ported(*WHOLE, "last").state_dict(), tmp_path / "w.pt")
    load.load_checkpoint(Ported(*WHOLE), tmp_path / "w.pt")
    load.load_checkpoint(Ported(*WHOLE[:-1]), tmp_path / "w.pt")
    said = [line.rpartition(" out: ")[2] for line in caplog.messages]
    assert said == ["last (2 tensors)", "fc (2 tensors), last (2 tensors)"]


EXTRAS = ("position_ids", "conv.total_ops", "norm.total_params", "mask_emb", "loss.pos_weight")


@pytest.mark.parametrize("name", EXTRAS)
def test_a_tensor_that_no_feature_depends_on_is_named(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.save({name: torch.ones(1)} | TRAINED, tmp_path / "w.pt")
    load.load_checkpoint(Deep(labels=5), tmp_path / "w.pt")
    assert name.removesuffix(".pos_weight") in caplog.text


def plain(tensors: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return [tensors[name] for name, _ in Deep(labels=5).named_parameters()]


PARAMETERS = {name: ANOTHER[name] for name, _ in Deep(labels=5).named_parameters()}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"model": TRAINED, "ema": PARAMETERS}, "ema."),
        ({"model": TRAINED, "ema": {"shadow_params": plain(ANOTHER)}}, "ema.shadow_params."),
        ({"model": TRAINED, "averaged": tuple(plain(ANOTHER))}, "averaged."),
        ([TRAINED, ANOTHER], "1."),
    ],
)
def test_averaged_weights_beside_plain_ones_are_chosen_by_a_person(
    content: Any, place: str, tmp_path: Path
) -> None:
    """With the buffers of the plain ones where they have none of their own."""
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(BadWeights, match=re.escape(repr(place))):
        load.load_checkpoint(Deep(labels=5), tmp_path / "w.pt")
    network = load.load_checkpoint(Deep(labels=5), tmp_path / "w.pt", place)
    assert all(torch.equal(p, ANOTHER[name]) for name, p in network.named_parameters())
    first = "model." if "model" in content else "0."
    network = load.load_checkpoint(Deep(labels=5), tmp_path / "w.pt", first)
    assert all(torch.equal(t, TRAINED[name]) for name, t in network.state_dict().items())


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_tied_tensors_masks_and_states_are_as_they_were_saved(suffix: str, tmp_path: Path) -> None:
    trained, path = Tied(), tmp_path / f"w{suffix}"
    trained.seen = 3
    state = trained.state_dict()
    if suffix == ".pt":
        torch.save({"model": state}, path)
    else:  # as save_model leaves out one of two names
        tensors = {n: t for n, t in state.items() if isinstance(t, torch.Tensor)}
        save_file({n: t for n, t in tensors.items() if n not in ("second.weight", "shift")}, path)
    network = load.load_checkpoint(Tied(), path)
    assert torch.equal(network.first.weight, trained.first.weight)
    assert torch.equal(network.second.bias, trained.second.bias)
    assert network.seen == (3 if suffix == ".pt" else 0)
    assert (load.digest(network) == load.digest(trained)) == (suffix == ".pt")


@pytest.mark.parametrize("new", [True, False])
def test_weight_norm_is_read_under_its_old_and_its_new_names(new: bool, tmp_path: Path) -> None:
    def made(new: bool) -> nn.Module:
        kind = nn.utils.parametrizations.weight_norm if new else nn.utils.weight_norm
        return nn.ModuleDict({"conv": kind(nn.Conv1d(3, 4, 3)), "norm": nn.BatchNorm1d(4)})

    with warnings.catch_warnings(action="ignore"):
        trained, network = made(new), made(not new)
    torch.save({"state_dict": trained.state_dict()}, tmp_path / "w.pt")
    load.load_checkpoint(network, tmp_path / "w.pt")
    x = torch.randn(2, 3, 9)
    assert torch.allclose(network["conv"](x), trained["conv"](x))


def test_a_count_of_batches_may_be_missing(tmp_path: Path) -> None:
    torch.save({n: t for n, t in TRAINED.items() if "num_b" not in n}, tmp_path / "w.pt")
    load.load_checkpoint(Deep(labels=5), tmp_path / "w.pt")


@pytest.mark.parametrize(
    "name", ["w.pth.tar", "w.bin", "W.PTH", "w.CKPT", "a,b=1.pt", "W.SAFETENSORS", "w.pt"]
)
@pytest.mark.parametrize("how", ["tensors", "arrays", "list"])
def test_a_file_is_read_whatever_its_ending_and_its_kind_of_arrays(
    name: str, how: str, tmp_path: Path
) -> None:
    if "SAFE" in name:
        save_file(TRAINED, tmp_path / name)
    else:
        arrays = {n: t.numpy() for n, t in TRAINED.items()}
        of = {"tensors": TRAINED, "arrays": arrays, "list": [TRAINED, {"epoch": 3}]}
        torch.save(of[how], tmp_path / name)
    network = load.load_checkpoint(Deep(labels=5), tmp_path / name)
    assert all(torch.equal(t, TRAINED[n]) for n, t in network.state_dict().items())


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_a_file_in_parts_is_read_by_its_index(suffix: str, tmp_path: Path) -> None:
    names, files = list(TRAINED), [f"w-0000{i}-of-00002.{suffix}" for i in (1, 2)]
    parts = {files[0]: names[:4], files[1]: names[4:]}
    for file, own in parts.items():
        tensors = {name: TRAINED[name] for name in own}
        put = save_file if suffix == "safetensors" else torch.save
        put(tensors, tmp_path / file)
    places = {name: file for file, own in parts.items() for name in own}
    stale = {name: ANOTHER[name] for name in names[:4]} | {n: TRAINED[n] for n in names[4:]}
    put(stale, tmp_path / files[1])  # an older place of a tensor is not looked at
    index = tmp_path / f"w.{suffix}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    network = load.load_checkpoint(Deep(labels=5), index)
    assert all(torch.equal(t, TRAINED[n]) for n, t in network.state_dict().items())
    index.write_text(json.dumps({"weight_map": places | {"more": files[0]}}))
    with pytest.raises(BadWeights, match="lack"):
        load.load_checkpoint(network, index)


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
    refused(tmp_path / "w.ckpt", "166 missing: pos_embedding")


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
