"""EDF and BDF, written byte by byte: each sample comes back in mV, or the file is refused."""

from pathlib import Path

import numpy as np
import pytest

from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting
from tests.ecg.readers.hospital_files import RATE, edf

STEPS = np.random.default_rng(5).integers(-900, 900, 10 * RATE)


def read(path: Path, **stated: object) -> Recording:
    return by_suffix.read(path, "r", "p", ReadOptions(**stated))  # type: ignore[arg-type]


def is_right(path: Path, scale: float = 1000.0) -> None:
    found = read(path)
    assert (found.leads, found.fs) == (("II",), RATE)
    np.testing.assert_allclose(found.signal[0], STEPS / scale, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("bdf", [False, True])
def test_a_step_is_as_large_as_the_ranges_say(bdf: bool, tmp_path: Path) -> None:
    def written(physical: tuple[float, float], digital: tuple[int, int]) -> Path:
        each = {"physical": physical, "digital": digital, "units": "mV", "bdf": bdf}
        return edf(tmp_path / "r", [STEPS], ["ECG II"], **each)  # type: ignore[arg-type]

    is_right(written((-1, 1), (-1000, 1000)))
    is_right(written((-8, 2), (-4000, 1000)), 500.0)
    is_right(written((1, -1), (-1000, 1000)), -1000.0)
    found = read(written((0, 10), (-1000, 1000)))
    np.testing.assert_allclose(found.signal[0], 5 + STEPS / 200, rtol=1e-6)
    for digital in ((7, 7), (1000, -1000), (0, 65_535 if not bdf else 2**24)):
        with pytest.raises(BadRecord, match="by its header"):
            read(written((-1, 1), digital))
    with pytest.raises(BadRecord, match="by its header"):
        read(written((3, 3), (-1000, 1000)))


def test_the_mark_of_missing_samples_is_the_lowest_number(tmp_path: Path) -> None:
    steps = np.where(np.arange(STEPS.size) == 9, -(2**15), STEPS)
    with pytest.raises(BadRecord, match=r"1 samples are missing .* sample 10"):
        read(edf(tmp_path / "r", [steps], ["II"]))
    steps[10] = -(2**15) - 1  # of 24 bits both are voltages
    found = read(edf(tmp_path / "r", [steps], ["II"], bdf=True))
    np.testing.assert_allclose(found.signal[0], steps / 1000, rtol=1e-6)


def test_a_text_of_the_head_costs_no_recording(tmp_path: Path) -> None:
    whole = edf(tmp_path / "r", [STEPS], ["II"], kind="EDF+C", begins=range(10)).read_bytes()
    changes = {
        168: (b"00.00.00", b"xx.xx.xx", b"31.02.20"),
        88: (b"Startdate 99-XXX-0000 X X X".ljust(80),),
        8: ("Müller".encode("latin-1").ljust(80), "Müller".encode().ljust(80)),
        256 + 2 * 96: ("µV".encode("latin-1").ljust(8), "µV".encode().ljust(8)),
    }
    for at, fields in changes.items():
        for new in fields:
            (tmp_path / "r.edf").write_bytes(whole[:at] + new + whole[at + len(new) :])
            is_right(tmp_path / "r.edf")


@pytest.mark.parametrize("field", [244, 256 + 104, 256 + 112, 256 + 120, 256 + 216])
def test_a_number_of_the_head_that_is_none_is_refused(field: int, tmp_path: Path) -> None:
    path = edf(tmp_path / "r", [STEPS], ["II"])
    whole = path.read_bytes()
    for new in (b"0,5", b"x", b"", b"nan", b"1e999"):
        path.write_bytes(whole[:field] + new.ljust(8) + whole[field + 8 :])
        with pytest.raises(BadRecord):
            read(path)


@pytest.mark.parametrize("count", [9, 11, -2])
def test_the_header_states_how_long_a_file_is(count: int, tmp_path: Path) -> None:
    path = edf(tmp_path / "r", [STEPS], ["II"])
    whole = path.read_bytes()
    path.write_bytes(whole[:236] + str(count).encode().ljust(8) + whole[244:])
    with pytest.raises(BadRecord):
        read(path)
    path.write_bytes(whole[:236] + b"-1".ljust(8) + whole[244:])  # the recorder was not stopped
    is_right(path)


def test_signals_that_are_no_leads_may_have_rates_and_units_of_their_own(tmp_path: Path) -> None:
    other = np.arange(100)
    names, units = ["SpO2", "II"], ["%", "uV"]
    is_right(edf(tmp_path / "r", [other, STEPS], names, units=units, rates=[10, RATE]))
    with pytest.raises(BadRecord, match="different rates"):
        read(edf(tmp_path / "r", [other, STEPS], ["I", "II"], rates=[10, RATE]))
    with pytest.raises(BadRecord, match="not a unit"):
        read(edf(tmp_path / "r", [STEPS], ["II"], units="mmHg"))


def test_a_unit_may_be_cut_to_eight_letters_and_a_step_is_asked_for(tmp_path: Path) -> None:
    for unit, scale in {"millivol": 1.0, "microvol": 1000.0}.items():
        is_right(edf(tmp_path / "r", [STEPS], ["II"], units=unit), scale)
    path = edf(tmp_path / "r", [STEPS], ["II"], units="bits")
    with pytest.raises(BadSetting, match="--unit"):
        read(path)
    np.testing.assert_allclose(read(path, unit="2uV").signal[0], STEPS / 500, rtol=1e-6)


@pytest.mark.parametrize("kind", ["EDF+C", "EDF+D", "BDF+C", "BDF+D"])
def test_time_stamps_of_records_follow_one_another(kind: str, tmp_path: Path) -> None:
    def written(begins: list[float]) -> Path:
        bdf = kind.startswith("BDF")
        return edf(tmp_path / "r", [STEPS], ["II"], kind=kind, begins=begins, bdf=bdf)

    is_right(written([*range(10)]))
    is_right(written([k + 0.25 for k in range(10)]))
    for jump in (3, -2, 86400):
        with pytest.raises(BadRecord, match="gap"):
            read(written([k + jump * (k > 4) for k in range(10)]))
    if kind.endswith("C"):
        is_right(written([]))
    else:
        with pytest.raises(BadRecord, match="discontinuous"):
            read(written([]))
