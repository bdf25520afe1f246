"""A whole pre-training on a few waves: interrupted in every phase, in another folder, with other
data.
"""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ecgbench import models
from ecgbench.core import provenance
from ecgbench.core.files import locked
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate import torchrun
from ecgbench.pretrain import encoders
from ecgbench.pretrain import run as running
from ecgbench.pretrain.encoders import KeptEncoders
from ecgbench.pretrain.objective import MaskedNodes
from ecgbench.pretrain.probes import Probed
from ecgbench.pretrain.recipe import Recipe, get
from ecgbench.pretrain.run import Data, Session, run
from ecgbench.weights.load import digest
from tests.waves import Follower, Stop, data

pytestmark = pytest.mark.usefixtures("one_thread")
NARROW = Path(__file__).parents[1] / "narrow.py"
RECIPE = get("smoke").changed(
    {
        "model": NARROW.stem,
        "steps": (3, 3),
        "batch": 2,
        "checkpoint_every": 2,
        "probe_every": 2,
        "codes": (3,),
        "refined": (4,),
        "elbow": ((2,), ()),
        "windows": 2,
    }
)


def made(
    out: Path,
    at: str = "",
    recipe: Recipe = RECIPE,
    found: Data | None = None,
    name: str = "here",
) -> dict[str, Any]:
    models.resolve(str(NARROW))
    follower = Follower(at)
    session = Session(
        out=out, device="cpu", name=name, progress=follower, listener=follower.listener
    )
    return run(recipe, found or data(), session)


def several(folder: Path) -> None:
    """In one process, or in each of several."""
    several = torchrun.world() > 1
    told = made(folder / ("shared" if several else "alone"), recipe=RECIPE.changed({"micro": 1}))
    (folder / f"rank{torchrun.rank() if several else 'alone'}.json").write_text(json.dumps(told))


def lasting(told: dict[str, Any]) -> Any:
    """What does not depend on the clock."""
    told = json.loads(json.dumps(told))
    del told["phases"]
    for stage in told["stages"].values():
        del stage["probing_seconds"]
        for checkpoint in [stage["selected"], *stage["checkpoints"]]:
            del checkpoint["seconds"]
    return told


def results(out: Path) -> list[Any]:
    """Curves and elbows without the clock."""
    rows = [
        row[:4]
        for stage in (1, 2)
        for row in csv.reader((out / f"stage{stage}" / "curve.csv").open())
    ]
    return [rows, [(out / f"stage{stage}" / "elbow.csv").read_text() for stage in (1, 2)]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("whole")
    return out, made(out)


def test_both_stages_are_told_and_the_encoder_is_the_selected_one(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    out, told = whole
    assert json.loads((out / "pretraining.json").read_text()) == json.loads(json.dumps(told))
    network = models.get(NARROW.stem).build(out / "encoder.safetensors")
    assert digest(network) == told["encoder"] == told["stages"]["stage 2"]["selected"]["encoder"]
    scores = {c["step"]: c["score"] for c in told["stages"]["stage 2"]["checkpoints"]}
    assert list(scores) == [2, 3]
    assert scores[told["stages"]["stage 2"]["selected"]["step"]] >= max(scores.values()) - 0.001
    described = told["stages"]["stage 2"]["description"]
    assert described == {"network": told["stages"]["stage 1"]["selected"]["encoder"], "block": 1}
    assert [p["phase"] for p in told["phases"]][::3] == [
        "stage 1: extraction",
        "stage 2: extraction",
    ]
    assert all(p["seconds"] > 0 and p["records"] > 0 for p in told["phases"])
    assert told["recipe"]["digest"] == RECIPE.digest
    assert told["stages"]["stage 1"]["codebooks"]["3"]["used"] <= 3


PHASES = (
    "stage 1, codebook",
    "stage 1, step 1",
    "checkpoint of step 2",
    "stage 1, step 3",
    "stage 2, codebook",
    "stage 2, step 3",
)


def test_an_interruption_in_every_phase_changes_nothing(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    for at in PHASES:
        with pytest.raises(Stop):
            made(tmp_path, at)
        assert not (tmp_path / "pretraining.json").exists()
    assert lasting(made(tmp_path)) == lasting(whole[1])
    assert results(tmp_path) == results(whole[0])
    ours, theirs = (load_file(p / "encoder.safetensors") for p in (tmp_path, whole[0]))
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[k], theirs[k]) for k in theirs)


def test_a_loss_is_compared_with_the_codes_of_what_is_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoders are compared on one wave alone here, whose codes are fewer than the corpus has."""
    found = data(40)
    check = found.development.check
    alike = replace(check, signal=np.repeat(check.signal[:1, :1], 4, 0).repeat(12, 1))
    found = replace(found, development=replace(found.development, check=alike))
    given: list[tuple[float, Any]] = []
    train = running.train

    def listen(*words: Any) -> Any:
        given.append((words[4].chance, words[3]))
        return train(*words)

    monkeypatch.setattr(running, "train", listen)
    told = made(tmp_path, recipe=RECIPE.changed({"codes": (8,)}), found=found)
    corpus = found.corpus
    every = np.arange(len(corpus))
    signal = torch.from_numpy(corpus.cut(every, np.zeros(len(every), np.int64)))
    met = np.bincount(given[0][1](signal).flatten().numpy(), minlength=8) / (40 * 240)
    (book,) = told["stages"]["stage 1"]["codebooks"].values()
    assert given[0][0] == pytest.approx(-(met * np.log(met)).sum(), abs=0.03)
    assert np.log(book["perplexity"]) < given[0][0] - 0.1


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Probe scores by step, instead of probes; what is within 0.001 of the best is as good."""
    given = {1: 0.5, 2: 0.8, 3: 0.7, 4: 0.8004, 5: 0.8005}
    keep = KeptEncoders.__call__

    def called(self: KeptEncoders, step: int, model: MaskedNodes) -> None:
        found = Probed(score=given[step], probability=np.zeros(0))
        monkeypatch.setattr(encoders, "probed", lambda *_: found)
        own = tuple(0.00064 * (np.arange(1, 6) == step))  # any two differ by 0.001
        monkeypatch.setattr(encoders, "parts", lambda *_: own)
        keep(self, step, model)

    monkeypatch.setattr(KeptEncoders, "__call__", called)
    return given


def test_the_selected_checkpoint_is_where_stage_2_starts_and_what_comes_out(
    tmp_path: Path, scores: dict[int, float]
) -> None:
    told = made(tmp_path, recipe=RECIPE.changed({"steps": (4, 3), "probe_every": 1}))
    first, second = told["stages"].values()
    assert [c["step"] for c in first["checkpoints"]] == [1, 2, 3, 4]
    assert (first["selected"]["step"], second["selected"]["step"]) == (2, 2)
    assert second["description"]["network"] == first["selected"]["encoder"]
    assert (
        digest(models.get(NARROW.stem).build(tmp_path / "encoder.safetensors"))
        == second["selected"]["encoder"]
        == second["checkpoints"][1]["encoder"]
    )


def test_times_are_of_the_devices_that_made_the_steps(tmp_path: Path) -> None:
    for at, name in (("stage 1, step 3", "here"), ("stage 2, step 3", "there")):
        with pytest.raises(Stop):
            made(tmp_path, at, name=name)
    devices = {p["phase"]: p["device"] for p in made(tmp_path, name="elsewhere")["phases"]}
    assert devices["stage 1: clustering"] == "here"
    assert devices["stage 1: training"] == "here + there"
    assert devices["stage 2: training"] == "there + elsewhere"


def test_more_steps_prolong_stage_2_to_what_it_would_have_been(
    tmp_path: Path, scores: dict[int, float]
) -> None:
    made(tmp_path / "a")
    longer = RECIPE.changed({"steps": (3, 5)})
    assert lasting(made(tmp_path / "a", recipe=longer)) == lasting(
        made(tmp_path / "b", recipe=longer)
    )
    assert (
        json.loads((tmp_path / "a" / "recipe.json").read_text())["recipe"]["stages"][1]["steps"]
        == 5
    )
    assert results(tmp_path / "a") == results(tmp_path / "b")
    kept = {p: p.read_bytes() for p in (tmp_path / "a" / "stage2").glob("codebook*")}
    scores[4] = 0.9
    with pytest.raises(BadSetting, match="rests on another checkpoint of stage 1"):
        made(tmp_path / "a", recipe=RECIPE.changed({"steps": (4, 5)}))
    assert {p: p.read_bytes() for p in kept} == kept
    assert (
        json.loads((tmp_path / "a" / "recipe.json").read_text())["recipe"]["stages"][0]["steps"]
        == 3
    )


def test_a_schedule_that_was_given_up_is_not_selected_from(
    tmp_path: Path, scores: dict[int, float]
) -> None:
    scores[2], scores[3] = 0.1, 0.2
    with pytest.raises(Stop):
        made(
            tmp_path,
            "stage 1, step 5",
            recipe=RECIPE.changed({"steps": (6, 3), "checkpoint_every": 6, "probe_every": 2}),
        )
    told = made(tmp_path, recipe=RECIPE.changed({"steps": (3, 3), "probe_every": 2}))
    assert [c["step"] for c in told["stages"]["stage 1"]["checkpoints"]] == [2, 3]


def test_one_pre_training_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BadSetting, match="another pre-training is at work"):
        made(tmp_path)


@pytest.mark.long
def test_two_processes_make_one_pre_training(
    tmp_path: Path, two_processes: Callable[[str], None]
) -> None:
    several(tmp_path)
    two_processes(__file__)
    alone, first, second = (
        json.loads((tmp_path / f"rank{r}.json").read_text()) for r in ("alone", "0", "1")
    )
    assert lasting(first) == lasting(second)
    assert first["stages"]["stage 1"]["codebooks"] == alone["stages"]["stage 1"]["codebooks"]
    losses = [
        [
            float(r[1])
            for r in csv.reader((tmp_path / f / "stage1/curve.csv").open())
            if r[0] != "step"
        ]
        for f in ("alone", "shared")
    ]
    np.testing.assert_allclose(losses[0], losses[1], atol=1e-5)
    assert models.get(NARROW.stem).build(tmp_path / "shared" / "encoder.safetensors")


def test_stage_2_from_new_weights_starts_elsewhere(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    scratch = made(tmp_path, recipe=RECIPE.changed({"init": "scratch"}))
    assert (
        scratch["stages"]["stage 1"]["selected"]["encoder"]
        == whole[1]["stages"]["stage 1"]["selected"]["encoder"]
    )
    assert scratch["encoder"] != whole[1]["encoder"]


def test_a_finished_one_keeps_by_what_it_was_made(
    whole: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, told = whole
    files = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    monkeypatch.setattr(provenance, "here", lambda: {"commit": "another"})
    assert made(out) == told
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == files


def test_a_folder_is_of_one_recipe_and_one_corpus(whole: tuple[Path, dict[str, Any]]) -> None:
    out, _ = whole
    with pytest.raises(BadSetting, match=r"recipe\.refined.*choose another --out"):
        made(out, recipe=RECIPE.changed({"refined": (5,)}))
    with pytest.raises(BadSetting, match=r"recipe\.stages\.1\.lr, recipe\.stages\.2\.lr"):
        made(out, recipe=RECIPE.changed({"lr": 0.5}))
    with pytest.raises(BadSetting, match="corpus"):
        made(out, found=data(6))


def test_a_changed_codebook_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        made(tmp_path, "stage 1, step 1")
    other = tmp_path / "other"
    with pytest.raises(Stop):
        made(other, "stage 1, step 1", recipe=RECIPE.changed({"seed": 5}))
    (tmp_path / "stage1" / "codebook_3.npz").write_bytes(
        (other / "stage1" / "codebook_3.npz").read_bytes()
    )
    with pytest.raises(BadWeights, match="not those that were fitted"):
        made(tmp_path)


LONGER = RECIPE.changed({"steps": (16, 16), "checkpoint_every": 100, "probe_every": 8})


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("longer")
    return out, made(out, recipe=LONGER)


def test_the_selected_encoder_alone_must_be_there(
    tmp_path: Path, longer: tuple[Path, dict[str, Any]]
) -> None:
    there = tmp_path / "there"
    shutil.copytree(longer[0], there)
    selected = longer[1]["stages"]["stage 2"]["selected"]["step"]
    other = {8: 16, 16: 8}[selected]
    (there / "stage2" / "encoders" / f"{other:06d}.safetensors").unlink()
    told = made(there, recipe=LONGER)
    assert told["stages"]["stage 2"]["selected"]["step"] == selected
    assert [c["step"] for c in told["stages"]["stage 2"]["checkpoints"]] == [8, 16]
    (there / "stage2" / "encoders" / f"{selected:06d}.safetensors").unlink()
    with pytest.raises(BadWeights, match=f"{selected:06d}"):
        made(there, recipe=LONGER)
