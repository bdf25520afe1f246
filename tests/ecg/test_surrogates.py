"""What surrogates take away, and what they must leave."""

import numpy as np
import pytest

from ecgbench.datasets import demo
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.surrogates import without_names, without_shapes


@pytest.fixture
def signal() -> np.ndarray:
    return demo.recording(3).signal


def test_phases_turn_and_spectra_stay(signal: np.ndarray) -> None:
    changed = without_shapes("r", signal)
    before, after = (np.fft.rfft(x.astype(np.float64), axis=1) for x in (signal, changed))
    assert np.abs(after) == pytest.approx(np.abs(before), abs=1e-3 * np.abs(before).max())
    # how any two leads go together at each frequency, which scipy's coherence is made of
    assert after[0] * after[7].conj() == pytest.approx(
        before[0] * before[7].conj(), abs=1e-3 * np.abs(before).max() ** 2
    )
    likeness = [abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(signal, changed)]
    assert max(likeness) < 0.5


@pytest.mark.parametrize("samples", [4999, 5000])
def test_limb_leads_stay_one_plane_and_the_record_names_the_phases(
    signal: np.ndarray, samples: int
) -> None:
    changed = without_shapes("r", signal[:, :samples])
    one, two, three = (changed[LEADS.index(n)] for n in ("I", "II", "III"))
    assert two - one == pytest.approx(three, abs=2e-3)
    assert np.array_equal(changed, without_shapes("r", signal[:, :samples]))
    assert not np.array_equal(changed, without_shapes("s", signal[:, :samples]))


def test_leads_that_a_record_does_not_have_stay_away(signal: np.ndarray) -> None:
    part = signal.copy()
    part[[2, 5]] = np.nan
    for change in (without_shapes, without_names):
        changed = change("r", part)
        assert np.isnan(changed[[2, 5]]).all()
        assert np.isfinite(np.delete(changed, [2, 5], axis=0)).all()


def test_every_lead_stands_under_another_name(signal: np.ndarray) -> None:
    for record in map(str, range(50)):
        changed = without_names(record, signal)
        where = [
            next(i for i, own in enumerate(signal) if np.array_equal(own, row)) for row in changed
        ]
        assert sorted(where) == list(range(12))
        assert all(i != at for at, i in enumerate(where))
    alone = np.full_like(signal, np.nan)
    alone[4] = signal[4]
    assert np.array_equal(without_names("r", alone), alone, equal_nan=True)
