import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from torch import Tensor, nn

from ecgbench.cards.model import reference_feeding
from ecgbench.core import provenance
from ecgbench.data.prepare import prepare
from ecgbench.data.views import View
from ecgbench.ecg.draw import Count, Fixed, bits
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset, bits_to_mask
from ecgbench.errors import LeakError
from ecgbench.evaluate import features, rows
from ecgbench.evaluate.encode import Encoder, demand_finite
from ecgbench.evaluate.features import FeatureCache
from ecgbench.evaluate.gates import GateError
from ecgbench.evaluate.predict import averaged, probabilities
from ecgbench.layers.features import Features
from ecgbench.policies import zero
from ecgbench.policies.hide import NATIVE, Policy

CONTRACT = reference_feeding(fs=100, seconds=2.5, leads=LEADS)
ZERO = Policy("zero", zero.fill)


class Spy(nn.Module):
    """A linear map of each window that counts the windows it sees and can be told to fail or to
    change.
    """

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.map = nn.Linear(12 * 250, 32)
            self.more = nn.Sequential(nn.GELU(), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.seen, self.fail_after, self.counting = 0, 10**9, False

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        assert measured.shape == signal.shape[:2]
        self.seen += len(signal)
        if self.seen > self.fail_after:
            raise RuntimeError("out of memory")
        if self.counting:
            self.calls += 1
        pooled = self.more(self.map(signal.flatten(1)))
        return Features(pooled.unsqueeze(1), pooled)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def view(ptbxl_copy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> View:
    folder = tmp_path_factory.mktemp("encode")
    ptbxl_copy.make(folder)
    return View(prepare("ptbxl", folder, folder / "prepared"), CONTRACT)


@pytest.fixture
def spy() -> Spy:
    return Spy().eval()


def work(
    settings: list[Count | Fixed], view: View, how: str = "record", records: int = 5
) -> np.ndarray:
    table = [(p, str(view.prepared.index["record"][p]), 4, ALL.bits) for p in range(records)]
    return np.concatenate([rows.measured(s, table, how) for s in settings])  # type: ignore[arg-type]


def encoded(
    network: nn.Module, view: View, wanted: np.ndarray, folder: Path, singly: bool = False
) -> FeatureCache:
    cache = FeatureCache(folder, list(view.prepared.index["record"]))
    cache.compute(Encoder(network, CONTRACT, ZERO, singly), view, wanted, lambda n: None)
    return cache


def test_rows_come_back() -> None:
    every = np.arange(1, 4096)
    for position in (0, 21_798, 2**31):
        p, w, m = rows.decode(rows.encode(position, every, every))
        assert (p == position).all()
        assert (w == every).all()
        assert (m == every).all()
    with pytest.raises(ValueError, match="window 4096"):
        rows.encode(0, np.array([4096]), np.array([1]))


def test_equal_subsets_are_computed_once(view: View, spy: Spy, tmp_path: Path) -> None:
    """Of any number of settings and seeds: as many windows as there are (record, window,
    subset).
    """
    named = [Fixed(ALL), Fixed(LeadSubset.of("II")), Fixed(LeadSubset.of("V2"))]
    settings = [*(Count(1, s) for s in range(20)), Count(12, 0), *named]
    table = [(str(view.prepared.index["record"][p]), w) for p in range(5) for w in range(4)]
    distinct = {(r, w, int(bits(s, r, 4)[w])) for s in settings for r, w in table}
    wanted = work(settings, view)
    assert len(wanted) == 24 * 20
    cache = encoded(spy, view, wanted, tmp_path)
    assert spy.seen == len(distinct) <= 13 * 20
    cache.compute(Encoder(spy, CONTRACT, ZERO), view, wanted, lambda n: None)
    assert spy.seen == len(distinct)
    position, window, mask = rows.decode(wanted)
    for i in range(0, len(wanted), 37):
        whole = view.get(str(view.prepared.index["record"][position[i]]))
        signal = np.where(bits_to_mask(mask[i])[:, None], whole, 0).astype(np.float32)
        cut = torch.from_numpy(signal[None, :, 250 * int(window[i]) :][..., :250])
        with torch.no_grad():
            alone = spy(cut, torch.ones(1, 12).bool()).pooled
        np.testing.assert_allclose(cache.take(wanted[[i]]), alone.numpy(), atol=1e-5)


@pytest.mark.parametrize("how", ["record", "window"])
def test_features_depend_on_nothing_else_that_is_asked(
    how: str, view: View, spy: Spy, tmp_path: Path
) -> None:
    """Bit for bit: one setting of one record, then the rest; and all at once."""
    settings = [*(Count(1, s) for s in range(6)), Count(12, 0)]
    everything, singly = work(settings, view, how, 2), how == "window"
    whole = encoded(spy, view, everything, tmp_path / "whole", singly)
    few = work([Count(1, 3)], view, how, 2)[4:8]
    bit_by_bit = encoded(spy, view, few, tmp_path / "parts", singly)
    for setting in settings:
        own = work([setting], view, how, 2)
        bit_by_bit.compute(Encoder(spy, CONTRACT, ZERO, singly), view, own, lambda n: None)
    assert np.array_equal(whole.take(everything), bit_by_bit.take(everything))


def test_what_was_computed_before_a_failure_is_kept(
    view: View, spy: Spy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "FLUSH_SECONDS", -1.0)  # a block per record
    wanted = work([Count(1, 0), Count(2, 0)], view)
    spy.fail_after = 19
    with pytest.raises(RuntimeError, match="out of memory"):
        encoded(spy, view, wanted, tmp_path)
    blocks = sorted(tmp_path.glob("part-*"))
    assert len(blocks) == 2
    shutil.rmtree(blocks[0])  # someone cleans up: what is left must not be overwritten
    spy.seen, spy.fail_after = 0, 10**9
    told: list[int] = []
    monkeypatch.setattr(provenance, "code", lambda: {"commit": "another"})
    again = FeatureCache(tmp_path, list(view.prepared.index["record"]))
    again.compute(Encoder(spy, CONTRACT, ZERO), view, wanted, told.append)
    assert spy.seen == sum(told) == 40 - 8
    code = FeatureCache(tmp_path, []).code
    assert [one["commit"] == "another" for one in code] == [False, True], "each once"
    once = encoded(spy, view, wanted, tmp_path / "once")
    assert np.array_equal(FeatureCache(tmp_path, []).take(wanted), once.take(wanted))
    stored = np.concatenate([load(p.read_bytes())["rows"] for p in tmp_path.glob("part-*/data")])
    assert len(np.unique(stored)) == len(stored) == 40


def test_a_network_that_changes_while_it_encodes_leaves_nothing_behind(
    view: View, spy: Spy, tmp_path: Path
) -> None:
    """Else the next run would find its features, encode nothing, and see nothing wrong."""
    spy.counting = True
    with pytest.raises(GateError, match="the frozen encoder changed"):
        encoded(spy, view, work([Count(1, 0)], view), tmp_path)
    assert not list(tmp_path.iterdir())


def test_features_that_are_no_numbers_stop_the_run(view: View, spy: Spy, tmp_path: Path) -> None:
    first = view.get(str(view.prepared.index["record"][0]))
    with pytest.raises(LeakError, match="not finite"):
        Encoder(spy, CONTRACT, Policy(NATIVE, None))(first, {1: np.array([0])})
    with torch.no_grad():
        spy.more[-1].bias[0] = float("inf")  # type: ignore[union-attr, index]
    with pytest.raises(LeakError, match="not finite"):
        encoded(spy, view, work([Count(12, 0)], view), tmp_path)
    assert not list(tmp_path.iterdir())


def test_probabilities_are_those_of_a_loop() -> None:
    draw = np.random.default_rng(0)
    counts = [1, 4, 2]
    record_of = np.repeat(range(3), counts)
    x, weight, bias = (draw.normal(size=s).astype(np.float32) for s in ((7, 5), (2, 5), 2))
    x[0] *= 1e4  # a logit that overflows exp
    found = probabilities(x, record_of, weight, bias)
    for record in range(3):
        for label in range(2):
            with np.errstate(over="ignore"):
                each = [
                    1 / (1 + np.exp(-(float(x[w] @ weight[label]) + bias[label])))
                    for w in np.flatnonzero(record_of == record)
                ]
            assert found[record, label] == pytest.approx(sum(each) / len(each), abs=1e-6)
    np.testing.assert_allclose(averaged(x, record_of)[1], x[1:5].mean(0), rtol=1e-6)


class Forgetful(nn.Module):
    """Embeds each lead by itself, then reads all of them whatever was measured."""

    def embed_leads(self, signal: Tensor) -> Tensor:
        return signal.unfold(-1, 50, 50)

    def encode(self, tokens: Tensor, measured: Tensor) -> Features:
        pooled = tokens.mean((1, 2))
        return Features(pooled.unsqueeze(1), pooled)


def test_a_native_network_that_forgets_what_was_measured_stops(view: View) -> None:
    encoder = Encoder(Forgetful(), CONTRACT, Policy(NATIVE, None))
    record = view.get(view.prepared.index["record"].iloc[0])
    assert np.isfinite(encoder(record, {ALL.bits: np.array([0, 1])})[ALL.bits]).all()
    with pytest.raises(LeakError, match="features of lead II are not finite"):
        encoder(record, {LeadSubset.of("II").bits: np.array([0, 1])})
    with pytest.raises(LeakError, match="are not finite: the network gives NaN"):
        demand_finite(np.array([np.nan]), ALL.bits)


def test_a_block_that_is_not_as_it_was_written_is_computed_again(
    view: View, spy: Spy, tmp_path: Path
) -> None:
    wanted = work([Count(1, 0)], view)
    first = encoded(spy, view, wanted, tmp_path).take(wanted)
    (data,) = tmp_path.glob("part-*/data")
    content = bytearray(data.read_bytes())
    content[-5] ^= 4
    data.write_bytes(content)
    spy.seen = 0
    np.testing.assert_array_equal(encoded(spy, view, wanted, tmp_path).take(wanted), first)
    assert spy.seen == len(wanted), "all of it again"
    np.testing.assert_array_equal(FeatureCache(tmp_path, []).take(wanted), first)


def test_a_block_of_other_work_is_not_believed(view: View, spy: Spy, tmp_path: Path) -> None:
    wanted = work([Count(1, 0)], view)
    encoded(spy, view, wanted, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    assert len(FeatureCache(tmp_path / "other", []).missing(wanted)) == len(wanted)
