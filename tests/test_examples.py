"""The examples keep every promise of a model, simple_features.py measures what it says,
median_beat.py finds a beat, and graph_lead.py has the edges that it describes.
"""

import json
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from ecgbench import models
from ecgbench.core.seeds import rng
from ecgbench.data.source import rows
from ecgbench.datasets import demo
from ecgbench.ecg.preprocess import view
from ecgbench.ecg.synthetic.conditions import heart
from ecgbench.ecg.synthetic.dipole import Breathing, beats
from ecgbench.errors import BadSetting

EXAMPLES = sorted((Path(__file__).parents[1] / "adapters").glob("*.py"))
MEDIAN = next(path for path in EXAMPLES if path.stem == "median_beat")
GRAPH = next(path for path in EXAMPLES if path.stem == "graph_lead")
SIMPLE = next(path for path in EXAMPLES if path.stem == "simple_features")
SD, RATE, WIDTH = range(3)


@pytest.fixture
def simple() -> ModuleType:
    return models.get(str(SIMPLE))


@pytest.fixture
def signal(simple: ModuleType) -> np.ndarray:
    """(12, 2500) mV: a demo recording as its contract prepares it."""
    recording = demo.recording(5)
    return view(recording.signal, recording.fs, simple.CARD.contracts[0].preparation)


def pulses(per_minute: float, half: float, fs: int) -> np.ndarray:
    """(1, 2500) mV: triangles with feet `half` s away from their peaks, over 10 s."""
    t = np.arange(2500) / fs
    at = np.arange(0.37, 10, 60 / per_minute)
    return np.maximum(0, 1 - np.abs(t[:, None] - at).min(axis=1) / half)[None]


@pytest.mark.long
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_is_found_by_its_name_keeps_every_promise_and_runs_in_a_study(
    path: Path, here: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    (tmp_path / "adapters").symlink_to(path.parent)
    done = here("check", "model", path.stem, cwd=tmp_path)
    if "ecgbench-leads[" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    study = ("run", "--models", path.stem, "--weights", "random", "--tasks", "demo")
    ways = ("--limit", "20", "--engine", "inline")
    done = here(*study, *ways, "--leads", "1,12", "--out", "probe", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if not models.get(str(path)).CARD.groups:
        return
    tuned = ("--protocol", "finetune", "--train-leads", "same", "--set", "training.epochs=1")
    done = here(*study, *ways, *tuned, "--leads", "II,12", "--out", "tuned", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_graph_joins_segments_of_a_lead_and_leads_of_a_segment() -> None:
    """Against a loop over all pairs of nodes; the leads of another window are not joined."""
    pytest.importorskip("torch_geometric")
    graph, record = models.get(str(GRAPH)), [0, 0, 0, 2]
    nodes = list(product(range(4), range(3)))
    found = graph.edges(torch.tensor(record), 3).T.tolist()
    wanted = [
        [i, j]
        for (i, (one, s)), (j, (other, t)) in product(enumerate(nodes), repeat=2)
        if (one == other and abs(s - t) == 1)
        or (one != other and record[one] == record[other] and s == t)
    ]
    assert sorted(found) == sorted(wanted)


def test_the_graph_knows_which_lead_is_which() -> None:
    pytest.importorskip("torch_geometric")
    network = models.get(str(GRAPH)).build().eval()
    signal, measured = torch.randn(2, 12, 500), torch.zeros(2, 12, dtype=torch.bool)
    measured[0, 1], measured[1, 7] = True, True
    signal[0, 1] = signal[1, 7]
    one, other = network(signal, measured).pooled
    assert (one - other).abs().max() > 1e-3


@pytest.mark.parametrize("per_minute", [38, 190])
def test_the_rate_of_a_pulse_train_is_its_rate(simple: ModuleType, per_minute: float) -> None:
    assert simple.measure(pulses(per_minute, 0.04, simple.FS))[0, RATE] == pytest.approx(
        per_minute, rel=0.01
    )


def test_each_lead_is_measured_by_itself(simple: ModuleType, signal: np.ndarray) -> None:
    """Leads that trade places trade their measurements, and a measured lead moves its own three
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
    ).view(12, 3)
    assert moved.any(1).nonzero().flatten().tolist() == [4]


def test_a_lead_that_says_nothing_is_average(simple: ModuleType, signal: np.ndarray) -> None:
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
    assert bool((pooled[0, :15] != 0).all())
    assert not pooled[0, 15:].any()


def test_demo_rates_are_those_that_were_simulated_and_blocked_hearts_are_wide(
    simple: ModuleType,
) -> None:
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
        typed(tmp_path / "run", "--models", str(SIMPLE), "--weights", weights, "--leads", "1,12")
        == 0
    )
    cells = [json.loads(path.read_text()) for path in (tmp_path / "run" / "cells").rglob("*.json")]
    assert cells
    assert {cell["weights_name"] for cell in cells} == {"none"}


def test_weights_from_elsewhere_are_refused(
    simple: ModuleType, typed: Callable[..., int], tmp_path: Path
) -> None:
    assert (
        typed(
            tmp_path / "run",
            "--models",
            str(SIMPLE),
            "--weights",
            "simple_features=some.pth",
            "--leads",
            "12",
        )
        == 2
    )
    with pytest.raises(BadSetting, match="leave them out"):
        simple.build(weights="some.pth")


def test_the_median_beat_is_the_beat_whatever_its_voltage_and_one_outlier() -> None:
    median = models.get(str(MEDIAN))
    train = pulses(75, 0.04, median.FS)[0]
    usual = median.shape(train)
    middle = int(np.argmax(usual))
    # numbers of 16 ms, the QRS in the middle of its window's first part
    assert abs(middle - median.BEFORE // median.STEP) <= 2
    assert usual.max() == pytest.approx(np.abs(usual).max())
    np.testing.assert_allclose(median.shape(7 * train), usual, atol=1e-12)
    np.testing.assert_allclose(median.shape(-train), -usual, atol=1e-12)
    odd = train.copy()
    odd[1000:1100] *= -2
    np.testing.assert_allclose(median.shape(odd), usual, atol=0.05)
    assert not median.shape(np.zeros(2500)).any()
    with pytest.raises(BadSetting, match="leave them out"):
        median.build(weights="some.pth")
