"""Workbooks as spreadsheet programs write them: shared and inline strings, gaps, several sheets."""

import zipfile
from pathlib import Path

import pytest

from ecgbench.datasets.indexing import xlsx
from ecgbench.errors import MissingData

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PARTS = {
    # the second file is the first sheet
    "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{OFFICE}"><sheets><sheet name="a" sheetId="4" '
    'r:id="rId7"/><sheet name="b" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": "<Relationships xmlns="
    '"http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/>'
    '<Relationship Id="rId7" Target="/xl/worksheets/sheet2.xml"/></Relationships>',
    "xl/sharedStrings.xml": f"<sst {MAIN}><si><t>FileName</t></si><si><t>Beat </t></si><si><r><t>R"
    '</t></r><r><rPr><b/></rPr><t xml:space="preserve">BBB TWC</t></r><rPh sb="0" eb="1"><t>no</t>'
    "</rPh></si></sst>",
    "xl/worksheets/sheet1.xml": f"<worksheet {MAIN}><sheetData/></worksheet>",
    "xl/worksheets/sheet2.xml": f"<worksheet {MAIN}><sheetData>"
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c>'
    '<c r="AA1" t="inlineStr"><is><t>Age</t></is></c></row>'
    '<row r="2"><c r="A2" t="str"><f>"NA"</f><v>NA</v></c><c r="C2" t="s"><v>2</v></c>'
    '<c r="AA2"><v>85</v></c></row>'
    '<row r="3"><c r="C3" s="1"/></row>'
    '<row r="4"><c r="AA4"><v>7</v></c></row></sheetData></worksheet>',
}


def write(file: Path, parts: dict[str, str]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book:
        for name, text in parts.items():
            book.writestr(name, text)
    return file


def test_values_stand_in_their_columns_as_text(tmp_path: Path) -> None:
    table = xlsx.read(write(tmp_path / "a.xlsx", PARTS), ["FileName", "Beat"], "URL")
    assert table.to_dict("records") == [
        {"FileName": "NA", "Beat": "RBBB TWC", "Age": "85"},
        {"FileName": "", "Beat": "", "Age": "7"},
    ]


def test_cells_without_references_follow_one_another(tmp_path: Path) -> None:
    sheet = "<row><c t='s'><v>0</v></c><c t='s'><v>1</v></c></row><row><c><v>1</v></c></row>"
    parts = PARTS | {
        "xl/worksheets/sheet2.xml": f"<worksheet {MAIN}><sheetData>{sheet}</sheetData></worksheet>"
    }
    (row,) = xlsx.read(write(tmp_path / "a.xlsx", parts), [], "URL").to_dict("records")
    assert row == {"FileName": "1", "Beat": ""}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (PARTS, "lacks the column Rhythm"),
        ({}, "no workbook with a table"),
        (PARTS | {"xl/worksheets/sheet2.xml": "<worksheet"}, "no workbook with a table"),
        (PARTS | {"xl/worksheets/sheet2.xml": f"<worksheet {MAIN}/>"}, "no workbook with a table"),
        (PARTS | {"xl/sharedStrings.xml": f"<sst {MAIN}/>"}, "no workbook with a table"),
    ],
)
def test_what_is_no_such_table(tmp_path: Path, parts: dict[str, str], reason: str) -> None:
    with pytest.raises(MissingData, match=reason) as caught:
        xlsx.read(write(tmp_path / "a.xlsx", parts), ["FileName", "Rhythm"], "URL")
    assert "\n" not in str(caught.value)


def test_a_page_saved_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_text("<html>")
    with pytest.raises(MissingData, match="download it again from URL"):
        xlsx.read(tmp_path / "a.xlsx", [], "URL")
