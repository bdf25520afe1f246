"""Pre-training: killed at random moments, again and again, and gone on with on damaged files. The
encoder and the curves must be those of a pre-training that nothing happened to, bit for bit.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from functools import partial

from ecgbench.core.seeds import rng
from tests.pretrain.test_run import lasting, made, results
from tests.soak.bases import PRETRAINED, SECONDS
from tests.soak.damage import EMPTY, harm
from tests.soak.families.results import kinds
from tests.soak.place import Place
from tests.soak.row import Row

ROUNDS = 20
KILLS = 3
"""Of a round."""
DAMAGES = ("bit flipped in the middle", "cut in half", "empty", "zeros", "bytes appended", *EMPTY)


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """Rounds of kills, and every kind of file of one that was stopped in its second stage."""
    for turn in range(ROUNDS):
        name = f"killed at {KILLS} random moments, round {turn + 1}"
        act = partial(_killed, name)
        yield Row("pre-training", name, "pretrained", act, ("survived", "repaired"), _check)
    place = bases["pretraining"]
    for kind, files in kinds(place.out).items():
        file = files[-1].relative_to(place.folder)
        for how in DAMAGES if files[-1].stat().st_size else EMPTY:
            act = partial(_damaged, how, str(file))
            yield Row("pre-training", f"{kind}: {how}", "pretraining", act, check=_check)


def _killed(name: str, place: Place) -> None:
    place.mark()
    whole = float((place.folder / PRETRAINED / SECONDS).read_text())
    moments = rng("soak", name).uniform(0.02, 0.9, KILLS)
    for moment in moments:
        started = place.start(lambda: made(place.out))
        time.sleep(float(moment) * whole)
        with contextlib.suppress(ProcessLookupError):
            os.kill(started.process, signal.SIGKILL)
        place.ended(started, "a pre-training that is killed")
    place.call("the same pre-training", lambda: made(place.out))


def _damaged(how: str, file: str, place: Place) -> None:
    harm(how, place, place.folder / file)
    place.mark()
    place.call("the same pre-training", lambda: made(place.out))


def _check(place: Place) -> str:
    whole = place.folder / PRETRAINED
    encoders = [folder / "encoder.safetensors" for folder in (place.out, whole)]
    if encoders[0].read_bytes() != encoders[1].read_bytes():
        return "encoder.safetensors differs"
    told = [json.loads((f / "pretraining.json").read_text()) for f in (place.out, whole)]
    if lasting(told[0]) | {"made_with": 0} != lasting(told[1]) | {"made_with": 0}:
        return "pretraining.json differs"
    tables = [file.relative_to(whole) for file in whole.glob("stage*/*.csv")]
    if missing := [str(file) for file in tables if not (place.out / file).exists()]:
        return f"{missing[0]} is missing"
    return "" if results(place.out) == results(whole) else "a curve differs"
