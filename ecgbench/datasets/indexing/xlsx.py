"""The first sheet of an .xlsx workbook as text, by the standard library: a ZIP archive of XML.

Enough for a plain table. A formula gives the value that was saved with it, a date its number.
"""

import re
import zipfile
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd

from ecgbench.core.text import one_line
from ecgbench.datasets.indexing import tables
from ecgbench.errors import MissingData

RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def read(file: Path, columns: Sequence[str], url: str) -> pd.DataFrame:
    """The table whose names are the first row of the first sheet, every value a str; empty rows are
    left out.

    MissingData where it is no workbook, lacks a column or has no rows; `url` is where it is
    published.
    """
    try:
        with zipfile.ZipFile(file) as book:
            head, *body = list(_rows(book))
    except (OSError, LookupError, ValueError, zipfile.BadZipFile, ElementTree.ParseError) as error:
        raise MissingData(
            f"{file} is no workbook with a table ({one_line(error)}); download it again from {url}"
        ) from error
    names = {name.strip(): at for at, name in head.items() if name.strip()}
    table = pd.DataFrame(
        [[row.get(at, "") for at in names.values()] for row in body if any(row.values())],
        columns=list(names),
        dtype=object,
    )
    return tables.with_columns(table, columns, file, url)


def _rows(book: zipfile.ZipFile) -> Iterator[dict[int, str]]:
    """Column number -> text of each row; cells that are empty need not be in the file."""
    shared: list[str] = []
    if "xl/sharedStrings.xml" in book.namelist():
        shared = [_text(e) for e in _parsed(book, "xl/sharedStrings.xml").iterfind("{*}si")]
    for row in _parsed(book, _first_sheet(book)).iterfind("{*}sheetData/{*}row"):
        cells: dict[int, str] = {}
        at = -1
        for cell in row.iterfind("{*}c"):
            at = _column(cell.get("r", "")) if cell.get("r") else at + 1
            inline, value = cell.find("{*}is"), cell.findtext("{*}v", "")
            if inline is not None:
                value = _text(inline)
            elif cell.get("t") == "s":
                value = shared[int(value)]
            cells[at] = value
        yield cells


def _first_sheet(book: zipfile.ZipFile) -> str:
    """The member of the archive that holds the sheet which the workbook names first."""
    sheet = _parsed(book, "xl/workbook.xml").find("{*}sheets/{*}sheet")
    links = _parsed(book, "xl/_rels/workbook.xml.rels").iterfind("{*}Relationship")
    targets = {link.get("Id"): link.get("Target", "") for link in links}
    target = targets[None if sheet is None else sheet.get(RELATION)]
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _parsed(book: zipfile.ZipFile, member: str) -> ElementTree.Element:
    return ElementTree.fromstring(book.read(member))


def _text(element: ElementTree.Element) -> str:
    """The text of a string: one piece, or runs of several formats; readings (`rPh`) are none."""
    runs = [element, *element.iterfind("{*}r")]
    return "".join(run.findtext("{*}t", "") for run in runs)


def _column(reference: str) -> int:
    """The number of a cell's column from 0.

    >>> _column("A1"), _column("Z9"), _column("AB12")
    (0, 25, 27)
    """
    letters = re.match("[A-Z]+", reference)
    if letters is None:
        raise ValueError(f"{reference!r} is no reference to a cell")
    return reduce(lambda number, c: 26 * number + ord(c) - ord("A") + 1, letters[0], 0) - 1
