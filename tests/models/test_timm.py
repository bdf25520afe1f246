"""The family `timm:NAME`: what its networks see, what their cards say, and published weights from a
Hub on this machine. Weights are random: no network here was trained.
"""

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ecgbench import models
from ecgbench.check.models import card_is_true
from ecgbench.errors import BadSetting, BadWeights, UnknownName
from ecgbench.evaluate import network
from ecgbench.layers.torchvision_operators import import_timm
from ecgbench.models import timm as family
from ecgbench.weights import convert, load, released
from tests.weights.ear import Ear

timm = import_timm()
NAME = "timm:test_resnet.r160_in1k"
ALL = torch.ones(2, 12, dtype=torch.bool)


@pytest.mark.parametrize(
    ("name", "size", "seconds"),
    [
        ("timm:test_resnet", (32, 1024), 10),
        ("timm:Test-ViT.r160_in1k", (160, 160), 2.5),
        ("TIMM:test_resnet@spectrogram", (192, 128), 10),
        ("timm:test_vit@spectrogram", (160, 160), 10),
    ],
)
def test_the_card_is_true_of_network_and_image(
    name: str, size: tuple[int, int], seconds: float
) -> None:
    proper = models.resolve(name)
    assert models.resolve(proper) == proper == proper.lower()
    built = network.build(proper, "random")
    assert card_is_true(built)
    card, seen = built.card, []
    built.module.net.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape))
    fed = card.contract("paper")
    x = torch.randn(2, 12, fed.samples, generator=torch.Generator().manual_seed(1))
    pooled = built.module(x, ALL).pooled
    assert tuple(seen[0]) == (2, 1, *size)
    assert pooled.shape == (2, card.dim)
    assert (card.name, fed.seconds, fed.policy, card.native) == (proper, seconds, "zero", False)
    assert "apache-2.0" in card.licence
    assert card.weights[0].url.startswith("https://huggingface.co/timm/test_")
    assert models.ROOM.source_hash(proper) == f"timm {timm.__version__}"
    assert network.build(proper, "random").sha256 == built.sha256
    with pytest.raises(ValueError, match="reads"):
        built.module(x, ~ALL)


def test_the_spectrogram_is_numpys() -> None:
    module = models.get("timm:test_resnet@spectrogram").build()
    x = torch.randn(2, 12, 1000, generator=torch.Generator().manual_seed(2))
    window = scipy.signal.get_window("hann", 32)
    padded = np.pad(x.numpy(), [(0, 0), (0, 0), (16, 16)], mode="reflect")
    frames = np.stack([padded[..., i * 8 : i * 8 + 32] * window for i in range(126)], -1)
    power = np.abs(np.fft.rfft(frames, axis=2)[:, :, 1:]) ** 2
    np.testing.assert_allclose(
        module._bands(x).numpy(), np.log1p(power).reshape(2, 192, 126), rtol=1e-4, atol=1e-4
    )
    flat = module._bands(torch.zeros(1, 12, 1000))
    assert not flat.any()  # a lead that was not measured is 0 here too


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("timm:resnet1", UnknownName, "unknown model 'timm:resnet1'; did you mean timm:resnet"),
        ("timm:", UnknownName, "unknown model 'timm:'"),
        ("timm:test_vit@sound", UnknownName, "unknown image 'sound'. Known: spectrogram"),
        ("timm:bat_resnext26ts", BadSetting, "cannot read an image of the leads"),
        ("tim:test_vit", UnknownName, "unknown model 'tim:test_vit'"),
    ],
)
def test_other_names_are_refused_in_one_line(name: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        models.get(name)
    assert "\n" not in str(caught.value)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """model.safetensors as timm publishes it, three channels and 1000 classes, in the layout of
    huggingface_hub's cache; the Hub itself cannot be reached.
    """
    torch.manual_seed(5)
    repository = tmp_path / "hub" / "models--timm--test_resnet.r160_in1k"
    commit = "0" * 40
    file = repository / "snapshots" / commit / "model.safetensors"
    file.parent.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    save_file(timm.create_model("test_resnet").state_dict(), file)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("ECGBENCH_WEIGHTS", str(tmp_path / "cache"))
    return file


def fetch() -> list[str]:
    ear = Ear()
    convert.fetch(NAME, "released", None, False, ear)
    return ear.heard


def test_published_weights_are_those_that_timm_loads(published: Path, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"run: ecgbench models fetch timm:test_resnet.r160_in1k"):
        network.build(NAME, "released")
    assert network.build(NAME, "released_or_random").weights == "random"
    fetch()
    built = network.build(NAME, "released_or_random")
    assert built.weights == "released"
    digest = hashlib.sha256(published.read_bytes()).hexdigest()
    assert built.source["sha256"] == digest
    overlay = {"file": str(published)}
    theirs = timm.create_model(
        "test_resnet", pretrained=True, pretrained_cfg_overlay=overlay, in_chans=1, num_classes=0
    ).eval()
    image = torch.randn(2, 1, 32, 1024)
    with torch.no_grad():
        assert torch.equal(built.module.net(image), theirs(image))
        colours = timm.create_model("test_resnet", num_classes=0).eval()
        whole = load_file(published)
        colours.load_state_dict({k: whole[k] for k in colours.state_dict()})
        alike = colours(image.expand(2, 3, 32, 1024))
    torch.testing.assert_close(built.module.net(image), alike, rtol=1e-4, atol=1e-4)
    assert network.build(NAME, str(published)).sha256 == built.sha256
    own = tmp_path / "own.safetensors"
    save_file(load.state_of(built.module), own)
    assert network.build(NAME, str(own)).sha256 == built.sha256


@pytest.mark.parametrize("damage", ["a tensor is missing", "of another network", "not finite"])
def test_a_file_that_does_not_fit_leaves_nothing_behind(
    damage: str, published: Path, tmp_path: Path
) -> None:
    """timm itself loads a file without some tensors, and leaves random ones in their places."""
    tensors: dict[str, Tensor] = load_file(published)
    if damage == "a tensor is missing":
        del tensors["layer1.0.conv1.weight"]
    elif damage == "not finite":
        tensors["layer1.0.conv1.weight"][0, 0, 0, 0] = torch.nan
    else:
        tensors = timm.create_model("test_vit").state_dict()
    save_file(tensors, published)
    with pytest.raises(BadWeights) as caught:
        fetch()
    assert "\n" not in str(caught.value)
    assert not released.converted(NAME, "released").exists()
    with pytest.raises(BadWeights):
        network.build(NAME, str(published))


def test_a_network_that_timm_loads_from_any_file_is_filled_whole(tmp_path: Path) -> None:
    """Of dla46_c timm itself takes a file without a single tensor of the network."""
    tensors, file = timm.create_model("dla46_c").state_dict(), tmp_path / "dla.safetensors"
    save_file(tensors, file)
    built = network.build("timm:dla46_c", str(file))
    name = "level5.tree1.conv1.weight"
    assert torch.equal(built.module.net.state_dict()[name], tensors.pop(name))
    save_file(tensors, file)
    with pytest.raises(BadWeights, match=f"1 missing: {name}"):
        network.build("timm:dla46_c", str(file))


def test_a_file_of_a_network_without_published_weights(published: Path) -> None:
    module = models.get(NAME).build()
    load.load(module, published, replace(models.get(NAME).CARD, weights=()))
    assert load.digest(module) == network.build(NAME, str(published)).sha256


@pytest.mark.parametrize(
    ("licence", "terms"),
    [
        ("apache-2.0", ""),
        ("nvidia-open-model-license", ""),
        ("cc-by-nc-4.0", "no commercial use"),
        ("fair-noncommercial-research-license", "no commercial use"),
        ("seer-license", "no commercial use"),
        ("apple-amlr", "no commercial use"),
    ],
)
def test_weights_say_whether_they_may_be_sold(licence: str, terms: str) -> None:
    (weights,) = family._weights({"hf_hub_id": "timm/x"}, licence)
    assert (weights.licence, weights.terms) == (licence, terms)


def test_a_hub_that_cannot_be_reached(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # it tries for 20 s
    with pytest.raises(BadSetting, match=r"model\.safetensors could not be downloaded") as caught:
        fetch()
    assert "https://huggingface.co/timm/test_resnet.r160_in1k" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_layers_of_timm_are_the_layers_of_fine_tuning() -> None:
    module = models.get("timm:test_vit").build()
    matcher = module.group_matcher()
    layers = {name: matcher(name) for name, _ in module.named_parameters()}
    assert layers["net.patch_embed.proj.weight"] == layers["net.pos_embed"] == 0
    assert layers["net.blocks.5.mlp.fc2.bias"] == layers["net.norm.weight"] == 6
    assert module.no_weight_decay() >= {"net.pos_embed", "net.cls_token"}
    assert models.get("timm:pit_ti_224").build().group_matcher is None  # timm says nothing of it


@pytest.mark.long
def test_a_run_as_typed(here: Any, tmp_path: Path) -> None:
    """Both protocols beside another model; the names reach the store, the tables and the report."""
    names = "timm:test_resnet,timm:test_vit@spectrogram"
    run = ["run", "--models", names, "--weights", "random", "--tasks", "demo", "--limit", 40]
    run += ["--leads", "1,12", "--seeds", 1, "--engine", "inline"]
    for protocol in ("probe", "finetune-modern"):
        out = ["--protocol", protocol, "--out", protocol]
        more = ["--set", "training.epochs=2"] if protocol != "probe" else []
        for said in ("4 cells computed", "4 were there already"):
            done = here(*run, *out, *more, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            assert said in done.stdout
        assert here("report", protocol, cwd=tmp_path).returncode == 0
        table = (tmp_path / protocol / "report" / "main_table.tex").read_text()
        assert r"timm test\_vit@spectrogram" in table
    refused = here(*run, "--out", "x", "--models", "timm:resnet1", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("labels", [0, 5])
@pytest.mark.parametrize(
    "place", [("model",), ("state_dict", "module."), ("state_dict", "net."), ()]
)
def test_a_file_of_ones_own_may_have_any_container_and_head(
    channels: int, labels: int, place: tuple[str, ...], tmp_path: Path
) -> None:
    trained = timm.create_model("test_resnet", in_chans=channels, num_classes=labels)
    content: Any = {"".join(place[1:]) + n: t for n, t in trained.state_dict().items()}
    torch.save({place[0]: content} if place else content, tmp_path / "best=1,2.pth.tar")
    built = network.build("timm:test_resnet", str(tmp_path / "best=1,2.pth.tar"))
    own, theirs = built.module.net.state_dict(), trained.state_dict()
    for name, tensor in own.items():
        given = theirs[name].sum(1, keepdim=True) if name == "conv1.0.weight" else theirs[name]
        assert torch.allclose(tensor, given if channels == 3 else theirs[name]), name


def test_averaged_weights_beside_plain_ones_are_refused(tmp_path: Path) -> None:
    """As timm's own training writes them; which are meant nobody has said."""
    both = [timm.create_model("test_resnet", in_chans=1).state_dict() for _ in range(2)]
    torch.save(dict(zip(("state_dict", "state_dict_ema"), both)), tmp_path / "w.pth.tar")
    with pytest.raises(BadWeights, match="'state_dict_ema"):
        network.build("timm:test_resnet", str(tmp_path / "w.pth.tar"))


@pytest.mark.long
def test_a_file_of_ones_own_may_import_timm(tmp_path: Path) -> None:
    """In a process that has not imported it."""
    own = (Path(__file__).parents[2] / "adapters" / "timm_image.py").read_text()
    own = own.replace("import_timm()", "timm").replace(
        "from torch import", "import timm\nfrom torch import"
    )
    kept = [line for line in own.splitlines() if "torchvision_operators" not in line]
    (tmp_path / "mine.py").write_text("\n".join(kept))
    code = (
        "import sys; from ecgbench import models\n"
        "assert 'timm' not in sys.modules\nprint(models.get(sys.argv[1]).CARD.title)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "mine.py")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
