"""A pre-training that stops when its time is over, and one that goes on from another machine."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.torch import load_file

from ecgbench import models
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.models import laef
from ecgbench.pretraining import carry, checkpoint, pretrain
from ecgbench.pretraining.curve import Point
from ecgbench.pretraining.moments import as_codes, as_moments
from ecgbench.pretraining.objective import MaskedNodes
from ecgbench.pretraining.recipe import Recipe
from ecgbench.pretraining.stage import Stopped
from tests.pretraining.test_pretrain import NARROW, RECIPE, Follower, data, lasting, made

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.long]
LONGER = RECIPE.changed({"steps": (16, 16), "checkpoint_every": 100, "probe_every": 8})


def stopped(out: Path, steps: int, recipe: Recipe = LONGER) -> str:
    """Go on for so many steps, over both stages; where it stopped."""
    models.resolve(str(NARROW))
    asked = 0

    def over() -> bool:
        nonlocal asked
        asked += 1
        return asked > steps

    follower = Follower()
    session = pretrain.Session(
        out=out,
        device="cpu",
        name="here",
        progress=follower,
        listener=follower.listener,
        over=over,
    )
    with pytest.raises(Stopped) as stop:
        pretrain.run(recipe, data(), session)
    return str(stop.value)


def losses(out: Path, stage: int) -> list[float]:
    rows = (out / f"stage{stage}" / "curve.csv").read_text().splitlines()[1:]
    return [float(row.split(",")[1]) for row in rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("whole")
    return out, made(out, recipe=LONGER)


def identity() -> dict[str, Any]:
    return pretrain.facts(LONGER, data())


def test_stopped_in_slices_it_ends_as_without_a_stop(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    # `over` is asked behind each step but the last, and behind a codebook; each call makes a step
    places = [stopped(tmp_path, n) for n in (7, 1, 0, 20)]
    assert places == [
        "stage 1, step 7 of 16",
        "stage 1, step 9 of 16",
        "stage 1, step 10 of 16",
        "stage 2, step 15 of 16",
    ]
    assert lasting(made(tmp_path, recipe=LONGER)) == lasting(whole[1])
    assert losses(tmp_path, 2) == losses(whole[0], 2)


@pytest.mark.parametrize(("steps", "stage", "step"), [(9, 1, 9), (22, 2, 6)])
def test_carried_to_another_folder_the_loss_goes_on(
    steps: int,
    stage: int,
    step: int,
    tmp_path: Path,
    whole: tuple[Path, dict[str, Any]],
) -> None:
    there, here, bag = tmp_path / "there", tmp_path / "here", tmp_path / "bag"
    stopped(there, steps)
    carry.pack(LONGER, there, bag)
    assert carry.unpack(bag, here, identity()) == (stage, step) == carry.standing(there)
    before, after = (
        load_file(p / f"stage{stage}" / "checkpoint.safetensors") for p in (there, here)
    )
    assert before.keys() == after.keys()
    moved = [k for k in before if not torch.equal(before[k], after[k])]
    assert {k.partition("/")[0] for k in moved} == {"exp_avg", "exp_avg_sq"}

    told = made(here, recipe=LONGER)
    assert told["stages"][f"stage {stage}"]["carried"] == [step]
    assert told["recipe"] == whole[1]["recipe"]
    ours, theirs = (np.array(losses(p, stage)) for p in (here, whole[0]))
    assert ours[:step].tolist() == theirs[:step].tolist()
    gone = np.abs(ours[step:] - theirs[step:]).max()
    fall = theirs[0] - theirs[-3:].mean()
    assert 0 < gone < 0.05 * fall, (gone, fall)
    # a second journey finds nothing new
    assert carry.unpack(bag, here, identity()) is None


def test_a_finished_one_is_finished_elsewhere(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    carry.pack(LONGER, whole[0], tmp_path / "bag")
    here = tmp_path / "here"
    carry.unpack(tmp_path / "bag", here, identity())
    told = made(here, recipe=LONGER)
    for stage in told["stages"].values():
        stage.pop("carried", None)
    assert lasting(told) == lasting(whole[1])
    ours, theirs = (load_file(p / "encoder.safetensors") for p in (here, whole[0]))
    assert all(torch.equal(ours[k], theirs[k]) for k in theirs)
    with pytest.raises(BadSetting, match="cannot be prolonged to 20 steps"):
        made(here, recipe=LONGER.changed({"steps": (20, 16)}))


def test_no_file_is_larger_than_a_loan_lets_through(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry, "PART", 50_000)
    bag = tmp_path / "bag"
    written = carry.pack(LONGER, whole[0], bag)
    assert sorted(p.name for p in bag.iterdir()) == sorted(p.name for p in written)
    assert all(p.stat().st_size <= 50_000 for p in written)
    assert len(written) > 6
    monkeypatch.setattr(carry, "PART", 10**9)
    assert len(carry.pack(LONGER, whole[0], bag)) == 4 == len(list(bag.iterdir()))


def spoilt(bag: Path) -> dict[str, Callable[[], object]]:
    (state,), manifest = bag.glob("state-*.00"), bag / "carry.json"
    content = state.read_bytes()

    def foreign(name: str) -> None:
        with zipfile.ZipFile(state, "a") as archive:
            archive.writestr(name, b"x")
        told = json.loads(manifest.read_text())
        told["parts"]["state"][state.name] = carry.hashlib.sha256(state.read_bytes()).hexdigest()
        manifest.write_text(json.dumps(told))

    return {
        "has changed since it was written": lambda: state.write_bytes(content[:-9] + b"123456789"),
        "is missing": state.unlink,
        "'../evil', which is no part of a pre-training": lambda: foreign("../evil"),
        "cannot be read": lambda: manifest.write_text("{"),
        "another version": lambda: manifest.write_text('{"format": 99}'),
    }


@pytest.mark.parametrize("number", range(5))
def test_what_was_spoilt_on_the_way_is_told_and_nothing_is_written(
    number: int, tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    bag, here = tmp_path / "bag", tmp_path / "deep" / "here"
    carry.pack(LONGER, whole[0], bag)
    reason, spoil = list(spoilt(bag).items())[number]
    spoil()
    with pytest.raises((BadWeights, BadSetting), match=reason):
        carry.unpack(bag, here, identity())
    assert not here.exists()
    assert not (tmp_path / "deep").exists() or not list((tmp_path / "deep").iterdir())


def test_another_recipe_is_refused_before_anything_is_written(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    bag = tmp_path / "bag"
    carry.pack(LONGER, whole[0], bag)
    other = pretrain.facts(LONGER.changed({"lr": 0.5}), data())
    with pytest.raises(BadSetting, match=r"stages\.1\.lr"):
        carry.unpack(bag, tmp_path / "here", other)
    assert not (tmp_path / "here").exists()
    with pytest.raises(BadSetting, match="nothing can be carried"):
        carry.pack(LONGER, tmp_path / "empty", bag)
    assert carry.unpack(tmp_path / "none", tmp_path / "here", identity()) is None


def test_a_bag_is_not_replaced_by_less_nor_by_another(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    bag, behind = tmp_path / "bag", tmp_path / "behind"
    carry.pack(LONGER, whole[0], bag)
    before = {p.name: p.read_bytes() for p in bag.iterdir()}
    stopped(behind, 3)
    with pytest.raises(BadSetting, match=r"further than .*step 3"):
        carry.pack(LONGER, behind, bag)
    other = LONGER.changed({"lr": 0.5})
    stopped(tmp_path / "other", 3, other)
    with pytest.raises(BadSetting, match=r"stages\.1\.lr"):
        carry.pack(other, tmp_path / "other", bag)
    # where --out is further, a bag of another pre-training is told all the same
    carry.pack(other, tmp_path / "other", tmp_path / "small")
    with pytest.raises(BadSetting, match=r"stages\.1\.lr"):
        carry.unpack(tmp_path / "small", whole[0], identity())
    assert {p.name: p.read_bytes() for p in bag.iterdir()} == before


def test_a_codebook_travels_before_the_first_step(tmp_path: Path) -> None:
    assert stopped(tmp_path / "there", 0) == "stage 1, before its next step"
    carry.pack(LONGER, tmp_path / "there", tmp_path / "bag")
    assert carry.unpack(tmp_path / "bag", tmp_path / "here", identity()) == (1, 0)
    books = [
        (tmp_path / name / "stage1" / "codebook_3.npz").read_bytes() for name in ("here", "there")
    ]
    assert books[0] == books[1]
    assert stopped(tmp_path / "here", 0) == "stage 1, step 1 of 16"


@pytest.mark.parametrize(
    ("key", "value"),
    [("step", 10**9), ("step", -1), ("step", "7"), ("stage", 3), ("parts", []), ("identity", None)],
)
def test_a_forged_manifest_is_one_line(
    key: str, value: object, tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    bag, here = tmp_path / "bag", tmp_path / "here"
    carry.pack(LONGER, whole[0], bag)
    manifest = bag / "carry.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), key: value}))
    with pytest.raises(BadWeights, match=r"not as it was written|does not hold the state"):
        carry.unpack(bag, here, identity())
    assert not here.exists()


def test_weights_that_are_here_are_not_replaced_by_a_curve(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    """Stage 1 at home has weights; the bag has its curve alone, and a longer stage 2."""
    home = tmp_path / "home"
    stopped(home, 17)
    shutil.rmtree(home / "stage2")
    before = (home / "stage1" / "checkpoint.safetensors").read_bytes()
    carry.pack(LONGER, whole[0], tmp_path / "bag")
    assert carry.unpack(tmp_path / "bag", home, identity()) == (2, 16)
    assert (home / "stage1" / "checkpoint.safetensors").read_bytes() == before


def test_an_encoder_that_stayed_behind_is_not_selected(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    """And is kept again when its step comes again."""
    there = tmp_path / "there"
    shutil.copytree(whole[0], there)
    selected = whole[1]["stages"]["stage 2"]["selected"]["step"]
    other = {8: 16, 16: 8}[selected]
    (there / "stage2" / "encoders" / f"{other:06d}.safetensors").unlink()
    told = made(there, recipe=LONGER)
    assert told["stages"]["stage 2"]["selected"]["step"] == selected
    assert [c["step"] for c in told["stages"]["stage 2"]["checkpoints"]] == [8, 16]


@pytest.mark.parametrize("codes", [50, 500])
def test_the_state_of_laef_takes_40_megabytes_at_most(codes: int, tmp_path: Path) -> None:
    """With weights and moments whose bits are random where they may be."""
    torch.manual_seed(0)
    model = MaskedNodes(laef.build(), [codes])
    optimiser = torch.optim.Adam(model.parameters())
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimiser.step()
    path = tmp_path / "out" / "stage1" / "checkpoint.safetensors"
    path.parent.mkdir(parents=True)
    (tmp_path / "out" / "recipe.json").write_text("{}")
    checkpoint.write(path, {}, [Point(1, 1.0, (0.5,), 9, 1.0, 0.1)], model, optimiser)
    written = carry.pack(LONGER, tmp_path / "out", tmp_path / "bag")
    sizes = [p.stat().st_size for p in written]
    assert max(sizes) <= 15_000_000
    assert sum(sizes) <= 40_000_000


@given(arrays(np.float32, st.integers(1, 700), elements=st.floats(-1, 1, width=32)))
def test_a_mean_is_kept_to_a_share_of_the_largest_of_its_block(values: np.ndarray) -> None:
    again = as_moments(as_codes(values, "exp_avg"), "exp_avg", len(values))
    for start in range(0, len(values), 256):
        block, kept = values[start : start + 256], again[start : start + 256]
        assert np.abs(block - kept).max() <= np.abs(block).max() / 253 + 1e-44


@given(arrays(np.float32, st.integers(1, 700), elements=st.floats(0, 1, width=32)))
def test_a_mean_square_is_kept_to_a_share_of_itself_and_none_becomes_zero(
    values: np.ndarray,
) -> None:
    normal = np.where(values < 2.0**-120, 0, values).astype(np.float32)
    again = as_moments(as_codes(normal, "exp_avg_sq"), "exp_avg_sq", len(normal))
    there = normal > 0
    assert np.array_equal(again > 0, there)
    apart = np.abs(np.log2(again[there] / normal[there]))
    assert not len(apart) or apart.max() <= 120 / 254 / 2 + 1e-3
