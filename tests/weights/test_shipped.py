"""Weights that come with the package: found in a checkout and in a wheel without a network, proved,
and in float32 at load.
"""

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ecgbench.cards.model import OURS, Weights
from ecgbench.data.contamination import NOT_STATED
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate import network
from ecgbench.models import ROOM, laef
from ecgbench.weights import convert, load, released, shipped
from ecgbench.weights.chosen import ModelWeights
from tests.weights.ear import Ear

ROOT = Path(__file__).parents[2]
URL = "models/laef/laef.safetensors"
BOTH = """
import sys
from ecgbench.cli import main
for words in (["list", "models", "--json"], ["models", "fetch", "laef"]):
    sys.argv = ["ecgbench", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


def stand_in(path: Path) -> Weights:
    """Random weights in float16 in the place of the file, and what a card then says."""
    torch.manual_seed(5)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: t.half() for name, t in laef.build().state_dict().items()}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Weights(name="released", url=URL, file="laef.safetensors", sha256=digest, licence="MIT")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped file of a LAEF whose card names it."""
    path = tmp_path / URL
    monkeypatch.setattr(laef, "CARD", replace(laef.CARD, weights=(stand_in(path),)))
    monkeypatch.setattr(shipped, "ROOTS", (tmp_path / "shipped", tmp_path / "models"))
    return path


def test_the_released_weights_are_the_file_in_float32(file: Path) -> None:
    found = network.build("laef", "released_or_random")
    stored, state = load_file(file), found.module.state_dict()
    assert {t.dtype for t in stored.values()} == {torch.float16}
    assert all(
        t.dtype == torch.float32 and torch.equal(t, stored[name].float())
        for name, t in state.items()
    )
    assert found.weights == "released"
    known = {
        "file": "laef.safetensors",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "licence": "MIT",
        "url": URL,
    }
    assert known.items() <= found.source.items()
    assert network.build("laef", str(file)).sha256 == found.sha256
    assert ModelWeights.of(laef.CARD, file).origin()["name"] == "released"


def test_a_file_that_is_not_the_cards_stops_the_run_and_one_that_is_gone_is_none(
    file: Path,
) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    made = laef.build()
    before = load.digest(made)
    with pytest.raises(
        BadWeights,
        match=r"is not the laef\.safetensors that its card names: its sha256 is [0-9a-f]{64}, not",
    ):
        load.load(made, "released", laef.CARD)
    assert load.digest(made) == before
    with pytest.raises(BadWeights):
        network.build("laef", "released_or_random")
    file.unlink()
    with pytest.raises(
        BadSetting,
        match=r"not in this installation; it comes with ecgbench: install ecgbench again",
    ):
        network.build("laef", "released")
    assert network.build("laef", "released_or_random").weights == "random"


def test_a_wheel_is_not_misled_by_a_folder_called_models_beside_it(
    file: Path, tmp_path: Path
) -> None:
    own = tmp_path / "shipped" / "laef" / file.name
    own.parent.mkdir(parents=True)
    shutil.move(file, own)
    file.write_bytes(b"another project's")
    assert network.build("laef", "released").weights == "released"


def test_there_is_nothing_to_fetch(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(ROOM), "card", lambda room, name: laef.CARD)
    ear = Ear()
    assert convert.fetch("laef", "released", None, True, ear) == file
    assert ear.heard == [
        f"laef, released: shipped with ecgbench, there is nothing to fetch: {file} (licence: MIT)"
    ]
    assert not released.model_folder("laef").exists()
    with pytest.raises(
        BadSetting, match=r"--from x\.pth: the released weights of laef come with ecgbench"
    ):
        convert.fetch("laef", "released", Path("x.pth"), False, ear)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["checkout", "wheel"])
def test_found_where_the_package_lies(kind: str, tmp_path: Path) -> None:
    """A copy of the repository into which a file has been put, as it is and as setuptools would
    pack it.
    """
    copy, lib = tmp_path / "copy", tmp_path / "lib"
    shutil.copytree(
        ROOT / "ecgbench", copy / "ecgbench", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    layout = stand_in(copy / URL)
    with (copy / "ecgbench" / "models" / "laef.py").open("a") as source:
        source.write(
            "\n\nfrom ecgbench.cards.model import Weights\n"
            f"CARD = replace(CARD, weights=({layout!r},))\n"
        )
    if kind == "wheel":
        pytest.importorskip("setuptools", minversion="77")  # as pyproject.toml asks
        words = [
            sys.executable,
            "-c",
            "from setuptools import setup; setup()",
            "-q",
            "build_py",
            "--build-lib",
            str(lib),
        ]
        subprocess.run(words, cwd=copy, check=True, capture_output=True)
        shutil.rmtree(copy)

    place = str(lib if kind == "wheel" else copy)
    env = {**os.environ, "PYTHONPATH": place, "HF_HUB_OFFLINE": "1"}
    line = [sys.executable, "-c", BOTH]
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout.split("\n]\n")[0] + "\n]")}
    assert rows["laef"]["weights"] == "here"
    expected = (
        lib / "ecgbench" / "shipped" / "laef" if kind == "wheel" else copy / "models" / "laef"
    )
    said = done.stdout + done.stderr
    assert f"there is nothing to fetch: {expected / 'laef.safetensors'}" in said


def test_what_is_shipped_is_whole() -> None:
    """Of every card that names a file under models/: the file, how it came about, and on what it
    was trained.
    """
    for name in ROOM.names():
        card = ROOM.card(name)
        for layout in (w for w in card.weights if shipped.is_shipped(w.url)):
            path = ROOT / layout.url
            content = shipped.content(layout)
            assert content == path.read_bytes()
            assert len(content) <= 15_000_000
            page = (path.parent / "README.md").read_text()
            assert layout.sha256 in page
            assert card.corpora, "or the list of models would say that it has met no data"
            tensors = load.digest(ROOM.get(name).build(layout.name))
            if card.origin != OURS:
                assert f"licence | {layout.licence}" in page
                continue
            told = json.loads((path.parent / "pretraining.json").read_text())
            assert told["shipped"]["sha256"] == layout.sha256
            assert told["shipped"]["tensors"] == tensors
            assert told["recipe"]["digest"] in page


def test_the_card_tells_the_scores_that_were_measured() -> None:
    """Each row of `differences.csv` stands in LAEF's card as `tools/laef_scores.py` prints it, and
    the file has every comparison of the card.
    """
    folder = ROOT / "models" / "laef"
    page = (folder / "README.md").read_text()
    rows = list(csv.DictReader((folder / "differences.csv").open()))
    assert {(row["task"], row["leads"]) for row in rows} == {
        (task, leads) for task in ("ptbxl_super", "ptbxl_sub") for leads in ("1", "2", "12")
    }
    for row in rows:
        ours, other, gap, low, high = (
            100 * float(row[k]) for k in ("laef", "score", "difference", "low", "high")
        )
        told = (
            f"| {row['leads']} | {row['other']}, {row['policy']} | {ours:.1f} | {other:.1f} | "
            f"{gap:+.1f} [{low:+.1f}, {high:+.1f}] | {float(row['p']):.2g} | "
            f"{float(row['p_holm']):.2g} |"
        )
        assert told in page, told


@pytest.mark.long
@pytest.mark.parametrize("own", [False, True])
def test_what_a_file_of_ones_own_has_met_is_not_told(
    own: bool, typed: Callable[..., int], tmp_path: Path
) -> None:
    save_file(laef.build().state_dict(), tmp_path / "mine.safetensors")
    weights = f"laef={tmp_path / 'mine.safetensors'}" if own else "laef=released"
    assert typed(tmp_path / "run", "--models", "laef", "--weights", weights, "--limit", "12") == 0
    (network,) = (tmp_path / "run" / "models").glob("*.json")
    assert json.loads(network.read_text())["corpora"] == (
        [NOT_STATED] if own else ["PTB-XL (folds 1-8)"]
    )
