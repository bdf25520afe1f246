"""A pre-training that stops when its time is over, and goes on."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from ecgbench import models
from ecgbench.errors import BadSetting
from ecgbench.pretraining import pretrain
from ecgbench.pretraining.stage import Stopped
from tests.pretraining.test_pretrain import NARROW, RECIPE, Follower, data, lasting, made

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.long]
LONGER = RECIPE.changed({"steps": (16, 16), "checkpoint_every": 100, "probe_every": 8})


def stopped(out: Path, steps: int) -> str:
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
        pretrain.run(LONGER, data(), session)
    return str(stop.value)


def losses(out: Path, stage: int) -> list[float]:
    rows = (out / f"stage{stage}" / "curve.csv").read_text().splitlines()[1:]
    return [float(row.split(",")[1]) for row in rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("whole")
    return out, made(out, recipe=LONGER)


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


def test_an_encoder_that_was_not_selected_may_be_gone(
    tmp_path: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    there = tmp_path / "there"
    shutil.copytree(whole[0], there)
    selected = whole[1]["stages"]["stage 2"]["selected"]["step"]
    other = {8: 16, 16: 8}[selected]
    (there / "stage2" / "encoders" / f"{other:06d}.safetensors").unlink()
    told = made(there, recipe=LONGER)
    assert told["stages"]["stage 2"]["selected"]["step"] == selected
    assert [c["step"] for c in told["stages"]["stage 2"]["checkpoints"]] == [8, 16]


def test_one_whose_moments_were_rounded_on_a_journey_is_refused(tmp_path: Path) -> None:
    """Earlier versions carried it from machine to machine; what comes out is not exact."""
    (tmp_path / "stage1").mkdir()
    (tmp_path / "stage1" / "carried.json").write_text("[9]")
    with pytest.raises(BadSetting, match=r"carried\.json.*--carry.*choose another --out"):
        made(tmp_path, recipe=LONGER)
