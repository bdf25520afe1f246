"""tools/pack.py: from the folder of a pre-training to the files that ship."""

import hashlib
import importlib.util
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save, save_file

from ecgbench.errors import BadSetting, BadWeights
from ecgbench.models import laef
from ecgbench.weights import load

TOOL = Path(__file__).parents[1] / "tools" / "pack.py"
spec = importlib.util.spec_from_file_location("pack", TOOL)
assert spec is not None
assert spec.loader is not None
pack = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pack)
CURVES = ("stage1/curve.csv", "stage1/elbow.csv", "stage2/curve.csv", "stage2/elbow.csv")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A pre-training with random weights."""
    folder = tmp_path / "run"
    for name in CURVES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    torch.manual_seed(3)
    network = laef.build()
    save_file(network.state_dict(), folder / "encoder.safetensors")
    told = {"encoder": load.digest(network), "recipe": {"digest": "ab", "name": "small"}}
    (folder / "pretraining.json").write_text(json.dumps(told))
    return folder


def test_what_ships_is_the_encoder_in_float16_and_says_so(run: Path, tmp_path: Path) -> None:
    to = tmp_path / "models" / "laef"
    shipped = pack.pack(run, to)
    assert {p.name for p in to.iterdir()} == {
        "laef.safetensors",
        "pretraining.json",
        "curve_stage1.csv",
        "curve_stage2.csv",
        "elbow_stage1.csv",
        "elbow_stage2.csv",
    }
    assert (to / "elbow_stage2.csv").read_text() == "stage2/elbow.csv\n"
    told = json.loads((to / "pretraining.json").read_text())
    assert told["shipped"] == shipped
    assert told["recipe"]["name"] == "small"
    assert shipped["sha256"] == hashlib.sha256((to / "laef.safetensors").read_bytes()).hexdigest()
    loaded, exact = laef.build(to / "laef.safetensors"), laef.build(run / "encoder.safetensors")
    assert shipped["tensors"] == load.digest(loaded) != told["encoder"]
    pairs = zip(loaded.state_dict().values(), exact.state_dict().values())
    assert max(float((a - b).abs().max()) for a, b in pairs) == shipped["largest_change"] < 1e-3
    with safe_open(to / "laef.safetensors", "pt") as file:
        assert file.metadata() == {"network": "LAEF", "recipe": "ab", "encoder": told["encoder"]}
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118


def test_the_bytes_do_not_depend_on_chance() -> None:
    """The library writes the entries of its metadata in another order each time."""
    tensors, told = (
        {"b": torch.ones(3), "a": torch.zeros(2, 2)},
        {"network": "LAEF", "recipe": "ab", "encoder": "cd"},
    )
    assert len({pack._in_order(save(tensors, told)) for _ in range(30)}) == 1


def test_an_encoder_that_its_report_does_not_tell_of_is_refused(run: Path, tmp_path: Path) -> None:
    save_file(laef.build().state_dict(), run / "encoder.safetensors")
    with pytest.raises(
        BadWeights,
        match=r"encoder\.safetensors is not the encoder that .*pretraining\.json describes",
    ):
        pack.pack(run, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_values_that_float16_cannot_hold_are_refused(run: Path, tmp_path: Path) -> None:
    network = laef.build()
    network.blocks[0].norm.weight.data[0] = 1e5  # type: ignore[union-attr, index]
    save_file(network.state_dict(), run / "encoder.safetensors")
    (run / "pretraining.json").write_text(
        json.dumps({"encoder": load.digest(network), "recipe": {"digest": "ab"}})
    )
    with pytest.raises(BadWeights, match=r"blocks\.0\.norm\.weight holds values beyond 65504"):
        pack.pack(run, tmp_path / "to")


def test_a_folder_that_is_no_finished_pretraining(run: Path, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="is the pre-training itself"):
        pack.pack(run, run / "." / "stage1" / "..")
    (run / "pretraining.json").write_text("[]")
    with pytest.raises(BadWeights, match=r"pretraining\.json describes no encoder"):
        pack.pack(run, tmp_path / "to")
    (run / "stage2" / "curve.csv").unlink()
    with pytest.raises(BadSetting, match=r"stage2/curve\.csv is not there; run ecgbench pretrain"):
        pack.pack(run, tmp_path / "to")
