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
import struct
import sys
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping
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


def authors(pack: str, of: str) -> Tensors:
    """What the authors' network holds: one tensor per name; two names of one tensor hold the same
    number. pack: a folder, and behind `_` what the name of its file of keys holds.
    """
    folder, _, part = pack.partition("_")
    file = PACKS / folder / f"keys{part and f'_{part}'}.json"
    entries = json.loads(file.read_text())[of]
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


def read(path: Path, model: str, name: str = "released") -> Tensors:
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
        holders[t.view(-1)[0].item(), t.shape].append(key)
    assert all(t.view(-1)[0] == t.view(-1)[-1] for t in tensors.values())
    return {name: holders[t.view(-1)[0].item(), t.shape] for name, t in tensors.items()}


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


def lightning(tensors: Tensors, theirs: types.SimpleNamespace) -> dict[str, Any]:
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
        "state_dict": tensors,
        "hyper_parameters": {"dataclass": dataclass, **parts},
        "epoch": 1,
        "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(4)}}}],
        "callbacks": {"ModelCheckpoint": {"best_k_models": {"x": torch.tensor(1.0)}}},
    }


def first_hubert(tensors: Tensors, theirs: types.SimpleNamespace) -> dict[str, Any]:
    """Its configuration is pickled too."""
    config = theirs.of("hubert_ecg.config", "HuBERTECGConfig")()
    config.hidden_size = 768
    return {"model_state_dict": old(tensors), "model_config": config, "loss": np.float64(0.1)}


def clef(tensors: Tensors, _: object) -> dict[str, Any]:
    more = {"predictor.0.weight": torch.zeros(2, 2), "queue": torch.zeros(3)}
    return {"state_dict": {f"backbone.{key}": t for key, t in tensors.items()} | more, "epoch": 3}


def ked(tensors: Tensors, _: object) -> dict[str, Any]:
    """Four networks, of which `ecg_model` has 1,224 names for 630 tensors."""
    others = {"model": {"query.weight": torch.zeros(3)}, "text_encoder": {"a": torch.zeros(3)}}
    return {**others, "ecg_model": tensors, "optimizer": {"state": {0: {"step": 1}}}, "epoch": 3}


def tuned(tensors: Tensors, _: object) -> dict[str, Any]:
    left_out = ("mask_emb", "quantizer.", "project_q.", "final_proj.")
    kept = {f"encoder.{k}": t for k, t in tensors.items() if not k.startswith(left_out)}
    return {"model": kept | {"proj.bias": torch.zeros(17)}}


def old(tensors: Tensors) -> Tensors:
    """With the names of the older weight norm."""
    return {k.replace(G, "weight_g").replace(V, "weight_v"): t for k, t in tensors.items()}


def under(*path: str) -> Callable[[Tensors, object], Any]:
    def wrapped(tensors: Tensors, _: object) -> Any:
        return {path[0]: tensors, "epoch": 99, "best": np.float64(0.9)} if path else tensors

    return wrapped


@pytest.mark.parametrize(
    ("model", "names", "file", "content"),
    [
        ("clef_small", "clef checkpoint_S", "clef_small.ckpt", clef),
        ("clef_medium", "clef checkpoint_M", "clef_medium.ckpt", clef),
        ("ecgcpc", "ecgcpc entries", "last_11597276.ckpt", lightning),
        ("ecgcpc", "ecgcpc entries", "ECG-CPC Checkpoint.zip", lightning),
        ("ecgfm", "ecgfm checkpoint", "ecg.pt", under("model")),
        ("ecgfm", "ecgfm checkpoint", "ecg.pt", lambda t, _: {"model": old(t)}),
        ("ecgfm released-mimic", "ecgfm checkpoint", "tuned.pt", tuned),
        ("ecgfmked", "ecgfmked entries", "ked.pt", ked),
        ("ecgfounder", "ecgfounder entries", "w.pth", under("state_dict")),
        ("ecgfounder1lead", "ecgfounder_1lead entries", "w.pth", under("state_dict")),
        ("ecgjepa", "ecgjepa encoder_checkpoint", "epoch100.pth", under("encoder")),
        ("hubertecg", "hubertecg checkpoint", "model.safetensors", under()),
        ("hubertecg released-ssl", "hubertecg checkpoint", "hubert_ecg_base.pt", first_hubert),
        ("merl", "merl entries", "res18_best_encoder.pth", under()),
        ("stmem released-encoder", "stmem encoder_checkpoint", "encoder.pth", under("model")),
        ("tolerantecg", "tolerantecg encoder_checkpoint", "TolerantECG_encoder.pth", under()),
    ],
)
def test_every_tensor_of_the_authors_file_finds_its_place(
    model: str,
    names: str,
    file: str,
    content: Callable[[Tensors, Any], Any],
    theirs: types.SimpleNamespace,
    tmp_path: Path,
) -> None:
    tensors, path = authors(*names.split()), tmp_path / file
    written = content(tensors, theirs)
    if path.suffix == ".safetensors":
        save_file({k: t.half().contiguous() for k, t in written.items()}, path)
    else:
        torch.save(written, path.with_suffix(".ckpt" if path.suffix == ".zip" else path.suffix))
    theirs.forget()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(path.with_suffix(".ckpt"), "last_11597276.ckpt")
            archive.writestr("config_last_11597276_ckpt.yaml", "a: 1")
    # as lightning allows it where it is imported
    with torch.serialization.safe_globals([collections.defaultdict]):
        found = came_from(read(path, *model.split()), tensors)
    prefix = "ts_encoder." if model == "ecgcpc" else ""
    assert found.keys() == on_meta(model.split()[0]).state_dict().keys()
    assert all(prefix + name in keys for name, keys in found.items())
    assert not any(name in sys.modules for name in FOREIGN)


def test_ecgfm_ked_may_spell_its_tensors_in_one_way_and_not_differently_in_two(
    tmp_path: Path,
) -> None:
    encoder, path = authors("ecgfmked", "entries"), tmp_path / "ked.pt"
    for spelling in ("convpath.0.", "convs."):
        kept = {k: t for k, t in encoder.items() if spelling in k or "conv" not in k}
        torch.save({"ecg_model": kept}, path)
        found = came_from(read(path, "ecgfmked"), encoder)
        assert all(name in keys for name, keys in found.items())
    one = next(key for key in encoder if "convpath.0." in key)
    torch.save({"ecg_model": encoder | {one: encoder[one] + 1}}, path)
    with pytest.raises(BadWeights, match=r"with different values: 4\.0\.convs\.0\.0\.weight"):
        read(path, "ecgfmked")


@pytest.mark.parametrize(
    ("model", "other"),
    [("ecgfounder", "ecgfounder_1lead"), ("ecgfounder1lead", "ecgfounder"), ("ecgfounder", "merl")],
)
def test_the_file_of_another_network_is_refused(model: str, other: str, tmp_path: Path) -> None:
    torch.save({"state_dict": authors(other, "entries")}, tmp_path / "w.pth")
    with pytest.raises(BadWeights, match="is not a file of weights of"):
        read(tmp_path / "w.pth", model)


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


def test_a_dict_that_holds_itself_is_refused_in_one_line(tmp_path: Path) -> None:
    content: dict[str, Any] = {"weight": torch.zeros(2)}
    torch.save(content | {"again": [content]}, tmp_path / "fine.pt")
    assert "weight" in reading.read(tmp_path / "fine.pt")
    content["again"] = [content]
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(BadWeights, match=r"holds itself; save a state dict$"):
        reading.read(tmp_path / "w.pt")


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
