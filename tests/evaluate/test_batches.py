"""Batches of many records, as a GPU computes them, on the CPU: the same features, and no number
that depends on what else is asked.
"""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ecgbench.data.prepare import prepare
from ecgbench.data.views import View
from ecgbench.ecg.draw import Count, Fixed
from ecgbench.ecg.leads import ALL, LeadSubset
from ecgbench.errors import LeakError
from ecgbench.evaluate import batches, rows
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.features import FeatureCache
from ecgbench.layers.features import Features
from ecgbench.models import laef
from ecgbench.policies import zero
from ecgbench.policies.hide import NATIVE, Policy
from ecgbench.results.study import read
from ecgbench.study.store import cells_of, noted
from tests.narrow import CONFIG

pytestmark = pytest.mark.usefixtures("one_thread")
CONTRACT = laef.CARD.contract("paper")
SETTINGS = [*(Count(1, s) for s in range(3)), Count(2, 0), Fixed(ALL), Fixed(LeadSubset.of("V2"))]


class Whole(nn.Module):
    """LAEF with 64 features by its forward pass alone, as on a device."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(4)
            self.network = laef.Laef(CONFIG).eval()

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        found: Features = self.network(signal, measured)
        return found


class Mixing(Whole):
    """One window's features contain the mean of the others'."""

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        found = super().forward(signal, measured)
        return found._replace(pooled=found.pooled + 1e-3 * found.pooled.mean(0))


class Peeking(Whole):
    """It reads leads that were not measured."""

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        found = super().forward(signal, measured)
        return found._replace(pooled=found.pooled + signal.mean((1, 2))[:, None])


@pytest.fixture(scope="module")
def view(ptbxl_copy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> View:
    folder = tmp_path_factory.mktemp("places")
    ptbxl_copy.make(folder)
    return View(prepare("ptbxl", folder, folder / "prepared"), CONTRACT)


@pytest.fixture(autouse=True)
def _few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "SLOTS", 16)


def cache(view: View, folder: Path) -> FeatureCache:
    return FeatureCache(folder, list(view.prepared.index["record"]))


def wanted(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Rows of work of SETTINGS, and the places of their records."""
    names = [str(r) for r in view.prepared.index["record"]]
    records = [(p, r, CONTRACT.windows(view.length(r)), ALL.bits) for p, r in enumerate(names)]
    every = [rows.measured(s, records, "record") for s in SETTINGS]  # type: ignore[arg-type]
    return np.unique(np.concatenate(every)), batches.first_slots([w for _, _, w, _ in records])


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.lists(st.integers(0, 10**6), max_size=200),
)
def test_every_row_is_in_one_batch_at_its_place(windows: list[int], drawn: list[int]) -> None:
    slots, random = batches.first_slots(windows), np.random.default_rng(len(drawn))
    position = np.array([n % len(windows) for n in drawn], np.int64)
    window = np.array([n % windows[p] for n, p in zip(drawn, position)], np.int64)
    asked = np.unique((position << 24) | (window << 12) | random.integers(1, 4096, len(drawn)))
    position, window, masks = rows.decode(asked)
    leads = np.bitwise_count(masks).astype(int)
    parts = batches.batches(asked, slots, leads)
    assert sorted(np.concatenate([asked[:0], *parts]).tolist()) == asked.tolist()
    counts = dict(zip(asked.tolist(), leads.tolist()))
    for part in parts:
        position, window, _ = rows.decode(part)
        assert len(set(((slots[position] + window) % batches.SLOTS).tolist())) == len(part)
        assert len({counts[row] for row in part.tolist()}) == 1


@pytest.mark.parametrize("name", [NATIVE, pytest.param("zero", marks=pytest.mark.long)])
def test_features_are_those_of_each_record_by_itself(name: str, view: View, tmp_path: Path) -> None:
    policy = Policy(NATIVE, None) if name == NATIVE else Policy("zero", zero.fill)
    encoder, (every, slots) = Encoder(Whole(), CONTRACT, policy), wanted(view)
    apart, together = cache(view, tmp_path / "a"), cache(view, tmp_path / "b")
    done: list[int] = []
    apart.compute(encoder, view, every, lambda n: None)
    together.compute(encoder, view, every, done.append, slots)
    assert sum(done) == len(every)
    np.testing.assert_allclose(together.take(every), apart.take(every), atol=2e-5)


@pytest.mark.long
def test_no_bit_depends_on_what_else_is_asked_or_was_there(view: View, tmp_path: Path) -> None:
    encoder, (every, slots) = Encoder(Whole(), CONTRACT, Policy(NATIVE, None)), wanted(view)
    whole, parts = cache(view, tmp_path / "whole"), cache(view, tmp_path / "parts")
    whole.compute(encoder, view, every, lambda n: None, slots)
    order = np.random.default_rng(0).permutation(every)
    for part in np.array_split(order, 7):
        parts.compute(encoder, view, part, lambda n: None, slots)
    assert np.array_equal(parts.take(every), whole.take(every))


def test_a_network_that_mixes_windows_is_found() -> None:
    def looked(network: nn.Module) -> bool:
        return batches.steady(Encoder(network.eval(), CONTRACT, Policy(NATIVE, None)))

    assert looked(Whole())
    assert not looked(Mixing())


def test_a_hidden_lead_is_nan_here_too(view: View, tmp_path: Path) -> None:
    encoder = Encoder(Peeking(), CONTRACT, Policy(NATIVE, None))
    every, slots = wanted(view)
    with pytest.raises(LeakError, match="not finite: a hidden lead was read"):
        cache(view, tmp_path).compute(encoder, view, every, lambda n: None, slots)


@pytest.mark.parametrize("protocol", ["probe", pytest.param("finetune", marks=pytest.mark.long)])
def test_a_run_in_batches_gives_the_scores_of_a_run_record_by_record(
    protocol: str,
    typed: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how = ["--protocol", protocol, "--leads", "1,12", "--seeds", "1"]
    how += ["--set", "training.epochs=2"] if protocol == "finetune" else []
    assert typed(tmp_path / "apart", *how) == 0
    monkeypatch.setattr(batches, "serves", lambda device: True)
    assert typed(tmp_path / "together", *how) == 0
    apart, together = (read(tmp_path / name).cells for name in ("apart", "together"))
    assert set(apart["status"]) == set(together["status"]) == {"ok"}
    np.testing.assert_allclose(together["value"], apart["value"], atol=1e-4)
    keys = [{noted(f)["key"] for f in cells_of(tmp_path / name)} for name in ("apart", "together")]
    assert not keys[0] & keys[1]
