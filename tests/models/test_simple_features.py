"""Simple features measure what they say: rates, irregularity and widths against known beats, each
lead by itself; and nothing in them is learned.
"""

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from ecgbench.core.seeds import rng
from ecgbench.data.source import rows
from ecgbench.datasets import demo
from ecgbench.ecg.preprocess import view
from ecgbench.ecg.synthetic.conditions import heart
from ecgbench.ecg.synthetic.dipole import Breathing, beats
from ecgbench.errors import BadSetting
from ecgbench.models import simple_features as simple

SD, RATE, WIDTH, RMSSD, PNN50 = range(5)


@pytest.fixture
def signal() -> np.ndarray:
    """(12, 2500) mV: a demo recording as its contract prepares it."""
    recording = demo.recording(5)
    return view(recording.signal, recording.fs, simple.CARD.contracts[0].preparation)


def pulses(at: np.ndarray | list[float], half: float = 0.04) -> np.ndarray:
    """(1, 2500) mV: triangles at times `at` in s with feet `half` s away, over 10 s."""
    t = np.arange(2500) / simple.FS
    return np.maximum(0, 1 - np.abs(t[:, None] - np.array(at)).min(axis=1) / half)[None]


@pytest.mark.parametrize("per_minute", [38, 190])
def test_a_regular_pulse_train_has_its_rate_and_no_irregularity(per_minute: float) -> None:
    found = simple.measure(pulses(np.arange(0.37, 10, 60 / per_minute)))[0]
    assert found[RATE] == pytest.approx(per_minute, rel=0.01)
    assert found[RMSSD] == found[PNN50] == 0


@pytest.mark.parametrize(
    "intervals",
    [
        [0.8, 0.84, 0.8, 0.9, 0.9, 0.84, 0.9],
        [0.6, 1.1, 0.72, 0.52, 1.0, 0.68, 1.32, 0.6, 0.88],
        [0.8, 0.8, 0.48, 1.12, 0.8, 0.8, 0.8],
    ],
    ids=["respiration", "fibrillation", "one premature beat"],
)
def test_the_irregularity_of_known_beats_is_that_of_their_intervals(intervals: list[float]) -> None:
    at, squares, above = [0.4], [], 0
    for interval in intervals:
        at.append(at[-1] + interval)
    for before, after in pairwise(intervals):
        squares.append((after - before) ** 2)
        above += abs(after - before) > 0.05
    rmssd, mean = math.sqrt(math.fsum(squares) / len(squares)), sum(intervals) / len(intervals)
    found = simple.measure(pulses(at))[0]
    assert math.exp(found[RMSSD]) == pytest.approx(100 * rmssd / mean, rel=1e-9)
    assert found[PNN50] == pytest.approx(100 * above / len(squares))


def test_two_beats_have_a_rate_and_no_irregularity() -> None:
    found = simple.measure(pulses([3.0, 4.2]))[0]
    assert found[RATE] == pytest.approx(50)
    assert np.isnan(found[RMSSD:]).all()


def test_each_lead_is_measured_by_itself(signal: np.ndarray) -> None:
    """Leads that trade places trade their measurements, and a measured lead moves its own five
    features and no others.
    """
    order = rng("test", "order").permutation(12)
    np.testing.assert_array_equal(simple.measure(signal[order]), simple.measure(signal)[order])
    network, everything = simple.build(), torch.ones(1, 12, dtype=torch.bool)
    other = torch.from_numpy(signal)[None].clone()
    other[0, 4] = other[0, 7]
    moved = (
        network(torch.from_numpy(signal)[None], everything).pooled
        != network(other, everything).pooled
    ).view(12, 5)
    assert moved.any(1).nonzero().flatten().tolist() == [4]


def test_a_lead_that_says_nothing_is_average(signal: np.ndarray) -> None:
    """Absent (NaN), flat at 0 and flat elsewhere: the same zeros, so the policies native and zero
    agree.
    """
    network, x = simple.build(), torch.from_numpy(signal)[None].repeat(3, 1, 1)
    x[0, 5:], x[1, 5:], x[2, 5:] = torch.nan, 0.0, 0.7
    measured = torch.ones(3, 12, dtype=torch.bool)
    measured[0, 5:] = False
    pooled = network(x, measured).pooled
    assert torch.equal(pooled[0], pooled[1])
    assert torch.equal(pooled[0], pooled[2])
    assert bool((pooled[0, :25] != 0).all())
    assert not pooled[0, 25:].any()


def test_demo_rates_are_those_that_were_simulated_and_blocked_hearts_are_wide() -> None:
    """The truth is the simulation's own beats; in a lead at right angles to the heart's axis some
    may be missed.
    """
    near, widths = [], {"LBBB": [], "RBBB": [], "NORM": []}
    for row in rows(demo.index(None)[:60]):
        record, patient = row["record"], row["patient"]
        labels = frozenset(label for label in demo.LABELS if row[f"demo:{label}"])
        generator = rng("demo", "record", record)
        breathing = Breathing(generator.uniform(0.18, 0.36), generator.uniform(0, 2 * np.pi))
        onsets = beats(heart(labels, rng("demo", "patient", patient)), breathing, generator)[0]
        interval = np.median(np.diff(onsets[(onsets > 0) & (onsets < 9.95)]))
        recording = demo.read(None, row)
        found = simple.measure(
            view(recording.signal, recording.fs, simple.CARD.contracts[0].preparation)
        )
        near.append(np.abs(found[:, RATE] * interval / 60 - 1) < 0.05)
        for label in labels & set(widths):
            widths[label].append(np.median(found[:, WIDTH]))
    assert np.mean(near) > 0.97
    assert min(np.median(widths["LBBB"]), np.median(widths["RBBB"])) > 1.3 * np.median(
        widths["NORM"]
    )


@pytest.mark.parametrize("weights", ["random", "released"])
def test_it_runs_without_weights_and_is_not_called_random(
    typed: Callable[..., int], tmp_path: Path, weights: str
) -> None:
    assert (
        typed(
            tmp_path / "run", "--models", "simple_features", "--weights", weights, "--leads", "1,12"
        )
        == 0
    )
    cells = [json.loads(path.read_text()) for path in (tmp_path / "run" / "cells").rglob("*.json")]
    assert cells
    assert {cell["weights_name"] for cell in cells} == {"none"}


def test_weights_from_elsewhere_are_refused(typed: Callable[..., int], tmp_path: Path) -> None:
    assert (
        typed(
            tmp_path / "run",
            "--models",
            "simple_features",
            "--weights",
            "simple_features=some.pth",
            "--leads",
            "12",
        )
        == 2
    )
    with pytest.raises(BadSetting, match="leave them out"):
        simple.build(weights="some.pth")
