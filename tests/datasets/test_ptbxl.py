"""PTB-XL's index: labels by code, folds, and a table that cannot be trusted."""

from pathlib import Path

import pandas as pd
import pytest

from ecgbench.datasets import ptbxl
from ecgbench.errors import BadRecord
from tests.datasets.written import change


def test_a_code_counts_whatever_its_likelihood_and_classes_follow_diagnostic_codes(
    fake_ptbxl: Path,
) -> None:
    # {"ASMI": 0.0, "CLBBB": 100.0, "STACH": 0.0}
    row = ptbxl.index(fake_ptbxl / "ptbxl").set_index("record").loc["00006"]
    present = {c for c in row.index if ":" in c and row[c] == 1}
    assert present == {
        "ptbxl_all:ASMI",
        "ptbxl_all:CLBBB",
        "ptbxl_all:STACH",
        "ptbxl_sub:AMI",
        "ptbxl_sub:CLBBB",
        "ptbxl_super:MI",
        "ptbxl_super:CD",
    }
    assert (row["patient"], row["split"], row["fold"], row["path"]) == (
        "1005",
        "train",
        3,
        "records500/00000/00006_hr",
    )


def test_folds_make_the_splits_and_every_superclass_has_both_values(fake_ptbxl: Path) -> None:
    found = ptbxl.index(fake_ptbxl / "ptbxl")
    assert found["split"].value_counts().to_dict() == {"train": 16, "val": 7, "test": 7}
    assert found["patient"].nunique() == 27
    for _, part in found.groupby("split"):
        assert part[ptbxl.CARD.task("ptbxl_super").columns].nunique().eq(2).all()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("scp_codes", "{'NORM': 100.0, 'XYZ': 0.0}"),
        ("scp_codes", "{'NORM': __import__('os').getcwd()}"),
        ("scp_codes", "['NORM']"),
        ("scp_codes", ""),
        ("scp_codes", "{{}: 1}"),
        ("scp_codes", "{" + "-" * 30_000 + "1: 1}"),
        ("scp_codes", "9" * 5000),
        ("scp_codes", "{7: 1, None: 2, ('NORM',): 3, b'NORM': 4}"),
        ("scp_codes", "{'\\ud800\x1b': 1}"),
        ("patient_id", "1e3"),
        ("ecg_id", "0x5"),
        ("strat_fold", "11"),
        ("strat_fold", "10.7"),
        ("patient_id", ""),
        ("filename_hr", ""),
    ],
)
def test_a_row_that_cannot_be_trusted_stops(fake_ptbxl: Path, column: str, value: str) -> None:
    change(fake_ptbxl / "ptbxl" / "ptbxl_database.csv", 4, column, value)
    with pytest.raises(BadRecord, match="a row cannot be understood") as caught:
        ptbxl.index(fake_ptbxl / "ptbxl")
    assert "\n" not in str(caught.value)


def test_ids_are_what_the_file_says_and_two_of_them_stay_two(fake_ptbxl: Path) -> None:
    """A float would make one patient of 2^53 and 2^53 + 1."""
    file = fake_ptbxl / "ptbxl" / "ptbxl_database.csv"
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    patients = [str(2**53), str(2**53 + 1), "00017.0"]
    table.loc[range(3), "patient_id"] = patients
    table.loc[range(2), "ecg_id"] = [str(2**53 + 1), "00004"]
    table.to_csv(file, index=False)
    found = ptbxl.index(fake_ptbxl / "ptbxl")
    assert found["patient"].tolist()[:3] == [*patients[:2], "17"]
    assert found["record"].tolist()[:3] == [str(2**53 + 1), "00004", "00003"]
