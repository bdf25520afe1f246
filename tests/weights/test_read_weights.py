"""Every released container, written in its authors' layout with its authors' names, and hostile
files of the same kinds.

The names come from the packs of the authors' own networks (tests/data/parity), not from our cards.
Tensors are one number each, different for every name and spread over its shape, so that files stay
small and every tensor tells where it came from.
"""

import collections
import enum
import functools
import json
import os
import pathlib
import pickle
import struct
import sys
import types
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ecgbench import models
from ecgbench.errors import BadWeights
from ecgbench.weights import load
from ecgbench.weights import read as reading

PACKS = Path(__file__).parents[1] / "data" / "parity"
G, V = "parametrizations.weight.original0", "parametrizations.weight.original1"
Tensors = dict[str, Tensor]


def authors(model: str, keys: str = "keys.json", of: str = "entries") -> Tensors:
    """What the authors' network holds: one tensor per name; two names of one tensor hold the same
    number.
    """
    entries = json.loads((PACKS / model / keys).read_text())[of]
    numbers = {e["key"]: float(i) for i, e in enumerate(entries)}
    values = {e["key"]: torch.tensor(numbers[e.get("same_tensor_as", e["key"])]) for e in entries}
    return {
        e["key"]: values[e["key"]].to(getattr(torch, e["dtype"])).expand(e["shape"])
        for e in entries
    }


def on_meta(model: str) -> nn.Module:
    with torch.device("meta"):
        network: nn.Module = models.get(model).build()
    return network


def read(model: str, path: Path, name: str = "released") -> Tensors:
    """What the card makes of a file, in the layout called `name` alone."""
    card = models.get(model).CARD
    layout = next(w for w in card.weights if w.name == name)
    with reading.unpacked(path, layout.member) as file:
        return load.matched(on_meta(model), file, card, (layout,))


def came_from(tensors: Mapping[str, Tensor], source: Tensors) -> dict[str, list[str]]:
    """For each name of our network, the authors' names that hold its number; shapes are compared on
    the way.
    """
    holders = collections.defaultdict(list)
    for key, t in source.items():
        holders[t.reshape(-1)[0].item(), t.shape].append(key)
    assert all(bool((t == t.reshape(-1)[0]).all()) for t in tensors.values())
    return {name: holders[t.reshape(-1)[0].item(), t.shape] for name, t in tensors.items()}


FOREIGN = (
    "omegaconf",
    "omegaconf.dictconfig",
    "clinical_ts",
    "clinical_ts.config",
    "hubert_ecg",
    "hubert_ecg.config",
)


@pytest.fixture
def theirs() -> Iterator[types.SimpleNamespace]:
    """Classes of the authors' libraries, which are nowhere once a file is written: `forget` is to
    be called then.
    """
    made = {name: types.ModuleType(name) for name in FOREIGN}
    sys.modules.update(made)

    def of(module: str, name: str, **members: Any) -> type:
        kind = type(name, (), {"__module__": module, **members})
        setattr(made[module], name, kind)
        return kind

    def forget() -> None:
        for name in FOREIGN:
            sys.modules.pop(name, None)

    yield types.SimpleNamespace(of=of, forget=forget)
    forget()


class Speed(enum.Enum):
    FAST = 1


def test_ecgfm_ked_holds_its_encoder_under_two_spellings(tmp_path: Path) -> None:
    """Zenodo: a dict of four networks; `ecg_model` has 1,224 names for 630 tensors."""
    encoder = authors("ecgfmked")
    content = {
        "model": {"query.weight": torch.zeros(3)},
        "ecg_model": encoder,
        "text_encoder": {"bert.weight": torch.zeros(3)},
        "optimizer": {"state": {0: {"step": 1}}, "param_groups": []},
        "lr_scheduler": {"base_lr": 1e-4},
        "config": {"seed": 42},
        "epoch": 3,
    }
    torch.save(content, tmp_path / "ked.pt")
    found = came_from(read("ecgfmked", tmp_path / "ked.pt"), encoder)
    assert len(found) == 630
    assert all(name in keys for name, keys in found.items())
    one = next(key for key in encoder if "convpath.0." in key)
    for spelling in ("convpath.0.", "convs."):
        content["ecg_model"] = {
            key: t
            for key, t in encoder.items()
            if spelling in key or not ("convpath.0." in key or "convs." in key)
        }
        torch.save(content, tmp_path / "one.pt")
        assert came_from(read("ecgfmked", tmp_path / "one.pt"), encoder) == found
    content["ecg_model"] = encoder | {one: encoder[one] + 1}
    torch.save(content, tmp_path / "two.pt")
    with pytest.raises(
        BadWeights, match=r"1 given twice with different values: 4\.0\.convs\.0\.0\.weight"
    ):
        read("ecgfmked", tmp_path / "two.pt")


@pytest.mark.parametrize(
    ("model", "keys"), [("ecgfounder", "keys.json"), ("ecgfounder1lead", "keys_1lead.json")]
)
def test_ecgfounder_lies_under_state_dict_with_its_head(
    model: str, keys: str, tmp_path: Path
) -> None:
    names = authors("ecgfounder", keys)
    content = {
        "state_dict": names,
        "optimizer": {"state": {}},
        "epoch": 12,
        "best": np.float64(0.9),
    }
    torch.save(content, tmp_path / "w.pth")
    assert came_from(read(model, tmp_path / "w.pth"), names).keys() == names.keys() - {
        "dense.weight",
        "dense.bias",
    }
    other = {"ecgfounder": "ecgfounder1lead", "ecgfounder1lead": "ecgfounder"}[model]
    with pytest.raises(BadWeights, match="is not a file of weights of"):
        read(other, tmp_path / "w.pth")


def lightning(theirs: types.SimpleNamespace) -> dict[str, Any]:
    """A Lightning checkpoint: hyper-parameters are objects of two libraries, and of Python, that
    only pickle can bring back.
    """
    config = theirs.of(
        "omegaconf.dictconfig",
        "DictConfig",
        __setstate__=lambda self, state: self.__dict__.update(state),
    )()
    config.content = {"kernel": [3, 1, 1, 1], "parent": config}
    dataclass = theirs.of("clinical_ts.config", "CPCConfig")()
    dataclass.where, dataclass.many = (
        pathlib.PurePosixPath("/data"),
        collections.defaultdict(list, {"a": [1]}),
    )
    parts = {
        "config": config,
        "part": functools.partial(int, base=2),
        "speed": Speed.FAST,
        "set": {1, 2},
        "loss": np.float32(0.5),
    }
    return {
        "state_dict": authors("ecgcpc"),
        "hyper_parameters": {"dataclass": dataclass, **parts},
        "pytorch-lightning_version": "2.1.0",
        "epoch": 1,
        "global_step": 230_000,
        "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(4)}}}],
        "callbacks": {"ModelCheckpoint": {"best_k_models": {"x": torch.tensor(1.0)}}},
    }


@pytest.mark.parametrize("zipped", [False, True])
def test_ecg_cpc_is_a_lightning_checkpoint_in_an_archive(
    zipped: bool, theirs: types.SimpleNamespace, tmp_path: Path
) -> None:
    path = tmp_path / "last_11597276.ckpt"
    torch.save(lightning(theirs), path)
    theirs.forget()
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)
    if zipped:
        with zipfile.ZipFile(
            tmp_path / "ECG-CPC Checkpoint.zip", "w", zipfile.ZIP_DEFLATED
        ) as archive:
            archive.write(path, path.name)
            archive.writestr("config_last_11597276_ckpt.yaml", "a: 1")
        path = tmp_path / "ECG-CPC Checkpoint.zip"
    names = authors("ecgcpc")
    # as lightning allows it where it is imported
    with torch.serialization.safe_globals([collections.defaultdict]):
        found = came_from(read("ecgcpc", path), names)
    assert {f"ts_encoder.{name}" for name in found} == names.keys() - {
        "ts_encoder.head_ssl.proj.0.weight"
    }
    assert all(f"ts_encoder.{name}" in keys for name, keys in found.items())
    assert not any(name in sys.modules for name in FOREIGN)


def test_ecg_jepa_lies_under_encoder(tmp_path: Path) -> None:
    names = authors("ecgjepa", of="encoder_checkpoint")
    torch.save({"encoder": names, "epoch": 99}, tmp_path / "multiblock_epoch100.pth")
    found = came_from(read("ecgjepa", tmp_path / "multiblock_epoch100.pth"), names)
    assert len(found) == 137
    assert all(name in keys for name, keys in found.items())


def test_merl_is_a_bare_state_dict_with_a_head_that_was_never_used(tmp_path: Path) -> None:
    names = authors("merl")
    torch.save(names, tmp_path / "res18_best_encoder.pth")
    found = came_from(read("merl", tmp_path / "res18_best_encoder.pth"), names)
    assert found.keys() == names.keys() - {"linear.weight", "linear.bias"}
    assert all(name in keys for name, keys in found.items())
    with pytest.raises(BadWeights, match="is not a file of weights of ECGFounder"):
        read("ecgfounder", tmp_path / "res18_best_encoder.pth")


def spelled(tensors: Tensors, old: bool) -> Tensors:
    return {
        key.replace(G, "weight_g").replace(V, "weight_v") if old else key: t
        for key, t in tensors.items()
    }


@pytest.mark.parametrize("old", [False, True])
def test_hubert_ecg_is_safetensors_in_either_spelling_of_the_weight_norm(
    old: bool, tmp_path: Path
) -> None:
    names = authors("hubertecg", of="checkpoint")
    assert any(G in key for key in names)
    save_file(
        {key: t.to(torch.float16).contiguous() for key, t in spelled(names, old).items()},
        tmp_path / "model.safetensors",
    )
    found = came_from(read("hubertecg", tmp_path / "model.safetensors"), names)
    assert len(found) == 209
    assert all(name in keys for name, keys in found.items())


def test_hubert_ecg_of_the_first_release_pickles_its_configuration(
    theirs: types.SimpleNamespace, tmp_path: Path
) -> None:
    names = authors("hubertecg", of="checkpoint")
    config = theirs.of("hubert_ecg.config", "HuBERTECGConfig")()
    config.hidden_size = 768
    content = {
        "model_state_dict": spelled(names, old=True),
        "model_config": config,
        "global_step": 1,
        "best_val_loss": np.float64(0.1),
    }
    torch.save(content, tmp_path / "hubert_ecg_base.pt")
    theirs.forget()
    found = came_from(read("hubertecg", tmp_path / "hubert_ecg_base.pt", "released-ssl"), names)
    assert len(found) == 209
    assert all(name in keys for name, keys in found.items())


def test_tensors_beside_objects_of_the_authors_are_as_they_were_saved(
    theirs: types.SimpleNamespace, tmp_path: Path
) -> None:
    whole = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    kinds = (
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
    tensors = {
        "whole": whole,
        "turned": whole.transpose(0, 2),
        "part": whole[1:, ::2],
        "empty": whole[:0],
        "scalar": torch.tensor(7),
        "parameter": nn.Parameter(whole.clone()),
        **{str(kind): torch.arange(3).to(kind) for kind in kinds},
    }
    torch.save(
        {"state_dict": collections.OrderedDict(tensors), "config": theirs.of("omegaconf", "C")()},
        tmp_path / "w.ckpt",
    )
    theirs.forget()
    found = reading.read(tmp_path / "w.ckpt")["state_dict"]
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[k], t) and found[k].dtype == t.dtype for k, t in tensors.items())


class Calls:
    """Pickled as a call of `what` with `words`."""

    def __init__(self, what: Any, *words: Any) -> None:
        self.what, self.words = what, words

    def __reduce__(self) -> tuple[Any, ...]:
        return self.what, self.words


def hostile(tmp_path: Path, bad: object) -> Path:
    torch.save({"state_dict": {"a": torch.ones(2)}, "config": bad}, tmp_path / "w.ckpt")
    return tmp_path / "w.ckpt"


@pytest.mark.parametrize("what", [eval, exec, __import__, open, os.mkdir], ids=lambda f: f.__name__)
def test_code_that_a_file_names_is_not_run(what: Any, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    code = f"__import__('os').mkdir({str(marker)!r})"
    words = {eval: (code,), exec: (code,), open: (str(marker), "w")}.get(what, (str(marker),))
    with suppress(BadWeights):
        reading.read(hostile(tmp_path, Calls(what, *words)))
    assert not marker.exists()


def test_a_library_that_a_file_names_is_not_even_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    (tmp_path / "trap.py").write_text(
        f"open({str(marker)!r}, 'a').close()\ndef spring(*words):\n    open({str(marker)!r}, "
        f"'a').close()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import trap  # type: ignore[import-not-found]

    path = hostile(
        tmp_path,
        [
            Calls(trap.spring, 1),
            Calls(getattr, Calls(trap.spring, 2), "x"),
            Calls(Calls(trap.spring).what, 3),
        ],
    )
    marker.unlink()
    monkeypatch.delitem(sys.modules, "trap")
    found = reading.read(path)
    assert torch.equal(found["state_dict"]["a"], torch.ones(2))
    assert not marker.exists()
    assert "trap" not in sys.modules


@pytest.mark.parametrize("part", [0.2, 0.9, 0.999])
def test_a_truncated_lightning_checkpoint_is_refused(
    part: float, theirs: types.SimpleNamespace, tmp_path: Path
) -> None:
    path = hostile(tmp_path, theirs.of("omegaconf", "C")())
    theirs.forget()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(BadWeights, match=r"[gG]et the file again"):
        reading.read(path)


def test_a_text_is_refused_by_the_kind_of_its_error(tmp_path: Path) -> None:
    """Python says no more than the number of an unknown letter."""
    (tmp_path / "w.pt").write_text("hello")
    with pytest.raises(BadWeights, match="KeyError"):
        reading.read(tmp_path / "w.pt")


def test_safetensors_whose_first_byte_looks_like_a_page(tmp_path: Path) -> None:
    """Its length comes first: 15,392 bytes of header are a blank and `<`."""
    content = (
        json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
        .encode()
        .ljust(15_392)
    )
    (tmp_path / "w.safetensors").write_bytes(
        struct.pack("<Q", len(content)) + content + struct.pack("<f", 1)
    )
    assert torch.equal(reading.read(tmp_path / "w.safetensors")["w"], torch.ones(1))
