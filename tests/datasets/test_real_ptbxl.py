"""Genuine PTB-XL recordings: labels counted another way, Einthoven's laws, published checksums,
faulty native files.
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare
from ecgbench.datasets import ptbxl
from ecgbench.ecg.readers import wfdb as reader
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

pytestmark = [pytest.mark.real, pytest.mark.long]

DEFECTIVE = {"00162", "00551"}
"""Records of the release whose augmented leads do not follow from I and II."""


def _read(root: Path, record: str) -> Recording:
    return ptbxl.read(root, ptbxl.index(root).set_index("record", drop=False).loc[record])


@pytest.fixture(scope="module")
def copy(real_ptbxl: Path) -> Copy:
    return prepare("ptbxl", real_ptbxl, None)


def test_label_counts_by_text_search_and_the_published_class_table(real_ptbxl: Path) -> None:
    """Codes are found with a regular expression; classes through scp_statements.csv instead of the
    shipped table.
    """
    table = pd.read_csv(real_ptbxl / "ptbxl" / "ptbxl_database.csv")
    statements = pd.read_csv(real_ptbxl / "ptbxl" / "scp_statements.csv", index_col=0)
    found = ptbxl.index(real_ptbxl / "ptbxl")
    assert len(found) == len(table) == 2000
    counts: Counter[str] = Counter()
    for text in table["scp_codes"]:
        codes = re.findall(r"'([^']+)':", text)
        counts.update(f"ptbxl_all:{c}" for c in codes)
        diagnostic = statements.loc[[c for c in codes if statements.loc[c, "diagnostic"] == 1]]
        counts.update(f"ptbxl_super:{c}" for c in diagnostic["diagnostic_class"].unique())
        counts.update(f"ptbxl_sub:{c}" for c in diagnostic["diagnostic_subclass"].unique())
    columns = [c for c in found.columns if ":" in c]
    assert {c: int(found[c].sum()) for c in columns if found[c].any()} == dict(counts)
    for flag in ("diagnostic", "form", "rhythm"):
        task = ptbxl.CARD.task({"diagnostic": "ptbxl_diag"}.get(flag, f"ptbxl_{flag}"))
        assert set(task.labels) == set(statements.index[statements[flag] == 1])
    assert sorted(found["patient"].astype(int)) == sorted(table["patient_id"].astype(int))


def test_every_record_is_kept_and_einthoven_holds_within_2_microvolts(copy: Copy) -> None:
    assert copy.quarantined.empty
    assert len(copy.index) == 2000
    assert (copy.index["flat"] == "").all()
    wrong = set()
    for record in copy.index["record"]:
        steps, gain = copy.stored(record)
        assert (gain == 1000).all()
        i, ii, iii, avr, avl, avf = steps[:6].astype(np.int32)
        # doubled, so that halves stay whole; 4 half-steps are 2 uV
        off = (2 * (iii - ii + i), 2 * avr + i + ii, 2 * avl - 2 * i + ii, 2 * avf - 2 * ii + i)
        if max(int(np.abs(o).max()) for o in off) > 4:
            wrong.add(record)
    assert wrong == DEFECTIVE & set(copy.index["record"])


def test_a_record_reads_as_wfdb_converts_it(real_ptbxl: Path) -> None:
    import wfdb

    for record in ("00001", "00162"):
        path = real_ptbxl / "ptbxl" / "records500" / "00000" / f"{record}_hr"
        signal, fields = wfdb.rdsamp(str(path))
        assert [n.upper() for n in fields["sig_name"]] == [n.upper() for n in ptbxl.CARD.leads]
        np.testing.assert_array_equal(
            _read(real_ptbxl / "ptbxl", record).signal, signal.T.astype(np.float32)
        )


@pytest.mark.parametrize(
    ("file", "gain", "reason"),
    [
        ("ptb-xl/HR00001", 1000, "gain 200 per mV, expected 1000"),
        ("ptb/S0001", 1000, "gain 2e\\+06 per mV, expected 1000"),
    ],
)
def test_pre_release_headers_are_refused_not_misread(
    real_data: Path, file: str, gain: float, reason: str
) -> None:
    with pytest.raises(BadRecord, match=reason):
        reader.read(
            real_data / "samples" / "quirky-2020-headers" / file, "x", "x", expected_gain=gain
        )
