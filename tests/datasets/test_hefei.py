"""Hefei: eight leads in steps of 4.88 uV, lines of different length, labels by their names."""

from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.datasets import hefei
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData

LABELS = [*hefei.TASK.labels, *hefei.RARE]


def steps(number: int) -> np.ndarray:
    """(time, lead) of the file, in steps."""
    return number + np.arange(8) * 100 + np.arange(5000)[:, None] % 9 * 3


def write(root: Path, numbers: list[int], order: str = "I II V1 V2 V3 V4 V5 V6") -> Path:
    """Every label in turn, with the next one; of every third the age is missing, the sex of every
    fourth; some lines end in a tab. The lines come in the order of `numbers`.
    """
    folder = root / "hefei" / "hf_round2_train"
    folder.mkdir(parents=True)
    lines = []
    for i in numbers:
        record = 100_000 + i
        age, sex = "" if i % 3 == 0 else "63", "" if i % 4 == 0 else "FEMALE"
        labels = [LABELS[i % 34], *([LABELS[(i + 1) % 34]] if i % 2 else [])]
        end = "\t" if i % 5 == 0 else ""
        lines.append("\t".join([f"{record}.txt", age, sex, *labels]) + end)
        rows = "\n".join(" ".join(map(str, row)) for row in steps(i)) if i < 3 else "1"
        (folder / f"{record}.txt").write_text(f"{order}\n{rows}\n")
    (root / "hefei" / "hf_round2_train.txt").write_text("\r\n".join(lines) + "\r\n", "utf-8")
    return root


def test_lines_of_any_length(tmp_path: Path) -> None:
    found = hefei.index(write(tmp_path / "a", list(range(120))) / "hefei").set_index("record")
    assert found.loc["100000", ["age", "sex", "path"]].tolist() == [
        "",
        "",
        "hf_round2_train/100000.txt",
    ]
    assert found.loc["100001", ["age", "sex"]].tolist() == ["63", "FEMALE"]
    for i, row in enumerate(found[hefei.TASK.columns].to_dict("records")):
        wanted = {LABELS[i % 34], *([LABELS[(i + 1) % 34]] if i % 2 else [])} - {*hefei.RARE}
        assert {label.partition(":")[2] for label, has in row.items() if has} == wanted
    assert found["split"].value_counts().to_dict() == {"train": 96, "val": 12, "test": 12}


@pytest.mark.parametrize("order", ["I II V1 V2 V3 V4 V5 V6", "V6 V5 II I V1 V2 V3 V4"])
def test_leads_by_name_in_mv_and_the_other_four_from_i_and_ii(tmp_path: Path, order: str) -> None:
    root = write(tmp_path, [0, 1, 2], order) / "hefei"
    recording = hefei.read(root, hefei.index(root).iloc[2]).clinical()
    stored = dict(zip(order.split(), steps(2).T * 0.00488))
    one, two = stored["I"], stored["II"]
    stored |= {
        "III": two - one,
        "aVR": -(one + two) / 2,
        "aVL": one - two / 2,
        "aVF": two - one / 2,
    }
    assert recording.unit == "mV"
    assert recording.signal.shape == (12, 5000)
    assert np.allclose(recording.signal, [stored[lead] for lead in LEADS], atol=1e-6)


def test_what_cannot_be_trusted_is_quarantined(tmp_path: Path) -> None:
    folder = write(tmp_path, [0, 1, 2]) / "hefei" / "hf_round2_train"
    text = (folder / "100001.txt").read_text()
    (folder / "100001.txt").write_text(text.replace("I II V1", "I III V1", 1))
    (folder / "100002.txt").write_text(text.replace(" ", "\t"))
    copy = prepare("hefei", tmp_path, tmp_path / "prepared")
    assert copy.index["record"].tolist() == ["100000"]
    reasons = copy.quarantined.set_index("record")["reason"]
    assert "the leads I, III, V1" in reasons["100001"]
    assert "cannot be read as a table of numbers" in reasons["100002"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("100001.txt\t63\tMALE\t完全性心脏传导阻滞", "carries 完全性心脏传导阻滞"),
        ("../100001.txt\t63\tMALE\t窦性心律", "begins with no file name"),
        ("\n", "has no lines"),
    ],
)
def test_a_label_file_of_something_else(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "hf_round2_train.txt").write_text(text, "utf-8")
    with pytest.raises(MissingData, match=f"{reason}.*round 2"):
        hefei.index(tmp_path)
    (tmp_path / "hf_round2_train.txt").write_bytes("100001.txt\t\t\t窦性心律".encode("gb18030"))
    with pytest.raises(MissingData, match="no text in UTF-8"):
        hefei.index(tmp_path)
