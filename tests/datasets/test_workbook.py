"""Tables of Excel: cells stand in their columns as text, and what is no workbook is said."""

from pathlib import Path

import pytest

from ecgbench.datasets.indexing import tables
from ecgbench.errors import MissingData
from tests import workbook


def test_values_stand_in_their_columns_as_text(tmp_path: Path) -> None:
    rows = [
        ["FileName", None, "Beat ", "Age"],
        ["NA", None, "RBBB TWC", 85],
        [],
        ["007", None, None, 7],
    ]
    table = tables.of_workbook(
        workbook.write(tmp_path / "a.xlsx", rows), ["FileName", "Beat"], "URL"
    )
    assert table.to_dict("records") == [
        {"FileName": "NA", "Beat": "RBBB TWC", "Age": "85"},
        {"FileName": "007", "Beat": "", "Age": "7"},
    ]


def test_what_is_no_such_table(tmp_path: Path) -> None:
    cases = {"lacks the column Rhythm": [["FileName"], ["a"]], "lacks the column FileName": []}
    for said, rows in cases.items():
        file = workbook.write(tmp_path / "a.xlsx", rows)
        with pytest.raises(MissingData, match=said):
            tables.of_workbook(file, ["FileName", "Rhythm"], "URL")
    (tmp_path / "a.xlsx").write_text("<html>")
    with pytest.raises(MissingData, match="download it again from URL") as caught:
        tables.of_workbook(tmp_path / "a.xlsx", [], "URL")
    assert "\n" not in str(caught.value)
