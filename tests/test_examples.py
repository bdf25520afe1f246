"""The examples keep every promise of a model, median_beat.py finds a beat, and graph_lead.py has
the edges that it describes.
"""

import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from ecgbench import models
from ecgbench.errors import BadSetting

EXAMPLES = sorted((Path(__file__).parents[1] / "adapters").glob("*.py"))
MEDIAN = next(path for path in EXAMPLES if path.stem == "median_beat")
GRAPH = next(path for path in EXAMPLES if path.stem == "graph_lead")


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


def test_the_median_beat_is_the_beat_whatever_its_voltage_and_one_outlier() -> None:
    median = models.get(str(MEDIAN))
    t = np.arange(2500) / median.FS
    train = np.maximum(0, 1 - np.abs(t[:, None] - np.arange(0.37, 10, 0.8)).min(axis=1) / 0.04)
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
