"""The demo's promises: counts, splits, exact limb leads, and each condition where a reader of ECGs
would look for it.

The signatures are measured on the signal alone (own beat detector, median beat), never on the
generator's parameters.
"""

import numpy as np
import pytest

from ecgbench.data.source import rows
from ecgbench.datasets import demo
from ecgbench.ecg.leads import LEADS, LIMB_FROM_I_II
from ecgbench.ecg.synthetic.dipole import FIELD, FROM_ELECTRODES
from ecgbench.errors import BadRecord

FS = 500
BEFORE, AFTER = 180, 230  # samples of a median beat around the centre of QRS
INDEX = demo.index(None)


@pytest.fixture(scope="module")
def signals() -> np.ndarray:
    return np.stack([demo.read(None, row).signal for row in rows(INDEX)])


@pytest.fixture(scope="module")
def measured(signals: np.ndarray) -> dict[str, np.ndarray]:
    """Per record: rr_spread (median |change| of log RR), beat (12, BEFORE + AFTER) mV from the
    level before QRS, n beats.
    """
    centres = [_centres(x) for x in signals]
    beats = np.stack([_median_beat(x, c) for x, c in zip(signals, centres)])
    jumps = [np.diff(np.log(np.diff(c))) for c in centres]
    return {
        "rr_spread": np.array([np.median(np.abs(j)) for j in jumps]),
        "beat": beats,
        "n": np.array([len(c) for c in centres]),
    }


def _centres(signal: np.ndarray) -> np.ndarray:
    """Centres of QRS (samples): peaks of the slope energy of all leads, smoothed over a wide QRS,
    at least 280 ms apart.
    """
    slope = np.diff(
        np.apply_along_axis(
            np.convolve, 1, signal[[0, 1, 6, 7, 8, 9, 10, 11]], np.ones(8) / 8, "same"
        ),
        axis=1,
    )
    energy = np.convolve((slope**2).sum(axis=0), np.hanning(91), "same")
    energy[:60] = energy[-60:] = 0  # the filters' ends
    found: list[int] = []
    threshold, free = 0.35 * np.percentile(energy, 98), energy.copy()
    while (peak := int(free.argmax())) and free[peak] > threshold:
        found.append(peak)
        free[max(0, peak - 140) : peak + 140] = 0
    return np.sort(found)


def _median_beat(signal: np.ndarray, centres: np.ndarray) -> np.ndarray:
    whole = [c for c in centres if c >= BEFORE and c + AFTER <= signal.shape[1]]
    beats = np.stack([signal[:, c - BEFORE : c + AFTER] for c in whole])
    beats = beats - np.median(beats[:, :, BEFORE - 50 : BEFORE - 40], axis=2, keepdims=True)
    return np.asarray(np.median(beats, axis=0))


def _has(label: str) -> np.ndarray:
    return INDEX[f"demo:{label}"].to_numpy(bool)


def _only(label: str) -> np.ndarray:
    return _has(label) & (INDEX[demo.CARD.task("demo").columns].sum(axis=1) == 1).to_numpy()


def _lead(beat: np.ndarray, name: str, start: int = -60, stop: int = 80) -> np.ndarray:
    """(record, time) of one lead between `start` and `stop` ms around the centre of QRS."""
    return beat[:, LEADS.index(name), BEFORE + start * FS // 1000 : BEFORE + stop * FS // 1000]


def _auroc(value: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> float:
    a, b = value[positive][:, None], value[negative][None]
    return float((a > b).mean() + 0.5 * (a == b).mean())


def _qrs_ms(beat: np.ndarray) -> np.ndarray:
    """Duration (ms) between the first and last time that the leads' summed slope (10 ms means)
    exceeds 15 % of its maximum.
    """
    smooth = np.apply_along_axis(
        np.convolve, 2, beat[:, :, BEFORE - 70 : BEFORE + 80], np.ones(5) / 5, "valid"
    )
    slope = np.abs(np.diff(smooth, axis=2)).sum(axis=1)
    return np.array([np.ptp(np.flatnonzero(row > 0.15 * row.max())) * 1000 / FS for row in slope])


def test_counts_columns_and_identity() -> None:
    assert INDEX.columns.tolist() == ["record", "patient", "split", *demo.CARD.task("demo").columns]
    assert INDEX["split"].value_counts().to_dict() == {"train": 120, "val": 20, "test": 40}
    assert INDEX["record"].is_unique
    assert len(INDEX) == demo.CARD.records
    assert INDEX["patient"].nunique() == demo.CARD.patients
    assert 125 <= demo.CARD.patients <= 135
    assert set(INDEX.dtypes.iloc[3:]) == {np.dtype(np.int8)}
    assert demo.CARD.synthetic


def test_every_label_has_both_values_in_every_split() -> None:
    labels = INDEX[demo.CARD.task("demo").columns]
    assert (labels.groupby(INDEX["split"]).sum() >= 2).all(axis=None)
    assert (labels[INDEX["split"] == "test"].sum() >= 5).all()
    assert ((1 - labels).groupby(INDEX["split"]).sum() >= 10).all(axis=None)
    assert (labels.sum(axis=1) >= 1).all()
    assert (labels[_has("NORM")].sum(axis=1) == 1).all()
    assert not (_has("LBBB") & _has("RBBB")).any()
    assert (labels.sum(axis=1) == 2).sum() >= 20


def test_the_index_handed_out_is_a_copy() -> None:
    mine = demo.index(None)
    mine["split"] = "train"
    assert set(demo.index(None)["split"]) == {"train", "val", "test"}


def test_same_bytes_in_any_order_and_records_differ(signals: np.ndarray) -> None:
    for i in np.random.default_rng(0).permutation(len(INDEX))[:20]:
        recording = demo.read(None, INDEX.iloc[i])
        assert recording.signal.tobytes() == signals[i].tobytes()
        assert (recording.patient, recording.unit, recording.fs) == (INDEX["patient"][i], "mV", 500)
    assert len({x.tobytes() for x in signals}) == len(INDEX)


def test_one_record_by_its_number() -> None:
    assert demo.recording(180).record == "D180"
    for number in (0, 181):
        with pytest.raises(BadRecord, match=f"no record {number}; its records are 1 to 180"):
            demo.recording(number)


def test_limb_leads_and_microvolts(signals: np.ndarray) -> None:
    assert signals.shape == (180, 12, 5000)
    assert signals.dtype == np.float32
    limb = np.einsum("lk,nkt->nlt", LIMB_FROM_I_II, signals[:, :2].astype(float))
    assert np.abs(signals[:, :6] - limb).max() < 0.0015
    whole = np.round(signals.astype(float) * 1000)
    assert np.abs(whole).max() < 2**15
    # an int16 store at 1000/mV loses nothing
    assert np.array_equal((whole / 1000).astype(np.float32), signals)


def test_the_lead_field_is_dowers() -> None:
    """Its least-squares inverse is near the inverse that Edenbrandt & Pahlm (1988) published; a
    wrong sign or digit is not.
    """
    published = np.array(
        [
            [0.156, -0.010, -0.172, -0.074, 0.122, 0.231, 0.239, 0.194],
            [-0.227, 0.887, 0.057, -0.019, -0.106, -0.022, 0.041, 0.048],
            [0.022, 0.102, -0.229, -0.310, -0.246, -0.063, 0.055, 0.108],
        ]
    )
    assert np.abs(np.linalg.pinv(FIELD) - published).max() < 0.002


def test_electrodes_make_leads() -> None:
    """A potential common to all electrodes is in no lead; one at C3 alone is in V3 alone."""
    assert np.abs(FROM_ELECTRODES.sum(axis=1)).max() < 1e-12
    assert FROM_ELECTRODES[:, 5].tolist() == [*[0] * 8, 1, *[0] * 3]


def test_amplitudes_and_rates(signals: np.ndarray, measured: dict[str, np.ndarray]) -> None:
    assert np.isfinite(signals).all()
    assert (np.ptp(signals, axis=2) > 0.1).all()
    qrs = np.ptp(_lead(measured["beat"], "II"), axis=1)
    assert 0.3 < np.percentile(qrs, 1) < qrs.max() < 3
    assert measured["n"].min() >= 6
    assert measured["n"].max() <= 25


def test_atrial_fibrillation_is_irregular_and_has_no_p(measured: dict[str, np.ndarray]) -> None:
    af, sinus = _has("AFIB"), ~_has("AFIB")
    assert _auroc(measured["rr_spread"], af, sinus) > 0.88
    p = _lead(measured["beat"], "II", -330, -70).max(axis=1) - np.median(
        _lead(measured["beat"], "II", -330, -70), axis=1
    )
    assert np.median(p[af]) < 0.7 * np.median(p[_has("NORM")])


def test_pr_is_longer_in_first_degree_block(measured: dict[str, np.ndarray]) -> None:
    """PR by the centre of the P wave, in lead II, before the centre of QRS."""
    before = _lead(measured["beat"], "II", -340, -90)
    smooth = np.apply_along_axis(np.convolve, 1, before, np.hanning(15) / 7, "valid")
    at = 333 - 2.0 * smooth.argmax(axis=1)
    assert _auroc(at, _only("1AVB"), _has("NORM")) > 0.9
    assert np.median(at[_only("1AVB")]) - np.median(at[_has("NORM")]) > 50


def test_bundle_branch_blocks_are_wide(measured: dict[str, np.ndarray]) -> None:
    width = _qrs_ms(measured["beat"])
    assert _auroc(width, _has("LBBB"), _has("NORM")) > 0.95
    assert _auroc(width, _has("RBBB"), _has("NORM")) > 0.9
    assert np.median(width[_has("LBBB")]) > 120


def test_the_side_of_the_block_is_in_v1_and_v6(measured: dict[str, np.ndarray]) -> None:
    v1, v6 = (_lead(measured["beat"], n, 15, 55).mean(axis=1) for n in ("V1", "V6"))
    right, left = _has("RBBB"), _has("LBBB")
    assert _auroc(v1, right, ~right) > 0.95
    whole = _lead(measured["beat"], "V1", -60, 60)
    assert (whole[left].mean(axis=1) < 0).mean() > 0.95
    assert (-whole[left].min(axis=1) > whole[left].max(axis=1)).mean() > 0.95
    assert _auroc(_lead(measured["beat"], "V6", -60, 60).mean(axis=1), left, ~left) > 0.9
    assert np.median(v6[right]) < 0


def test_inferior_infarction_shows_q_below_and_its_mirror_in_avl(
    measured: dict[str, np.ndarray],
) -> None:
    mi, normal = _only("IMI"), _has("NORM")
    for lead, least in (("II", 0.75), ("III", 0.85), ("aVF", 0.85)):
        first = _lead(measured["beat"], lead, -40, -5).min(axis=1)
        assert _auroc(-first, mi, normal) > least
    assert _auroc(_lead(measured["beat"], "aVL", -40, -5).max(axis=1), mi, normal) > 0.7


def test_anterior_infarction_lives_in_v1_to_v4_and_not_in_lead_i(
    measured: dict[str, np.ndarray],
) -> None:
    """The law of the study: what one lead shows another cannot (r is lost in V1-V2, Q appears in
    V3-V4; lead I hardly sees z).
    """
    mi, normal = _has("AMI") & ~_has("RBBB"), _has("NORM")
    r = {n: _lead(measured["beat"], n, -45, 20).max(axis=1) for n in ("I", "V1", "V2")}
    q = {n: _lead(measured["beat"], n, -45, -5).min(axis=1) for n in ("I", "V3", "V4")}
    for found in (r["V1"], r["V2"], q["V3"], q["V4"]):
        assert _auroc(-found, mi, normal) > 0.9
    for lost in (r["I"], q["I"]):
        assert abs(_auroc(-lost, mi, normal) - 0.5) < 0.25


def test_hypertrophy_by_sokolow_and_lyon_with_strain(measured: dict[str, np.ndarray]) -> None:
    high, normal = _has("LVH"), _has("NORM")
    voltage = _lead(measured["beat"], "V5").max(axis=1) - _lead(measured["beat"], "V1").min(axis=1)
    assert _auroc(voltage, high, normal) > 0.8
    t = _lead(measured["beat"], "V6", 180, 330).mean(axis=1)
    assert _auroc(-t, high, normal) > 0.85
