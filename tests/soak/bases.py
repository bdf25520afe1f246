"""The studies that rows start from."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from safetensors.torch import save_file

from ecgbench import models
from tests.faults import Faults, failing
from tests.imported.test_own_study import clinic, watch
from tests.pretrain.test_run import Stop, made
from tests.soak.place import LINEAR, OWN, STUDY, TINY, TUNED, Place, removed

PRETRAINED, SECONDS = "whole", "seconds"
"""Folder of a pre-training that nothing happened to, and a file there that says how long it took.
"""
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Base:
    """How a study is made, in the order of MADE."""

    make: Callable[[Place], None]
    """In an empty folder, or in a copy of the study called `of`."""
    of: str = ""
    comes_to: str = ""
    """The base whose tables it must come to; "": its own."""
    settings: tuple[object, ...] = LINEAR


def _study(place: Place) -> None:
    """Tiny, and a narrower one."""
    twin = place.folder / "twin.py"
    text = TINY.read_text().replace("NARROW, WIDE = 24, 48", "NARROW, WIDE = 12, 24")
    twin.write_text(text.replace("8_616", "2_868"))
    place.models = (TINY, twin)
    _ended(place)


def _ended(place: Place) -> None:
    """A finished run and its report."""
    for command in (place.run, place.report):
        said = command()
        assert said.code == 0, f"exit code {said.code}: {said.text[-2000:]}"


def _own(place: Place) -> None:
    """Recordings of a watch and of a clinic, their labels, and a run of them."""
    (place.folder / "records" / "clinic").mkdir(parents=True)
    rows = ["record,patient,fast"]
    for i in range(20):
        name = f"{'c' if i % 4 == 3 else 'w'}{i:02}"
        if name[0] == "w":
            watch(place.folder / "records" / f"{name}.csv", i, seconds=10)
        else:
            clinic(place.folder / "records" / "clinic", name, i)
        rows.append(f"{name},P{i},{i // 2 % 2}")
    (place.folder / "labels.csv").write_text("\n".join(rows) + "\n")
    _ended(place)


def _weighed(place: Place) -> None:
    """Weights in a file."""
    save_file(models.get(models.resolve(str(TINY))).build().state_dict(), WEIGHTS)
    _ended(place)


def _pretrained(place: Place) -> None:
    """A pre-training that nothing happened to, and how long it took."""
    began = time.monotonic()
    made(place.folder / PRETRAINED)
    seconds = time.monotonic() - began
    (place.folder / PRETRAINED / SECONDS).write_text(str(seconds))


def _pretraining(place: Place) -> None:
    with suppress(Stop):
        made(place.out, "stage 2, step 3")


def _without_run(place: Place) -> None:
    """What a run on this copy comes to: the copy knows that its test records were scored before."""
    kept = place.folder / "kept"
    shutil.rmtree(place.out)
    shutil.copytree(place.prepared, kept)
    _ended(place)
    removed([place.out, place.prepared])
    kept.rename(place.prepared)


def _without_fits(place: Place) -> None:
    settings = [p for p in (place.out / "features").glob("*/*/*") if p.name != "windows"]
    removed([*(place.out / n for n in ("cells", "fits")), *settings])


def _without_cells(place: Place) -> None:
    removed([place.out / "cells"])


def _stopped(place: Place) -> None:
    """After the last checkpoint of the fit."""
    shutil.rmtree(place.out)
    with failing(Faults(place.out)) as counted:
        assert place.run().code == 0
    steps = enumerate(counted.steps, 1)
    last = max(i for i, step in steps if step.startswith("replace checkpoints/"))
    shutil.rmtree(place.out)
    with failing(Faults(place.out, last + 2, "interrupt")):
        assert place.run().code == 130
    assert list(place.out.glob("checkpoints/*/*"))


MADE = {
    "study": Base(_study, settings=STUDY),
    "small": Base(_ended),
    "tuned": Base(_ended, settings=TUNED),
    "own": Base(_own, settings=OWN),
    "weighed": Base(_weighed, settings=(*LINEAR, "--weights", f"tiny={WEIGHTS}")),
    "pretrained": Base(_pretrained),
    "bare": Base(lambda place: None, comes_to="small"),
    "nothing": Base(_without_run, of="small"),
    "features": Base(_without_fits, of="small", comes_to="small"),
    "fits": Base(_without_cells, of="small", comes_to="small"),
    "pretraining": Base(_pretraining, of="pretrained"),
    "stopped": Base(_stopped, of="tuned", comes_to="tuned", settings=TUNED),
}
"""study: two models, a policy that learns, finished. small: one model, finished; nothing: only its
prepared copy; bare: not even that; features, fits: it was stopped when those were there. tuned: a
fine-tuning; stopped: after a checkpoint.
own: recordings and labels of a person's own. weighed: weights in a file. pretrained: what a
pre-training came to; pretraining: it was stopped in its second stage.
"""
