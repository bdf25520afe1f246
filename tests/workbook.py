"""A workbook of Excel with one sheet, as spreadsheet programs write it, for tests."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Override '
    f'PartName="/xl/workbook.xml" ContentType="{_SHEET}"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
    f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship '
    f'Id="rId7" Type="{_OFFICE}/worksheet" Target="worksheets/sheet2.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook {_MAIN} xmlns:r="{_OFFICE}"><sheets><sheet name="a" sheetId="4" '
    'r:id="rId7"/></sheets></workbook>',
}


def write(file: Path, rows: Sequence[Sequence[str | int | None]]) -> Path:
    """Numbers as numbers, other cells as shared strings; None is no cell."""
    texts = sorted({value for row in rows for value in row if isinstance(value, str)})
    body = "".join(
        f'<row r="{y}">{"".join(_cell(y, x, value, texts) for x, value in enumerate(row))}</row>'
        for y, row in enumerate(rows, 1)
    )
    strings = "".join(f"<si><t>{escape(text)}</t></si>" for text in texts)
    parts = _PARTS | {
        "xl/worksheets/sheet2.xml": f"<worksheet {_MAIN}><sheetData>{body}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"<sst {_MAIN}>{strings}</sst>",
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book:
        for name, text in parts.items():
            book.writestr(name, text)
    return file


def _cell(y: int, x: int, value: str | int | None, texts: list[str]) -> str:
    at = f"{chr(ord('A') + x)}{y}"
    if value is None:
        return ""
    if isinstance(value, str):
        return f'<c r="{at}" t="s"><v>{texts.index(value)}</v></c>'
    return f'<c r="{at}"><v>{value}</v></c>'
