"""Files without a header: what was written in the true format comes back in mV, leads by name; the
rest is refused in one line.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import arrays, csv
from ecgbench.ecg.readers.arrays import FileFormat
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

SIGNALS = (
    "respiration",
    "AVR",
    "i",
    "II",
    "III",
    "avl",
    "AVF",
    "V1",
    "V2",
    "V3",
    "V4",
    "V5",
    "V6",
    "vx",
)
"""As no dataset orders them; the first and the last are no leads."""
FORMAT = FileFormat(leads=SIGNALS, fs=400, per_mv=1000)
EXPECTED = ("aVR", "I", "II", "III", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")


@pytest.fixture
def steps() -> np.ndarray:
    """(signal, time) int16 in uV."""
    return np.random.default_rng(3).integers(-3000, 3000, (len(SIGNALS), 50)).astype(np.int16)


def _sph(file: Path, steps: np.ndarray) -> Recording:
    with h5py.File(file, "w") as out:
        out["ecg"] = steps.astype(np.float32)
    return arrays.hdf5(file, "r", "p", replace(FORMAT, variable="ecg"))


def _code15(file: Path, steps: np.ndarray) -> Recording:
    with h5py.File(file, "w") as out:
        out["tracings"] = np.stack([0 * steps.T, steps.T]).astype(np.float32)
    return arrays.hdf5(
        file, "r", "p", replace(FORMAT, variable="tracings", leads_first=False), position=1
    )


def _named_csv(file: Path, steps: np.ndarray) -> Recording:
    np.savetxt(file, steps.T, "%d", ",", header=",".join(SIGNALS), comments="")
    return csv.read(file, "r", "p", replace(FORMAT, leads=None))


def _bare_csv(file: Path, steps: np.ndarray) -> Recording:
    np.savetxt(file, steps.T, "%.3f", " ")
    return csv.read(file, "r", "p", FORMAT, separator=" ")


def _echonext(file: Path, steps: np.ndarray) -> Recording:
    np.save(file.with_suffix(".npy"), np.stack([0 * steps.T, steps.T])[:, None])
    return arrays.numpy(
        file.with_suffix(".npy"), "r", "p", replace(FORMAT, leads_first=False), position=1
    )


def _npz(file: Path, steps: np.ndarray) -> Recording:
    np.savez(file.with_suffix(".npz"), x=steps)
    return arrays.numpy(file.with_suffix(".npz"), "r", "p", replace(FORMAT, variable="x"))


Write = Callable[[Path, np.ndarray], Recording]
WRITERS: tuple[Write, ...] = (
    _sph,
    _code15,
    _named_csv,
    _bare_csv,
    _echonext,
    _npz,
)


@pytest.mark.parametrize("write", WRITERS)
def test_what_was_written_comes_back_in_millivolts(
    write: Callable[[Path, np.ndarray], Recording], steps: np.ndarray, tmp_path: Path
) -> None:
    recording = write(tmp_path / "r.x", steps)
    assert (recording.leads, recording.fs, recording.unit, recording.record, recording.patient) == (
        EXPECTED,
        400,
        "mV",
        "r",
        "p",
    )
    np.testing.assert_array_equal(recording.signal, (steps[1:-1] / 1000).astype(np.float32))
    assert recording.clinical().leads == LEADS


def test_values_that_are_no_millivolts_stay_as_they_are(steps: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", steps)
    recording = arrays.numpy(tmp_path / "r.npy", "r", "p", replace(FORMAT, per_mv=None))
    assert recording.unit == "standardised"
    np.testing.assert_array_equal(recording.signal, steps[1:-1].astype(np.float32))


def _csv(file: Path, *lines: str) -> Callable[[], Recording]:
    file.write_text("\n".join(lines) + "\n")
    return lambda: csv.read(file, "r", "p", replace(FORMAT, leads=None))


def _npy(file: Path, array: np.ndarray, position: int | None = None) -> Callable[[], Recording]:
    np.save(file, array, allow_pickle=True)
    return lambda: arrays.numpy(file, "r", "p", FORMAT, position)


def _raw(file: Path, content: bytes, read: Callable[..., Recording]) -> Callable[[], Recording]:
    file.write_bytes(content)
    return lambda: read(file, "r", "p", replace(FORMAT, variable="val"))


PAGE = b"<!DOCTYPE html><html>404 Not Found</html>\n" * 40
FAULTS: dict[str, tuple[Callable[[Path, np.ndarray], Callable[[], Recording]], str]] = {
    "no lead": (
        lambda f, s: _csv(f, "pleth,resp", "1,2", "2,3"),
        "none of its signals is a standard lead: 'pleth', 'resp'",
    ),
    "lead twice": (lambda f, s: _csv(f, "I,i", "1,2", "2,3"), "a lead is there twice"),
    "word in a table": (
        lambda f, s: _csv(f, "I,II", "1,two"),
        "r.x cannot be read as a table of numbers",
    ),
    "empty field": (lambda f, s: _csv(f, "I,II", "1,", "2,3"), "1 samples are not finite"),
    "signal too few": (lambda f, s: _npy(f, s[1:]), r"shape \(13, 50\) for 14 signals"),
    "marked as missing": (
        lambda f, s: _npy(f, np.where(s == s[1, 4], -32768, s).astype(np.int16)),
        "samples are NaN",
    ),
    "objects": (lambda f, s: _npy(f, s.astype(object)), "cannot be read as an array of numpy"),
    "complex": (lambda f, s: _npy(f, s.astype(complex)), "complex128, not of real numbers"),
    "no such row": (lambda f, s: _npy(f, s[None], 1), "holds 1 recordings, none at position 1"),
    "page as hdf5": (lambda f, s: _raw(f, PAGE, arrays.hdf5), "cannot be read as HDF5"),
    "page as npy": (
        lambda f, s: _raw(f, PAGE, arrays.numpy),
        "cannot be read as an array of numpy",
    ),
    "page as csv": (lambda f, s: _raw(f, PAGE, csv.read), "cannot be read as a table of numbers"),
    "empty": (lambda f, s: _raw(f, b"", arrays.hdf5), "r.x is empty"),
    "not there": (lambda f, s: lambda: csv.read(f, "r", "p", FORMAT), "r.x is missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_in_one_line(fault: str, steps: np.ndarray, tmp_path: Path) -> None:
    make, reason = FAULTS[fault]
    attempt = make(tmp_path / ("r.npy" if "_npy" in make.__code__.co_names else "r.x"), steps)
    with pytest.raises(BadRecord, match=reason) as caught:
        attempt()
    assert str(caught.value).startswith("r: ")
    assert "\n" not in str(caught.value)


def test_arrays_of_hdf5_that_are_not_there(steps: np.ndarray, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "r.h5", "w") as out:
        out["tracings"] = steps[None]
    for variable, position, reason in (
        ("ecg", None, "does not hold the array"),
        ("tracings", 1, "none at position 1"),
    ):
        with pytest.raises(BadRecord, match=reason):
            arrays.hdf5(tmp_path / "r.h5", "r", "p", replace(FORMAT, variable=variable), position)
