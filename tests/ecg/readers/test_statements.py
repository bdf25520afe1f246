"""What a file says of itself goes first; what contradicts it stops that record with both values;
what cannot be known is asked for. By value, for every kind of statement.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions as Options
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, EcgbenchError

STEPS = np.random.default_rng(5).integers(-900, 900, 600)
ALL = Options(fs=500, unit="uV", signals=("I",))


def read(folder: Path, text: str, said: Options = ALL, name: str = "r.csv") -> Recording:
    (folder / name).write_bytes(text.encode())
    return by_suffix.read(folder / name, "r", "p", said)


def lines(*columns: object, sep: str = ",") -> str:
    return "\n".join(sep.join(map(str, row)) for row in zip(*columns)) + "\n"


BODY = lines(STEPS)
TIMES = {
    "seconds": ("time", [f"{i * 0.002:.3f}" for i in range(600)], 500),
    "milliseconds": ("time (ms)", [i * 2 for i in range(600)], 500),
    "milliseconds, unit by its step": ("t", [i * 4 for i in range(600)], 250),
    "a step of one millisecond": ("time_ms", [*range(600)], 1000),
    "rounded to 3 places": ("Time [s]", [f"{i / 512:.3f}" for i in range(600)], 512),
    "full precision": ("seconds", [repr(i / 360) for i in range(600)], 360),
    "clock": ("x", [f"08:00:{i / 250:09.6f}" for i in range(600)], 250),
    "date": ("when", [f"2024-05-01 23:59:59.{i:03d}" for i in range(600)], 1000),
    "another name": ("Elapsed time", [f"{i * 0.002:.3f}" for i in range(600)], 500),
    "no name of time": ("x", [f"{i / 360:.4f}" for i in range(600)], 360),
    "name of a lead": ("V1", [f"{i * 0.004:.3f}" for i in range(600)], 250),
    "in s": ("Time in s", [f"{i * 0.04:.2f}" for i in range(600)], 25),
    "/s": ("Time/s", [f"{i * 0.004:.3f}" for i in range(600)], 250),
    "nanoseconds": ("Timestamp (ns)", [i * 2_000_000 for i in range(600)], 500),
    "microseconds": ("ts", [i * 1000 for i in range(600)], 1000),
    "midnight": ("t", [f"23:59:{59 + i / 500:06.3f}" if i < 500 else f"00:00:00.{(i - 500) * 2:03d}"
                       for i in range(600)], 500),
}  # fmt: skip


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_a_column_of_time_is_the_rate(name: str, sep: str, tmp_path: Path) -> None:
    head, column, fs = TIMES[name]
    text = f"{head}{sep}I\n" + lines(column, STEPS, sep=sep)
    found = read(tmp_path, text, Options(unit="uV", fs=fs if fs < 50 else None), "r.tsv")
    assert found.fs == pytest.approx(fs, rel=1e-6)
    np.testing.assert_allclose(found.signal[0], STEPS / 1000, atol=1e-6)
    assert read(tmp_path, text, Options(unit="uV", fs=fs)).fs == pytest.approx(fs)
    with pytest.raises(BadRecord, match=rf"{fs} Hz by the column of time .* by --fs"):
        read(tmp_path, text, Options(unit="uV", fs=2 * fs))
    gap = f"{head}{sep}I\n" + lines([*column[:100], *column[103:]], STEPS[3:], sep=sep)
    with pytest.raises(BadRecord, match="is not even: from sample 100 to 101"):
        read(tmp_path, gap, Options(unit="uV"))


RATES: dict[str, tuple[str, int | None, float | str]] = {
    "unit in the name": ("Sampling Rate (Hz),125", None, 125),
    "unit in the name, contradicted": ("Sampling Rate (Hz),125", 250, "125 Hz .* 250 Hz by --fs"),
    "unit behind the name": ("sampling_rate_hz: 250", None, 250),
    "kHz in the name": ("Sample frequency [kHz];0.5", None, 500),
    "interval": ("Sampling interval: 4 ms", None, 250),
    "interval, unit in the name": ("Sample Interval (ms),2", None, 500),
    "interval in seconds": ("Sampling period (s) = 0.002", None, 500),
    "interval without a unit": ("Sampling interval: 4", 250, 250),
    "words": ("# Sampled at 500 Hz", None, 500),
    "two on a line": ("# fs=500, unit=uV", None, 500),
    "thousands": ("Sample Rate: 1,000 Hz", None, 1000),
    "thousands with a point": ("Sample rate: 1.000 Hz", None, 1000),
    "thousands with a blank": ("Sample Rate: 1 000 Hz", None, 1000),
    "thousands with an apostrophe": ("Sample Rate: 1'000 Hz", None, 1000),
    "decimals": ("Sample Rate: 512,41 Hz", None, 512.41),
    "unit in a cell": ("Sampling rate,500,Hz", None, 500),
    "unit in a cell, contradicted": ("Sampling rate;500;Hz;;", 250, "500 Hz .* 250 Hz by --fs"),
    "unit in a cell of another": ("Lead,2,of 3\nRate,72,bpm\nMode,1,Lead I", 250, 250),
    "of another file": ("Sampling rate (original): 1000 Hz", 500, 500),
    "of another file, asked": ("Sampling rate (original): 1000 Hz, exported: 500 Hz", None, "--fs"),
    "thousands among cells": ("Sample rate,,1,250 samples/s", None, 1250),
    "decimals after a blank": ("Sample rate 512,41 Hz", None, 512.41),
    "thousands after a blank": ("Sample rate 1,250 Hz", None, 1250),
    "decimals among others": ("Sample rate=512,41 Hz, lead=I, mode=2", None, 512.41),
    "interval after a blank": ("Sample interval 1,953 ms", None, 512.03),
    "two readings": ("Sample Rate: 50,000 Hz", None, "line 'Sample Rate: 50,000 Hz'.* --fs"),
    "low": ("Sample Rate: 25", None, "is 25 Hz .* confirm it: --fs 25"),
    "low and confirmed": ("Sample Rate: 25", 25, 25),
    "not understood": ("Sample Rate: fast", None, "line 'Sample Rate: fast'.* --fs"),
    "no number": ("Sample Rate:", 500, 500),
    "mains": ("Frequency,50 Hz", 250, 250),
    "mains, asked": ("Frequency,50 Hz", None, "line 'Frequency,50 Hz'.* --fs"),
    "pulse": ("Rate,72", 250, 250),
    "a rate without a sample": ("Frequency,250 Hz", 250, 250),
    "contradicted": ("Frequency,250 Hz", 500, "'Frequency,250 Hz' differs from --fs 500"),
    "another language": ("Abtastrate: 250 Hz", None, "line 'Abtastrate: 250 Hz'.* --fs"),
    "another language, answered": ("Abtastrate: 250 Hz\nTiefpass: 150 Hz", 250, 250),
    "another language, contradicted": ("Abtastrate: 250", 500, "differs from --fs 500"),
    "named filter": ("Mains frequency,50 Hz\nLow-pass filter: 150 Hz", 250, 250),
    "heart": ("Heart rate: 72", 250, 250),
    "bits": ("Bit rate,128", 250, 250),
    "number of samples": ("Samples,5000", 250, 250),
    "of another signal": ("PPG sampling rate: 125 Hz\nOriginal sampling rate: 1 kHz", None, "--fs"),
    "of another signal, beside": ("PPG sampling rate: 125 Hz\nMax sampling rate: 1000", 250, 250),
    "high": ("Sample Rate (kHz): 250", None, "is 250000 Hz .* high .* confirm it: --fs 250000"),
    "rate within a word": ("Generated by: ACME 3.2\nCorporate: 5\nFrequent PVCs: 3", 250, 250),
    "words without a value": ("Infrequent PVCs\nSeparated by comma\nCalibrated to 1 mV", 250, 250),
    "harmless": ("Counts: 600\nCare unit: ICU\nTemperature unit: C\nWeight gain: 3 kg", 250, 250),
    "bare interval": ("Interval: 4 ms", 500, "250 Hz .* 500 Hz by --fs"),
    "another interval": ("PR Interval: 160 ms\nSampling time: 10:00", 250, 250),
    "delta t": ("Delta t: 4 ms", None, 250),
    "Ts": ("Ts: 0.004", None, 250),
    "increment": ("XIncrement,0.004", 500, "250 Hz .* 500 Hz by --fs"),
    "sampling time": ("Sampling time: 4 ms", 500, "250 Hz .* 500 Hz by --fs"),
    "recorded": ("Recorded at 250 Hz", 500, "differs from --fs 500"),
    "of the ECG": ("ECG: 250 Hz", 250, 250),
    "alone": ("# 250 Hz", 500, "differs from --fs 500"),
    "per sample": ("2 msec/sample", None, 500),
    "an interval by its unit": ("Sample Rate,2 ms", None, 500),
    "a bare number, contradicted": ("Sampling: 250", 500, "differs from --fs 500"),
    **{
        f"changed, {head}": (f"Sample Rate: 500\n{head}", None, wanted)
        for head, wanted in (
            ("Decimation: 2", "line 'Decimation: 2'"),
            ("Export step: 2", "line 'Export step: 2'"),
            ("Skip,3", "line 'Skip,3'"),
            ("Polarity,inverted", "upside down"),
            ("Signal inverted: yes", "upside down"),
            ("Downsampled by 4", "may be fewer"),
            ("Decimation: 1", 500),
            ("Polarity: normal", 500),
            ("Inverted: no", 500),
            ("Diagnosis: T waves are inverted", 500),
            ("Interpretation: none inverted", 500),
        )
    },
    "two rates": ("Sample Rate: 500\nSampling frequency: 250", None, "500 Hz .* 250 Hz"),
}


@pytest.mark.parametrize("name", RATES)
def test_a_rate_in_the_head(name: str, tmp_path: Path) -> None:
    head, fs, wanted = RATES[name]
    said = Options(fs=fs, unit="uV", signals=("I",))
    if isinstance(wanted, str):
        with pytest.raises(EcgbenchError, match=wanted):
            read(tmp_path, f"{head}\n{BODY}", said)
    else:
        found = read(tmp_path, f"{head}\n{BODY}", said)
        assert found.fs == pytest.approx(wanted, abs=0.01)
        assert found.signal.shape == (1, 600)


UNITS: dict[str, tuple[str, str | None, float | str]] = {
    "gain, contradicted": ("Gain,200 LSB/mV", "mV", "1 mV is 200 by the file and 1 by --unit mV"),
    "gain": ("Gain,200 LSB/mV", None, 200),
    "counts": ("Counts per mV: 400", None, 400),
    "unit of the gain in its name": ("ADC gain (1/mV),1000", None, 1000),
    "resolution, contradicted": ("Resolution: 4.88 uV", "mV", "204.918 by the file"),
    "resolution": ("Resolution: 5 uV", None, 200),
    "resolution in the name": ("Resolution (uV/LSB),5", None, 200),
    "resolution, unit in a cell": ("Resolution,4,uV", None, 250),
    "gain, unit in a cell": ("Gain;200;LSB/mV", None, 200),
    "decimals and a unit in a cell": ("Resolution (uV);2,5;uV/bit", None, 400),
    "units per mV, two readings": ("Units per mV: 1,000", None, "--unit"),
    "units per mV": ("Units per mV: 400", None, 400),
    "number before the unit": ("Scale 2.5,uV", None, "--unit"),
    "resolution after a blank": ("Resolution 0,5 uV", None, 2000),
    "gain, two readings": ("Gain 1,200 LSB/mV", None, "line 'Gain 1,200 LSB/mV'.* --unit"),
    "step": ("LSB = 2.5 µV", "2.5uV", 400),
    "bits": ("Resolution,16 bit", "uV", 1000),
    "bare gain": ("Gain,1000", None, "line 'Gain,1000'.* --unit"),
    "bare gain, answered": ("Gain,1000", "uV", 1000),
    "bare gain beside a unit": ("Unit: mV\nGain,1000", None, "'Gain,1000' .* --unit"),
    "bare gain beside a unit, answered": ("Unit: mV\nGain,1000", "mV", 1),
    "another language": ("Einheit: mV", None, "line 'Einheit: mV'.* --unit"),
    "another language, contradicted": ("Einheit: mV", "uV", "differs from --unit uV"),
    "unit": ("Unit: µV", None, 1000),
    "a number of units": ("Unit: 4.88 uV", "uV", "204.918 by the file and 1000 by --unit"),
    "unit of a name": ("Amplitude unit;mV", None, 1),
    "unit contradicted": ("Units: uV", "mV", "1 mV is 1000 by the file and 1 by --unit mV"),
    "unit not understood": ("Unit: raw", "mV", "'Unit: raw', and mV by --unit"),
    "unit and gain": ("Unit,mV\nGain,200 LSB/mV", None, "1 by .*Unit,mV.* and 200 by .*Gain"),
    **{f"a voltage: {head}": (head, None, "does not state its unit") for head in (
        "R amplitude: 1.2 mV", "Max amplitude: 2 mV", "Amplitude range: 5 mV", "Full scale: 5 mV",
        "Vertical scale: 0.5 mV", "Battery voltage: 3.7 V", "Range: ±5 mV", "Threshold uV",
        "Standard 10mm per mV", "Calibrated to 1 mV",
    )},
    **{f"asked: {head}": (head, None, "--unit mV") for head in (
        "Gain: 1 mV", "Scale: 0.5 mV", "Sensitivity: 4.88 uV", "Verstärkung: 200",
        "Amplification: 200", "Unit: 4.88uV per", "Scale factor: 1000", "Multiplier: 0.00488",
        "16 bit = 5 mV",
    )},
    **{f"steps: {head}": (head, None, 200) for head in (
        "200 LSB = 1 mV", "200 LSB, 1 mV", "200 counts = 1 mV", "1 mV = 200 LSB", "1 bit = 5 uV",
        "uV/bit: 5",
        "Units per mV: 200", "Quantization: 5 uV", "Scale: 5 µV/LSB",
    )},
    **{f"a unit: {head}": (head, "mV", "1 mV is 1000 by the file and 1 by --unit") for head in (
        "Y-Axis,uV", "Yunit,uV", "Dimension: uV", "Scale: uV", "Voltage: µV", "Values in uV",
    )},
    "step in the name": ("LSB weight (nV): 5000", None, 200),
    "steps, contradicted": ("1 bit = 5 uV", "mV", "1 mV is 200 by the file and 1 by --unit mV"),
    "two on a line": ("Lead,I,Unit,uV", "mV", "1 mV is 1000 by the file and 1 by --unit mV"),
    "two on a line, alone": ("Lead,I,Unit,uV", None, 1000),
    "a factor": ("Risk factor: 2\nSensitivity: 10 mm/mV\nQuantization: 16 bit", "uV", 1000),
    "paper": ("Gain: 10 mm/mV\nSpeed: 25 mm/s", "uV", 1000),
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_in_the_head(name: str, tmp_path: Path) -> None:
    head, unit, wanted = UNITS[name]
    said = Options(fs=500, unit=unit, signals=("I",))
    if isinstance(wanted, str):
        with pytest.raises(EcgbenchError, match=wanted):
            read(tmp_path, f"{head}\n{BODY}", said)
    else:
        found = read(tmp_path, f"{head}\n{BODY}", said).signal[0]
        np.testing.assert_allclose(found, STEPS / wanted, rtol=1e-6)


TWELVE = np.random.default_rng(6).integers(-900, 900, (600, 12)) / 1000
TABLE = lines(*TWELVE.T)
INDEXED = lines(range(600), *TWELVE.T)
HEADS = {
    "numbers": ",".join(map(str, range(12))) + "\n" + TABLE,
    "numbers from 1": ",".join(map(str, range(1, 13))) + "\n" + TABLE,
    "numbers and an index": "," + ",".join(map(str, range(12))) + "\n" + INDEXED,
    "R": ",".join(f"V{i}" for i in range(1, 13)) + "\n" + TABLE,
    "R with row numbers": '"",' + ",".join(f'"V{i}"' for i in range(1, 13)) + "\n" + INDEXED,
    "a head shorter by one": ",".join(f"X{i}" for i in range(1, 13)) + "\n" + INDEXED,
    "a counter": "i," + ",".join(f"ch{i}" for i in range(1, 13)) + "\n" + INDEXED,
    "no head": TABLE,
}


@pytest.mark.parametrize("name", HEADS)
def test_generated_names_are_no_leads_and_no_sample(name: str, tmp_path: Path) -> None:
    found = read(tmp_path, HEADS[name], Options(fs=500, unit="mV", signals=LEADS))
    assert found.leads == LEADS
    np.testing.assert_allclose(found.signal.T, TWELVE, atol=1e-6)
    with pytest.raises(EcgbenchError, match=r"does not state the names|none of its signals"):
        read(tmp_path, HEADS[name], Options(fs=500, unit="mV"))
    with pytest.raises(BadSetting, match="has 12 signals, and --signals I,II names 2"):
        read(tmp_path, HEADS[name], Options(fs=500, unit="mV", signals=("I", "II")))


OTHER = lines(np.arange(600) % 7 - 3)
SAMPLES = {
    "an empty line": (BODY.replace("\n", "\n\n", 1), "1 samples are missing .* sample 2 of lead I"),
    "a word": ("1\nNA\n" + BODY, "1 samples are missing"),
    "-32768": (BODY + "-32768\n" + BODY, "1 samples are missing .* sample 601"),
    "-9999": (BODY + "-9999\n" + BODY, "1 samples are missing"),
    "32767": (BODY + "32767\n" + BODY, "1 samples are missing"),
    "thousands": ("I;II\n3.070;5.490\n" + lines(*[np.abs(STEPS)] * 2, sep=";"), "'3.070' may be"),
    "thousands in a column": ("I\n3,070\n" + lines(np.abs(STEPS)), "'3,070' may be thousands"),
    "thousands and tabs": ("I\tII\n3,070\t-1,2\n" + lines(STEPS, STEPS, sep="\t"), "'3,070'"),
    "thousands and blanks": ("I II\n3,070 1\n" + lines(STEPS, STEPS, sep=" "), "'3,070'"),
    "two leads, other": ("V2,V5\n" + lines(STEPS, STEPS), "are V2, V5 by the file"),
    "no lead": ("resp\n" + BODY, None),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_missing_sample_is_missing(name: str, tmp_path: Path) -> None:
    text, message = SAMPLES[name]
    said = ALL if name != "two leads, other" else Options(fs=500, unit="uV", signals=("I", "II"))
    if message is None:
        assert read(tmp_path, text, said).leads == ("I",)
        return
    with pytest.raises(BadRecord, match=message):
        read(tmp_path, text, said)


def test_leads_that_were_not_measured_are_left_out_and_named(tmp_path: Path) -> None:
    nothing, zero = ["nan"] * 600, [0] * 600
    text = "I,II,V1,-aVR,V6\n" + lines(STEPS, nothing, zero, -STEPS, nothing)
    found = read(tmp_path, text, Options(fs=500, unit="uV"))
    assert found.leads == ("I", "aVR")
    np.testing.assert_allclose(found.signal[1], STEPS / 1000, atol=1e-6)
    assert {what for kind, what in found.notes if kind in ("not measured", "inverted")} == {
        "II has no samples",
        "V1 is 0 mV throughout",
        "V6 has no samples",
        "-aVR",
    }
    trailing = "I,II\n" + lines(STEPS, STEPS, [""] * 600)
    assert read(tmp_path, trailing, Options(fs=500, unit="uV")).leads == ("I", "II")
    with pytest.raises(BadRecord, match="each lead holds one value"):
        read(tmp_path, "I,II\n" + lines(zero, zero), Options(fs=500, unit="uV"))
    with pytest.raises(BadRecord, match="no lead has samples"):
        read(tmp_path, "I,II\n" + lines(nothing, nothing), Options(fs=500, unit="uV"))


def test_a_counter_is_no_lead_and_its_gap_is_found(tmp_path: Path) -> None:
    found = read(tmp_path, "i,II\n" + lines(range(600), STEPS), Options(fs=500, unit="uV"))
    assert found.leads == ("II",)
    count = [i + 7 * (i > 299) for i in range(600)]
    for name in ("i", "sample", "", "seq", "Sample_Number", "V1"):
        with pytest.raises(BadRecord, match="from sample 300 to 301"):
            read(tmp_path, f"{name},II\n" + lines(count, STEPS), Options(fs=500, unit="uV"))


def test_a_decimal_comma_is_known_by_the_number_of_signals(tmp_path: Path) -> None:
    values = [f"{v / 100:.2f}".replace(".", ",") for v in STEPS]
    text = lines(values)
    one = read(tmp_path, text, Options(fs=500, unit="mV", signals=("I",)))
    np.testing.assert_allclose(one.signal[0], STEPS / 100, rtol=1e-6)
    two = read(tmp_path, text, Options(fs=500, unit="uV", signals=("I", "II")))
    assert two.leads == ("I", "II")
    with pytest.raises(BadSetting, match=r"--signals I \(one signal\)"):
        read(tmp_path, text, Options(fs=500, unit="mV"))


def table(head: str, sep: str, *columns: object) -> str:
    return f"{head}\n" + lines(*(columns or (PARTS, -PARTS)), sep=sep)


PARTS = STEPS / 100
CLOCK = [f"{i * 0.002:.3f}" for i in range(600)]
GAPS = [f"{(i + 9 * (i > 299)) * 0.002:.3f}" for i in range(600)]
TICKS = [int(i / 0.36) for i in range(600)]
SHORT = [f"{v:.2f}".replace(".", ",") for v in PARTS]
TWO = Options(fs=500, unit="mV", signals=("I", "II"))
ONE = Options(fs=500, unit="mV", signals=("I",))
UV = Options(fs=500, unit="uV", signals=("I", "II"))
GIVEN = Options(fs=500)
ROW = "'Elapsed time','I'\n'seconds','uV'"
R13 = ",".join(f"V{i}" for i in range(1, 14))
DAYS = [45000 + i / 86400 / 500 for i in range(600)]
MAPPED = Options(unit="mV", signals=("ch0=time", "ch1=I"))
AT_360 = Options(fs=360, unit="uV", signals=("I",))
ASK = Options(fs=500, unit="mV")
T13 = Options(unit="mV", signals=("t", *LEADS))
COLUMNS: dict[str, tuple[str, Options, str]] = {
    "PhysioNet": (table(ROW, ",", CLOCK, STEPS), Options(), "I 500"),
    "PhysioNet, --fs": (table(ROW, ",", CLOCK, STEPS), Options(fs=250),
                        "500 Hz by the column of time .* 250 Hz by --fs"),
    "units row of time": (table("time,I\nms,mV", ",", range(600), PARTS), Options(), "I 1000"),
    "an unknown unit": (table("time,I", ",", [i / 25 for i in range(600)], PARTS), ASK,
                        "'time' is not known .25 Hz or 25000 Hz"),
    "days": (table("time,I", ",", DAYS, PARTS), Options(unit="mV"), "I 500"),
    "time as V1": (table(R13, ",", CLOCK, *[PARTS] * 12), T13,
                   " ".join(LEADS) + " 500"),
    "time in 0..12": (table(",".join(map(str, range(13))), ",", CLOCK, *[PARTS] * 12), T13,
                      " ".join(LEADS) + " 500"),
    "time as V1, gap": (table(R13, ",", GAPS, *[PARTS] * 12), T13,
                        "'t' is not even"),
    "time by NAME=": (table("ch0,ch1", ",", CLOCK, PARTS), MAPPED, "I 500"),
    "time beside a decimal comma": (lines(TICKS, np.abs(STEPS)), AT_360, "I 360"),
    "names between semicolons": (table("II;I", ","), TWO, "are II, I by the file"),
    "names above a line": (table("II,I\n# start", ","), TWO, "are II, I by the file"),
    "names between blanks": (table("II I", "\t"), TWO, "are II, I by the file"),
    "a line on leads": (table("Leads: II, I", ","), TWO, "are II, I by the file"),
    "a line on leads, blanks": (table("Leads: II I", ","), ASK, "II I 500"),
    "a comment": (table("# I,II", ","), TWO, "I II 500"),
    "a comment, turned": (table("# II,I", ","), TWO, "give --signals II=I,"),
    "channel name": (table("Channel name: V5", ",", PARTS), ONE, "are V5 by the file and I by"),
    "lead name": (table("Lead name,V5", ",", PARTS), ONE, "are V5 by the file and I by"),
    "signal": (table("Signal: V5", ",", PARTS), ONE, "are V5 by the file and I by"),
    "head and column": (table("Lead,II\nI", ",", PARTS), ASK, "are II by its head and I by"),
    "lead and time": (table("Lead,II\ntime,value", ",", CLOCK, PARTS), ASK, "II 500"),
    "signal of a column": (table("Signal: ECG\nI", ",", PARTS), ASK, "I 500"),
    "units differ": (table("Unit,uV\nI (mV)", ",", PARTS), GIVEN,
                     "1 by the unit of its column .* 1000 by .*Unit,uV"),
    "units row differs": (table("Unit: mV\nI,II\nuV,uV", ","), GIVEN, "1000 by the unit .* 1 by"),
    "gain differs": (table("Gain: 200/mV\nI (mV)", ",", STEPS), GIVEN, "200 by .*Gain: 200"),
    "gain beside decimals": (table("Gain: 200/mV\nI (mV)", ",", PARTS), GIVEN, "I 500"),
    "slash": (table("I/mV,II/mV", ","), UV, "1 mV is 1 by the file and 1000 by --unit uV"),
    "slash, turned": (table("II/mV,I/mV", ","), TWO, "are II, I by the file"),
    "brackets in the units row": (table("I,II\n(uV),(uV)", ","), TWO, "1000 by the file and 1 by"),
    "counts": (table("I (counts)", ",", STEPS), ONE, "'counts', and mV by --unit"),
    "counts in a row": (table("I,II\nADC,ADC", ",", STEPS, STEPS), TWO, "'ADC', and mV"),
    "counts, a step": (table("I (counts)", ",", PARTS), Options(fs=500, unit="1mV"), "I 500"),
    "a row of other units": (table("I,II\nmV/10,mV/10", ","), TWO, "I II 500"),
    "a row of other units, asked": (table("I,II\nmV/10,mV/10", ","), GIVEN, "'mV/10,mV/10'"),
    "a rule": (table("I,II\n----,----", ","), TWO, "I II 500"),
    "a unit within": (table("I mV raw,II mV raw", ","), ASK, "I mV raw"),
    "a unit alone": (table("uV", ",", PARTS), ONE, "1000 by the file and 1 by --unit mV"),
    "ECG with its unit": (table("ECG_mV", ",", PARTS), Options(fs=500, signals=("I",)), "I 500"),
    "a side": (table("I (left),II (right)", ","), TWO, "I II 500"),
    "blanks, decimal commas": (table("I II", " ", SHORT, SHORT), ASK, "I II 500"),
    "a separator at each end": (table("I;II;", ";", PARTS, PARTS, [""] * 600), ASK, "I II 500"),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_names_units_and_times_of_columns(name: str, tmp_path: Path) -> None:
    text, said, wanted = COLUMNS[name]
    if not re.fullmatch(r"[^a-z]* \d+", wanted.replace("aV", "")):
        with pytest.raises(EcgbenchError, match=wanted):
            read(tmp_path, text, said)
    else:
        found = read(tmp_path, text, said)
        assert f"{' '.join(found.leads)} {found.fs:g}" == wanted
        factor = 1000 if name.startswith("time beside") or name == "PhysioNet" else 100
        np.testing.assert_allclose(np.abs(found.signal[0]), np.abs(STEPS) / factor, atol=1e-6)


def test_the_import_says_where_names_came_from_and_what_was_replaced(tmp_path: Path) -> None:
    for head, origin, replaced in (
        ("", "--signals", []),
        ("I\n", "the file and --signals", []),
        ("x\n", "--signals", ["x"]),
        ("Device,Nice\n", "--signals", ["Device,Nice"]),
        ("Humfilter 50 Hz\n", "--signals", ["Humfilter 50 Hz"]),
    ):
        notes = read(tmp_path, head + BODY, ALL).notes
        assert [what for kind, what in notes if kind == "names"] == [origin]
        assert [what for kind, what in notes if kind in ("head line", "renamed")] == replaced


ROWS = np.array([np.arange(600) / 360, STEPS])
JUMP = np.array([np.arange(600) > 299, np.zeros(600)])
NPZ: dict[str, tuple[dict[str, object], Options, float | str]] = {
    "fs": ({"fs": 250, "unit": "uV", "leads": ["I"]}, Options(), 250),
    "bytes": ({"fs": np.array([b"250 Hz"]), "unit": b"uV", "leads": [b"I"]}, Options(), 250),
    "words": ({"fs": "fast", "unit": "uV", "leads": ["I"]}, Options(fs=500), "'fs' says 'fast'"),
    "NaN": ({"fs": np.nan, "unit": "uV", "leads": ["I"]}, Options(fs=500), "'fs' says 'nan'"),
    "unit": ({"fs": 250, "unit": "raw", "leads": ["I"]}, Options(unit="uV"), "'unit' says 'raw'"),
    "contradicted":
        ({"fs": 250, "unit": "uV", "leads": ["I"]}, Options(fs=500), "250 Hz .* 500 Hz"),
    "a row of time": ({"unit": "uV", "leads": ["t", "I"], "x": ROWS}, Options(), 360),
    "a row of time, gap":
        ({"unit": "uV", "leads": ["t", "I"], "x": ROWS + JUMP}, Options(), "300 to"),
}  # fmt: skip


@pytest.mark.parametrize("name", NPZ)
def test_what_an_npz_states(name: str, tmp_path: Path) -> None:
    words, said, wanted = NPZ[name]
    np.savez(tmp_path / "r.npz", **{"x": STEPS[None], **words})  # type: ignore[arg-type]
    if isinstance(wanted, str):
        with pytest.raises(BadRecord, match=wanted):
            by_suffix.read(tmp_path / "r.npz", "r", "p", said)
    else:
        found = by_suffix.read(tmp_path / "r.npz", "r", "p", said)
        assert found.fs == pytest.approx(wanted)
        np.testing.assert_allclose(found.signal[0], STEPS / 1000, atol=1e-6)


def test_messages_are_one_line_and_name_the_file(tmp_path: Path) -> None:
    for text, said in ((f"Gain,1000\n{BODY}", Options(fs=500)), (BODY, Options()), ("<html>", ALL)):
        with pytest.raises(EcgbenchError) as caught:
            read(tmp_path, text, said)
        assert re.fullmatch(r"[^\n]*r\.csv[^\n]*", str(caught.value))
