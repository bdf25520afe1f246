"""Each known export of a device or program by a head as it writes it, and odd tables of people: the
right leads, rate and voltage, or one line that says what is missing.
"""

import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ecgbench.ecg.checks import scale
from ecgbench.ecg.readers import by_suffix, cleaned, layout
from ecgbench.ecg.readers.notation import ReadOptions as Options
from ecgbench.errors import BadRecord, BadSetting, EcgbenchError
from tests.ecg.readers.hospital_files import edf

COUNT = 600
UV = np.random.default_rng(3).integers(-900, 900, (3, COUNT))
MV = UV / 1000
START = datetime(2024, 5, 1, 8)
EPOCH = 1_714_550_400_000
"""START in milliseconds."""


def lines(*columns: object, sep: str = "\t") -> str:
    return "\n".join(sep.join(map(str, row)) for row in zip(*columns, strict=True)) + "\n"


def comma(values: object) -> list[str]:
    return [str(value).replace(".", ",") for value in values]  # type: ignore[attr-defined]


def clock(form: str, jump: timedelta = timedelta(0)) -> list[str]:
    """Every 2 ms, with a jump in the middle; milliseconds for %f."""
    every = [START + timedelta(milliseconds=2 * i) + jump * (i > 299) for i in range(COUNT)]
    return [one.strftime(form.replace("%f", f"{one.microsecond // 1000:03d}")) for one in every]


SECONDS = [f"{i * 0.002:.3f}" for i in range(COUNT)]
NONE, ONES = [""] * COUNT, [1] * COUNT
NIGHT = [f"{'11:59:59' if i < 300 else '12:00:00'}.{400 + 2 * i if i < 300 else 2 * i - 600:03d} "
         f"{'AM' if i < 300 else 'PM'}" for i in range(COUNT)]  # fmt: skip
APPLE = "Name,X\nDate of Birth,1980\nSample Rate,512 hertz\n\nLead,Lead I\nUnit,µV\n\n"
SAMSUNG = "Name,X\nDevice,Galaxy Watch4\nSample rate,500 Hz\nLead,Lead I\nUnit,mV\n\n"
LABCHART = (
    "Interval=\t0.002 s\nExcelDateTime=\t4.3788633901988404e+004\t19/11/2019 15:12:49.131798\n"
    "TimeFormat=\tStartOfBlock\nDateFormat=\t\nChannelTitle=\tECG\tResp\nRange=\t10.000 mV\t2.0 V\n"
)
BIOPAC = (
    "s1.acq\n2 msec/sample\n2 channels\nECG100C\nmV\nRSP\nVolts\nmin\tCH1\tCH2\t\n\t600\t600\t\n"
)
MINUTES = [f"{i * 0.002 / 60:.7g}" for i in range(COUNT)]
OPENSIGNALS = (
    '# OpenSignals Text File Format\n# {"20": {"sensor": ["ECG"], "column": ["nSeq", "I1", "O1", '
    '"A2"], "sampling rate": 1000, "label": ["A2"], "resolution": [4, 1, 1, 10]}}\n# EndOfHeader\n'
)
CYCLE = [(i + 1) % 16 for i in range(COUNT)]
SHIMMER = (
    "sep=\t\nShimmer_8_Timestamp_{}_CAL\tShimmer_8_ECG_LL-RA_24BIT_CAL\t"
    "Shimmer_8_ECG_LA-RA_24BIT_CAL\tShimmer_8_ECG_Vx-RL_24BIT_CAL\t\n{}\tmV\tmV\tmV\t\n"
)
POLAR = "Phone timestamp;sensor timestamp [ns];timestamp [ms];ecg [uV] \n"
PACKETS = [f"2024-05-01T08:00:{i // 73 * 0.56:06.3f}" for i in range(COUNT)]
SENSOR = [599_628_000_000_000_000 + round(i * 1e9 / 130) for i in range(COUNT)]
BARD = "[Header]\nChannels exported: 2\nSamples per channel: 600\nStart time:  6:55:24\n" + (
    "Sample Rate: 500Hz\n"
    + "".join(
        f"Channel #: {k}\nLabel: {name}\nRange: 5mv \nLow: 1Hz\nHigh: 100Hz\nSample rate: 500Hz\n"
        f"Color: 0000FF\nScale: -7\n"
        for k, name in ((1, "III"), (2, "aVF"))
    )
    + "[Data]\n"
)
RDSAMP = "   Elapsed time     MLII       V5\n   (seconds)     (mV)     (mV)\n"
ATM = "'{}','I'\n'{}','mV'\n"
ECG = Options(signals=("ECG=I",), unit="mV")
A2 = Options(signals=("A2=II",), unit="2.93uV")
STEP = Options(unit="1uV")
RIGHT: dict[str, tuple[str, Options, str, float]] = {
    "Apple": (APPLE + lines(UV[0]), Options(), "I", 512),
    "Apple, German decimals": (APPLE + lines(comma(UV[0] + 0.25)), Options(), "I", 512),
    **{
        f"decimal commas below {last}": (
            f"Messrate,512 Hertz\n{last}\n\n" + lines(comma(UV[0] + 0.25)),
            Options(fs=512, unit="uV", signals=("I",)),
            "I",
            512,
        )
        for last in ("Lead,Lead I", "Lead,I", "Ableitung,Ableitung I", "Einheit,µV", "Unit,µV")
    },
    "Samsung": (SAMSUNG + lines(MV[0]), Options(), "I", 500),
    "LabChart": (LABCHART + lines(SECONDS, MV[0], MV[1]), ECG, "I", 500),
    "LabChart, remarks": (
        (LABCHART + lines(SECONDS, *MV[:2])).replace("\n0.020", "\t#1 start\n0.020"),
        ECG,
        "I",
        500,
    ),
    "LabChart, a late remark": (
        (LABCHART + lines(SECONDS, *MV[:2])).replace("\n0.900", "\t#* start\n0.900"),
        ECG,
        "I",
        500,
    ),
    "LabChart, commas": (
        LABCHART.replace("0.002", "0,002") + lines(*map(comma, (SECONDS, *MV[:2]))),
        ECG,
        "I",
        500,
    ),
    "LabChart, no time": (LABCHART + lines(*MV[:2]), ECG, "I", 500),
    "LabChart, units": (
        LABCHART + "UnitName=\tuV\tV\nTopValue=\t9\t2\n" + lines(SECONDS, *UV[:2]),
        Options(signals=("ECG=I",)),
        "I",
        500,
    ),
    "BIOPAC": (BIOPAC + lines(MINUTES, *MV[:2], NONE), Options(signals=("ECG100C=I",)), "I", 500),
    "BIOPAC, no time": (
        BIOPAC.replace("min\t", "").replace("\t600\t600\t", "600\t600") + lines(*MV[:2]),
        Options(signals=("ECG100C=I",)),
        "I",
        500,
    ),
    "BIOPAC, samples a second": (
        BIOPAC.replace("2 msec/sample", "500 samples/sec") + lines(MINUTES, *MV[:2], NONE),
        Options(signals=("ECG100C=I",)),
        "I",
        500,
    ),
    "OpenSignals": (OPENSIGNALS + lines(CYCLE, ONES, ONES, UV[0] + 512, NONE), A2, "II", 1000),
    "OpenSignals, a digital input": (
        OPENSIGNALS.replace('"O1"', '"DI"') + lines(CYCLE, ONES, UV[1], UV[0] + 512, NONE),
        A2,
        "II",
        1000,
    ),
    "OpenSignals, converters of other bits": (
        OPENSIGNALS.replace('"nSeq", "I1", "O1"', '"nSeq", "A1"').replace(
            "[4, 1, 1, 10]", "[12, 6]"
        )
        + lines(CYCLE, UV[1] + 2048, UV[0] + 32, NONE),
        A2,
        "II",
        1000,
    ),
    "OpenSignals, converted": (
        OPENSIGNALS + lines(CYCLE, ONES, ONES, MV[0], NONE),
        Options(signals=("A2=II",), unit="mV"),
        "II",
        1000,
    ),
    **{
        f"a step of 0 mV, {line}": (
            f"Sample rate: 500 Hz\n{line}\n\nI\tII\n" + lines(*UV[:2]),
            STEP,
            "I II",
            500,
        )
        for line in ("adc_zero=0", "Baseline filter: 0.5 Hz")
    },
    "Shimmer": (
        SHIMMER.format("Unix", "ms") + lines([EPOCH + 2 * i for i in range(COUNT)], *MV, NONE),
        Options(),
        "II I",
        500,
    ),
    "Shimmer, accelerometer": (
        SHIMMER.format("Unix", "ms")
        .replace("Vx-RL_24BIT", "Accel_LN_X")
        .replace("mV\t\n", "m/(s^2)\t\n")
        + lines([EPOCH + 2 * i for i in range(COUNT)], *MV, NONE),
        Options(),
        "II I",
        500,
    ),
    "Shimmer, dates": (
        SHIMMER.format("FormattedUnix", "yyyy/mm/dd hh:mm:ss.000")
        + lines(clock("%Y/%m/%d %H:%M:%S.%f"), *MV, NONE),
        Options(),
        "II I",
        500,
    ),
    "Polar": (
        POLAR + lines(PACKETS, SENSOR, [round(i / 0.13, 1) for i in range(COUNT)], UV[0], sep=";"),
        Options(signals=("ecg=I",)),
        "I",
        130,
    ),
    "Movesense, a guess": (
        "timestamp,sample\n" + lines([EPOCH + 2 * i for i in range(COUNT)], UV[0], sep=","),
        Options(signals=("sample=I",), unit="uV"),
        "I",
        500,
    ),
    "Bard": (BARD + lines(*UV[:2], sep=","), STEP, "III aVF", 500),
    "rdsamp": (
        RDSAMP + lines(SECONDS, *MV[:2], sep="   "),
        Options(signals=("MLII=II",)),
        "II V5",
        500,
    ),
    "rdsamp, clock": (
        ATM.format("Elapsed time", "hh:mm:ss.mmm")
        + lines([f"'0:{i // 30000:02d}:{i * 0.002:06.3f}'" for i in range(COUNT)], MV[0], sep=","),
        Options(),
        "I",
        500,
    ),
    "rdsamp, date": (
        ATM.format("Time and date", "hh:mm:ss.mmm dd/mm/yyyy")
        + lines(clock("'[%H:%M:%S.%f %d/%m/%Y]'"), MV[0], sep=","),
        Options(),
        "I",
        500,
    ),
    **{
        f"date {form}": (
            f"time;I (mV)\n{lines(clock(form), MV[0], sep=';')}",
            Options(),
            "I",
            500,
        )
        for form in ("%d.%m.%Y %H:%M:%S,%f", "%d-%b-%Y %H:%M:%S.%f")
    },
    "milliseconds, cut": (
        "t (ms),I (mV)\n" + lines([1234 + i * 1000 // 512 for i in range(COUNT)], MV[0], sep=","),
        Options(fs=512),
        "I",
        512,
    ),
    "words beside the samples": (
        "I (mV),Event,II (mV)\n"
        + lines(MV[0], ["VEB" if i > 590 else "" for i in range(COUNT)], MV[1], sep=","),
        Options(fs=500),
        "I II",
        500,
    ),
    "leads of numbered channels": (
        "Channel 2: V5\nChannel 1: I\nch1,ch2\n" + lines(*MV[:2], sep=","),
        Options(fs=500, unit="mV"),
        "I V5",
        500,
    ),
    "units with digits in other columns": (
        "time,I,Resp,II\ns,mV,1/min,mV\n" + lines(SECONDS, MV[0], MV[2], MV[1], sep=","),
        Options(),
        "I II",
        500,
    ),
    **{
        f"beside a time: {name}": (
            f"time (s),I (mV),{name}\n" + lines(SECONDS, MV[0], column, sep=","),
            Options(),
            "I",
            500,
        )
        for name, column in (
            ("T", [36.5 + (i % 7) / 100 for i in range(COUNT)]),
            ("date", ["2024-05-01"] * COUNT),
            ("steps", range(COUNT)),
            ("phone timestamp", [EPOCH + i // 73 * 146 for i in range(COUNT)]),
        )
    },
    "AM, PM": ("time,I (mV)\n" + lines(NIGHT, MV[0], sep=","), Options(), "I", 500),
    "whole seconds": (
        "time,I (mV)\n"
        + lines([f"08:00:{(i + 40) // 100:02d}" for i in range(COUNT)], MV[0], sep=","),
        Options(),
        "I",
        100,
    ),
    "two columns of time": (
        "date,time,I (mV)\n" + lines(clock("%m/%d/%Y"), clock("%H:%M:%S.%f"), MV[0], sep=","),
        Options(),
        "I",
        500,
    ),
    **{
        f"epoch {unit}": (
            f"x,I (mV)\n{lines([size(i) for i in range(COUNT)], MV[0], sep=',')}",
            Options(),
            "I",
            fs,
        )
        for unit, size, fs in (
            ("s", lambda i: f"{1714550400 + i * 0.002:.3f}", 500),
            ("ms", lambda i: EPOCH + i, 1000),
            ("us", lambda i: EPOCH * 1000 + 2000 * i, 500),
            ("ns", lambda i: (EPOCH * 1000 + 2000 * i) * 1000, 500),
        )
    },
    "a number of lines": (
        ",I,II\n" + lines(range(COUNT), *MV[:2], sep=","),
        Options(fs=500, unit="mV"),
        "I II",
        500,
    ),
    "R, quoted, between blanks": (
        '"I" "II"\n' + lines([f'"{i + 1}"' for i in range(COUNT)], *MV[:2], sep=" "),
        Options(fs=500, unit="mV"),
        "I II",
        500,
    ),
    "a version of software": (
        'Softwareversion,"2,0"\nSign in: bob\nI,II\n' + lines(*MV[:2], sep=","),
        Options(fs=500, unit="mV"),
        "I II",
        500,
    ),
    "R": (
        "I,II\n" + lines(range(1, COUNT + 1), *MV[:2], sep=","),
        Options(fs=500, unit="mV"),
        "I II",
        500,
    ),
    "empty columns": (
        lines(*MV[:2], NONE, NONE, sep=","),
        Options(fs=500, unit="mV", signals=("I", "II", "V1", "V2")),
        "I II",
        500,
    ),
    "a sign at each end": (
        lines(*MV[:2], NONE, sep=";"),
        Options(fs=500, unit="mV", signals=("I", "II")),
        "I II",
        500,
    ),
    "a sign at each end, names": (
        "ch1;ch2;\n" + lines(*MV[:2], NONE, sep=";"),
        Options(fs=500, unit="mV", signals=("I", "II")),
        "I II",
        500,
    ),
    "numbers of columns": (
        ",0,1\n" + lines(range(COUNT), *MV[:2], sep=","),
        Options(fs=500, unit="mV", signals=("I", "II")),
        "I II",
        500,
    ),
    "numbers of columns, alone": (
        "0\n" + lines(MV[0]),
        Options(fs=500, unit="mV", signals=("I",)),
        "I",
        500,
    ),
    "numbers of three columns": (
        "0,1,2\n" + lines(*UV, sep=","),
        Options(fs=500, unit="uV", signals=("I", "II", "V1")),
        "I II V1",
        500,
    ),
    "quoted commas": (
        '"I","II"\n' + lines(*([f'"{x}"' for x in comma(v)] for v in MV[:2]), sep=","),
        Options(fs=500, unit="mV"),
        "I II",
        500,
    ),
    "blanks": ("I  II\n" + lines(*MV[:2], sep="   "), Options(fs=500, unit="mV"), "I II", 500),
    "digits are no unit": (
        "I,II\n10 mV,10 mV\n" + lines(*MV[:2], sep=","),
        Options(fs=500, unit="mV"),
        "I II",
        500,
    ),
    "carriage returns": (
        "I,II\r\r\n" + lines(*MV[:2], sep=",").replace("\n", "\r\r\n"),
        Options(fs=500, unit="mV"),
        "I II",
        500,
    ),
    "German, answered": (
        "Abtastrate: 500 Hz\nEinheit: µV\nI;II\n" + lines(*UV[:2], sep=";"),
        Options(fs=500, unit="uV"),
        "I II",
        500,
    ),
    "names exchanged": (
        "I,II\n" + lines(*MV[:2], sep=","),
        Options(fs=500, unit="mV", signals=("I=II", "II=I")),
        "II I",
        500,
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_export_gives_its_leads_rate_and_voltage(name: str, tmp_path: Path) -> None:
    text, said, leads, fs = RIGHT[name]
    factor, plus = (2.93, 0.0) if said is A2 else (1.0, 0.25e-3 * ("decimal" in name))
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le"):
        (tmp_path / "r.txt").write_bytes(text.encode(encoding))
        found = by_suffix.read(tmp_path / "r.txt", "r", "p", said)
        assert " ".join(found.leads) == leads
        assert found.fs == pytest.approx(fs, rel=1e-6)
        np.testing.assert_allclose(found.signal, MV[: len(found.leads)] * factor + plus, atol=1e-6)


BODY = lines(*UV[:2], sep=";")
DAY = timedelta(days=1)
REFUSED: dict[str, tuple[str, Options, type[EcgbenchError], str]] = {
    **{
        f"a step of 0 mV, {line}": (
            f"Sample rate: 500 Hz\n{line}\nI;II\n" + BODY,
            STEP,
            BadRecord,
            f"{re.escape(line)}.* another value than 0 mV",
        )
        for line in ("ADC zero: 2,048", "Baseline,-100", "Zero level = 1024 counts (12 bit)")
    },
    "leads of numbered channels, contradicted": (
        "Channel 1: V5\nChannel 2: I\nch1;ch2\n" + BODY,
        Options(fs=500, unit="mV", signals=("ch1=I", "ch2=V5")),
        BadRecord,
        "V5, I by its head",
    ),
    **{
        f"a factor: {line}": (
            f"Unit: mV\n{line}\nI;II\n" + lines(*MV[:2], sep=";"),
            Options(fs=500),
            BadSetting,
            f"{line}.* --unit mV",
        )
        for line in ("Multiplier: 2.5", "Scale factor,10", "Amplified 1000x")
    },
    **{
        f"times without samples' decimals: {name}": (
            f"{name},I (mV)\n" + lines(column, MV[0], sep=","),
            Options(),
            BadRecord,
            "is not even",
        )
        for name, column in (
            ("time (s)", [i // 250 for i in range(COUNT)]),
            ("timestamp", [EPOCH // 1000 + i // 250 for i in range(COUNT)]),
            ("time (s)", [f"{i / 250 // 0.1 / 10:.1f}" for i in range(COUNT)]),
            ("time (ms)", [i + (i > 299) for i in range(COUNT)]),
            ("time (ms)", [i + (i > 99) + (i > 399) for i in range(COUNT)]),
            ("time (ms)", [i + i // 150 for i in range(COUNT)]),
            ("sample", [i - (i > 299) for i in range(COUNT)]),
        )
    },
    **{
        f"a quantity is no unit: {row}": (
            f"time,I,II\n{row}\n" + lines(SECONDS, *UV[:2], sep=","),
            Options(),
            BadSetting,
            f"{re.escape(row)}.*--unit",
        )
        for row in ("s,10 uV,10 uV", "s,+-5 mV,+-5 mV", "time,Range 5 mV,Range 5 mV")
    },
    **{
        f"multiples of a unit: {name}": (
            f"time (s),{name}\n" + lines(SECONDS, UV[0], sep=","),
            Options(unit="uV", signals=("I",)),
            BadRecord,
            "multiples of a unit",
        )
        for name in ("I (10 uV)", "I (0.1uV)", "I (mV*1000)")
    },
    "a unit that is named": (
        "Y_Unit_Label\tVolts\tVolts\nI\tII\n" + lines(*MV[:2]),
        Options(fs=500, unit="mV"),
        BadRecord,
        "Y_Unit_Label.* differs from --unit mV",
    ),
    "a rate that is named": (
        "ECG data at 250Hz in uV\nI\tII\n" + lines(*MV[:2]),
        Options(fs=500, unit="uV"),
        BadRecord,
        "ECG data at 250Hz.* differs from --fs 500",
    ),
    "a counter behind a clock, both without names": (
        lines(clock("%H:%M:%S.%f"), [i + (i > 299) for i in range(COUNT)], MV[0], sep=","),
        Options(unit="mV", signals=("I",)),
        BadRecord,
        "from sample 300 to 301",
    ),
    "words in place of the first samples": (
        "time (s),I (mV)\n" + lines(SECONDS, ["OVF"] * 3 + [*MV[0][3:]], sep=","),
        Options(),
        BadRecord,
        "holds a word",
    ),
    "LabChart asks": (
        LABCHART + lines(SECONDS, *MV[:2]),
        Options(signals=("ECG=I",)),
        BadSetting,
        "Range= 10.000 mV .* --unit",
    ),
    "OpenSignals, no steps": (
        OPENSIGNALS + lines(CYCLE, ONES, ONES, UV[0], NONE),
        Options(signals=("A2=II",), unit="mV"),
        BadRecord,
        "--unit 4.88uV",
    ),
    "OpenSignals asks": (
        OPENSIGNALS + lines(CYCLE, ONES, ONES, UV[0], NONE),
        Options(signals=("A2=II",)),
        BadSetting,
        "steps by .* --unit 4.88uV",
    ),
    "a head that is cut": (
        OPENSIGNALS.replace('"column"', '"colum"') + lines(CYCLE, ONES, ONES, UV[0], NONE),
        A2,
        BadRecord,
        "no head of OpenSignals",
    ),
    "OpenSignals, lost": (
        OPENSIGNALS + lines([*CYCLE[:300], *CYCLE[302:], 9, 10], ONES, ONES, UV[0], NONE),
        A2,
        BadRecord,
        "'nSeq' is not even: from sample 300 to 301",
    ),
    "OpenSignals, no lead": (
        OPENSIGNALS + lines(CYCLE, ONES, ONES, UV[0], NONE),
        Options(),
        BadRecord,
        "'A2'",
    ),
    "BIOPAC, no lead": (BIOPAC + lines(MINUTES, *MV[:2], NONE), Options(), BadRecord, "'ECG100C'"),
    "Bard asks": (BARD + lines(*UV[:2], sep=","), Options(), BadSetting, "Range: 5mv.* --unit"),
    "epoch milliseconds": (
        "t,I (mV)\n" + lines([EPOCH + i for i in range(COUNT)], MV[0], sep=","),
        Options(fs=500),
        BadRecord,
        "1000 Hz .* 500 Hz by --fs",
    ),
    **{
        f"a day is missing: {form}": (
            f"{head};I (mV)\n{lines(*map(clock, form, each), MV[0], sep=';')}",
            Options(),
            BadRecord,
            "from sample 300 to 301",
        )
        for head, form, each in (
            ("time", ("%Y-%m-%d %H:%M:%S.%f",), (DAY,)),
            ("time", ("%d.%m.%Y %H:%M:%S.%f",), (DAY,)),
            ("date;time", ("%m/%d/%Y", "%H:%M:%S.%f"), (DAY, DAY)),
        )
    },
    "a second is missing": (
        "time,I (mV)\n"
        + lines([f"08:00:{(i + i // 300 * 100) // 100:02d}" for i in range(COUNT)], MV[0], sep=","),
        Options(),
        BadRecord,
        "is not even",
    ),
    "a time before the samples": (
        "1714550400.0\n500.0\n" + lines(MV[0]),
        Options(fs=500, unit="mV", signals=("I",)),
        BadRecord,
        "first line of numbers",
    ),
    "a rate before the samples": (
        "I,II\n500,500\n" + lines(*MV[:2], sep=","),
        Options(fs=500, unit="mV"),
        BadRecord,
        "first line of numbers",
    ),
    "a jump back": (
        "x,I (mV)\n" + lines(SECONDS[:300] + SECONDS[100:400], MV[0], sep=","),
        Options(),
        BadRecord,
        "from sample 300 to 301",
    ),
    "German asks, one signal": (
        "Abtastrate,500 Hertz\nEinheit,µV\n\n" + lines(comma(UV[0] + 0.25)),
        Options(fs=500, signals=("I",)),
        BadSetting,
        "Einheit,µV.* --unit",
    ),
    "German asks": (
        "Abtastrate: 500 Hz\nEinheit: µV\nI;II\n" + BODY,
        Options(),
        BadSetting,
        "Einheit: µV.* --unit",
    ),
    "German, another rate": (
        "Abtastrate: 500 Hz\nEinheit: µV\nI;II\n" + BODY,
        Options(fs=250, unit="uV"),
        BadRecord,
        "Abtastrate: 500 Hz",
    ),
    "French, another rate": (
        "Fréquence d'échantillonnage : 500\nDI;DII\n" + BODY,
        Options(fs=250, unit="uV"),
        BadRecord,
        "500' differs|500\" differs",
    ),
    "German, another unit": (
        "Einheit: µV\nI;II\n" + BODY,
        Options(fs=250, unit="mV"),
        BadRecord,
        "Einheit: µV",
    ),
    "quoted names between blanks": (
        '"II" "I"\n' + lines(*UV[:2], sep=" "),
        Options(fs=500, unit="uV", signals=("I", "II")),
        BadRecord,
        "are II, I by the file",
    ),
    "quoted names between blanks, units": (
        '"I(uV)" "II(uV)"\n' + lines(range(COUNT), *UV[:2], sep=" "),
        Options(fs=500, unit="mV"),
        BadRecord,
        "1000 by the file and 1 by --unit mV",
    ),
    "more names than columns": (
        "II,I,note\n" + lines(*UV[:2], sep=","),
        Options(fs=500, unit="uV", signals=("I", "II")),
        BadRecord,
        "names 3 columns, and its lines of numbers have 2",
    ),
    "fewer names than columns": (
        "II,V1\n" + lines(*UV, sep=","),
        Options(fs=500, unit="uV", signals=("I", "II", "V1")),
        BadRecord,
        "names 2 columns, and its lines of numbers have 3",
    ),
    "a line that ends the file": (
        "I;II\n" + BODY + "END\n",
        Options(fs=500, unit="uV"),
        BadRecord,
        "'END'",
    ),
    "a longer line": ("I;II\n" + BODY + "1;2;3\n", Options(fs=500, unit="uV"), BadRecord, "saw 3"),
    "no sample": (
        "I;II\n" + BODY + "-;2\n" + BODY,
        Options(fs=500, unit="uV"),
        BadRecord,
        "sample 601 of lead I",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_sure_is_refused_by_one_line(name: str, tmp_path: Path) -> None:
    text, said, kind, message = REFUSED[name]
    (tmp_path / "r.txt").write_text(text, encoding="utf-8")
    with pytest.raises(kind, match=message) as caught:
        by_suffix.read(tmp_path / "r.txt", "r", "p", said)
    assert "\n" not in str(caught.value)


def test_steps_without_a_sign_lie_about_their_middle(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("I,II\n" + lines(*UV[:2] + 1024, sep=","))
    found = by_suffix.read(tmp_path / "r.csv", "r", "p", Options(fs=500, unit="1uV"))
    np.testing.assert_allclose(found.signal, MV[:2] - np.median(MV[:2]), atol=1e-6)
    assert any(kind == "offset" for kind, _ in found.notes)
    found = by_suffix.read(tmp_path / "r.csv", "r", "p", Options(fs=500, unit="uV"))
    np.testing.assert_allclose(found.signal, MV[:2] + 1.024, atol=1e-6)


@pytest.mark.parametrize("suffix", [".csv", ".bdf"])
def test_the_voltage_of_an_electrode_is_no_wrong_unit(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("I (mV),II (mV)\n" + lines(MV[0] + 120, MV[1], sep=","))
    edf(tmp_path / "r", [UV[0] + 120_000, UV[1]], ["I", "II"], bdf=True, rates=200)
    found = by_suffix.read(tmp_path / f"r{suffix}", "r", "p", Options(fs=500))
    scale.demand_possible(found)
    np.testing.assert_allclose(found.signal[0], MV[0] - np.median(MV[0]), atol=1e-5)
    np.testing.assert_allclose(found.signal[1], MV[1], atol=1e-6)
    assert [what[:13] for kind, what in found.notes if kind == "offset"] == ["I lies at 120"]


def test_a_table_of_many_chunks_is_read_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [f"23:59:{59 + i / 500:06.3f}" if i < 500 else f"00:00:00.{(i - 500) * 2:03d}"
             for i in range(COUNT)]  # fmt: skip
    (tmp_path / "r.csv").write_text("t,I (uV),II (uV)\n" + lines(times, *UV[:2], sep=",") + "\n \n")
    monkeypatch.setattr(layout, "CHUNK", 100)
    monkeypatch.setattr(cleaned, "LONG", 0)
    found = by_suffix.read(tmp_path / "r.csv", "r", "p", Options())
    assert found.fs == 500
    np.testing.assert_allclose(found.signal, MV[:2], atol=1e-6)


@pytest.mark.real
def test_the_genuine_file_of_a_bitalino(real_data: Path) -> None:
    file = real_data / "devices" / "formats" / "bitalino_opensignals.txt"
    steps = np.loadtxt(file)[:, -1]
    found = by_suffix.read(file, "r", "p", A2)
    assert (found.leads, found.fs) == (("II",), 1000)
    np.testing.assert_allclose(found.signal[0], (steps - 512) * 2.93e-3, atol=1e-6)
