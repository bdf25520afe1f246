"""ZZU pECG: lists that mix codes and words, both rules, gains of each lead, folds by child."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import zzu
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData
from tests.datasets.written import signal_lines

NINE = [n for n in LEADS if n not in ("V2", "V4", "V6")]
FIRST = {
    "Filename": "",
    "ECG_ID": "",
    "Patient_ID": "",
    "Age": "572d",
    "Gender": "'Female'",
    "Acquisition_date": "2017-11-22 10:46:08",
    "Sampling_point": 15000,
    "Lead": 12,
    "AHA_code": "'C21'",
    "CHN_code": "'C13'",
    "ICD-10 code": "'I34.0';'Q21.0'",
    "pSQI": "'I':0.288;'V2':Null",
    "basSQI": "'I':0.98;'II':0.99",
    "bSQI": "'I':1.000",
}
"""The first child's line."""
COLUMNS = [*FIRST]


def signals(record: str, leads: list[str], samples: int, at: Path) -> np.ndarray:
    """Writes a header with a gain and a baseline for each lead, and the samples; returns mV."""
    gains = 150.25 + 1.5 * np.arange(len(leads))
    steps = (np.arange(samples)[:, None] % 50 * (1 + np.arange(len(leads)))).astype("<i2")
    at.mkdir(parents=True, exist_ok=True)
    stated = [f"{gain}({i - 4})/mV" for i, gain in enumerate(gains)]
    names = [lead.upper() for lead in leads]
    lines = [f"{record} {len(leads)} 500 {samples}"]
    lines += signal_lines(f"{record}.dat", "16", stated, names, steps.T)
    (at / f"{record}.hea").write_text("\n".join(lines) + "\n")
    (at / f"{record}.dat").write_bytes(steps.tobytes())
    return (steps - (np.arange(len(leads)) - 4)).T / gains[:, None]


def write(root: Path, rows: list[dict[str, Any]]) -> Path:
    """The table alone; a row gives what differs from the first child's."""
    lines = ["\ufeff" + ",".join(COLUMNS)]
    for i, row in enumerate(rows):
        p = row.get("Patient_ID", f"P{i:05d}")
        e = f"{p}_E{row.get('number', 1):02d}"
        full = FIRST | {"Filename": f"{p[:3]}/{p}/{e}", "ECG_ID": e, "Patient_ID": p} | row
        lines.append(",".join(f'"{full[c]}"' for c in COLUMNS))
    root.mkdir(parents=True, exist_ok=True)
    (root / "AttributesDictionary.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return root


def present(row: dict[str, Any], task: str) -> set[str]:
    return {c.partition(":")[2] for c in row if c.startswith(f"{task}:") and row[c]}


def test_labels() -> None:
    assert (len(zzu.TASK.labels), zzu.TASK.paper) == (91, 58)
    assert list(zzu.TASK.labels) == sorted(zzu.TASK.labels)
    assert "Left ventricular high voltage" not in zzu.TASK.labels
    assert {"Left ventricular high voltage", "First-degree AV block"} <= {*zzu.CORRECTED.labels}
    assert {"Frequent", "Depression"} & {*zzu.CORRECTED.labels} == set()
    assert {(t.least, t.complete) for t in zzu.CARD.tasks} == {(10, 12_334)}


@pytest.mark.parametrize(
    ("said", "exact", "corrected"),
    [
        ("'A1'", {"Normal ECG"}, {"Normal ECG"}),
        ("'C21';'C21'", {"Sinus tachycardia"}, {"Sinus tachycardia"}),
        ("'F60+Modifier310';'D31'", {"Atrial premature complexes, nonconducted"}, {
            "Ventricular premature complex(es)", "Atrial premature complexes, nonconducted",
        }),
        ("'L145+Modifier362'; 'L147+Modifier367'", set(), {"ST deviation", "T-wave abnormality"}),
        ("'Left ventricular high voltage';'E50'", {"Atrial fibrillation"}, {
            "Left ventricular high voltage", "Atrial fibrillation",
        }),
        ("'N(180 + 181)'", {"Pacing rhythm"}, {"Pacing rhythm"}),
        ("'Short PR interval';'Consider226'", {"Ischemia"}, {"Ischemia", "Short PR interva"}),
        ("'C2';'N/A';'Dextro'", set(), set()),
        ("", set(), set()),
    ],
)  # fmt: skip
def test_both_rules(tmp_path: Path, said: str, exact: set[str], corrected: set[str]) -> None:
    (row,) = zzu.index(write(tmp_path, [{"AHA_code": said}])).to_dict("records")
    assert present(row, "zzu") == exact
    assert present(row, "zzu_corrected") == corrected
    assert (row["age"], row["sex"]) == ("1.57", "Female")


def test_mv_by_the_gain_of_each_lead_and_what_is_left_out_is_counted_apart(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{} for _ in range(12)]
    rows += [{"Patient_ID": "P01000", "number": n} for n in (1, 2, 3)]
    rows += [{"Patient_ID": "P02000", "Lead": 9}, {"Patient_ID": "P03000"}]
    folder = write(tmp_path / "zzu", rows)
    shapes = {
        "P01000_E02": (LEADS, 4999),
        "P01000_E03": (LEADS, 60_000),
        "P03000_E01": (NINE, 5000),
    }
    made = {}
    for row in zzu.index(folder).to_dict("records"):
        leads, samples = shapes.get(row["record"], (LEADS, 5000))
        at = folder / row["path"]
        made[row["record"]] = signals(at.name, list(leads), samples, at.parent)
    copy = prepare("zzu", tmp_path, tmp_path / "prepared")
    assert "P02000_E01" not in made
    assert copy.excluded.to_dict("records") == [
        {"record": "P01000_E02", "reason": "shorter than 10 s"}
    ]
    (damaged,) = copy.quarantined.to_dict("records")
    assert (damaged["record"], damaged["reason"]) == ("P03000_E01", "lead V2, V4, V6 is missing")
    assert len(copy.index) == 14
    for record in ("P00000_E01", "P01000_E03"):
        recording = copy.recording(record)
        assert recording.signal.shape == made[record].shape
        assert np.allclose(recording.signal, made[record], atol=2e-5 * made[record].max())


def test_folds_hold_whole_children_and_rest_on_disease_sex_and_age_alone(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for i in range(150):
        child = {
            "Patient_ID": f"P{i:05d}",
            "Gender": "'Male'" if i % 2 else "'Female'",
            "Age": f"{i * 50}d",
            "ICD-10 code": "'Q21.0'" if i % 15 == 0 else "",
        }
        rows += [{**child, "number": n, "AHA_code": "'A1'"} for n in range(1, 2 + i % 3)]
    found = zzu.index(write(tmp_path / "a", rows))
    sick = found["patient"].isin([f"P{i:05d}" for i in range(0, 150, 15)])
    assert found[sick].groupby("fold")["patient"].nunique().tolist() == [1] * 10
    assert found["split"].value_counts(normalize=True)["train"] == pytest.approx(0.8, abs=0.05)
    others = [{**row, "AHA_code": "'C21'"} for row in rows]
    again = zzu.index(write(tmp_path / "b", others)).set_index("record")["fold"]
    assert again.to_dict() == found.set_index("record")["fold"].to_dict()


def test_a_table_without_twelve_leads(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="names no recording of 12 leads"):
        zzu.index(write(tmp_path / "a", [{"Lead": 9}]))
    with pytest.raises(MissingData, match=r"'12\.0' leads, not 9 or 12"):
        zzu.index(write(tmp_path / "b", [{}, {"Lead": "12.0"}]))
