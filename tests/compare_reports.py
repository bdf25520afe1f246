"""Two reports of one study, before and after a change of shape: `python tests/compare_reports.py
BEFORE AFTER`.

Each is a folder that `ecgbench report` wrote. Compared to the last digit: every row and number of
the CSV files, every table line of main_table.md and main_table.tex, and every number that the
tables of index.html print. Exit code 1 and one line per difference where a digit differs.

Exempt, because they may change without a score changing: keys, paths, times (EXEMPT), the order of
rows and of columns, notes in words, what `doctor` and the dry run tell, and the bytes of pictures.
Columns that were renamed are compared under their new name (RENAMED).
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd

EXEMPT = {"key", "path", "seconds", "reason", "lost", "note", "commit", "uncommitted"}
"""Columns that hold no score; `lost` counts the classes that a bootstrap lost."""
RENAMED = {"macro_auroc": "value", "auroc": "value"}
TABLES = {
    "main_table": ["task", "model", "leads", "policy"],
    "comparisons": ["task", "leads", "model", "policy"],
    "cells": ["task", "model", "setting", "fit_seed", "policy"],
    "labels": ["task", "model", "setting", "policy", "label"],
    "lead_curve": ["task", "model", "policy", "leads"],
}
"""CSV file -> the columns that name a row."""
NUMBER = re.compile(r"[-−+]?\d[\d,]*\.?\d*")


def differences(before: Path, after: Path) -> Iterator[str]:
    """One line for each difference between two report folders."""
    for name, identity in TABLES.items():
        old, new = (_table(folder / f"{name}.csv", identity) for folder in (before, after))
        yield from _of_tables(name, old, new)
    for name, mark in (("main_table.md", "|"), ("main_table.tex", "&")):
        old_lines, new_lines = (_lines(folder / name, mark) for folder in (before, after))
        yield from (f"{name}: lost: {line}" for line in (old_lines - new_lines).elements())
    lost = _printed(before / "index.html") - _printed(after / "index.html")
    yield from (f"index.html: a table no longer prints: {text}" for text in lost.elements())


def _table(path: Path, identity: list[str]) -> pd.DataFrame:
    """A CSV file as text under its rows' names; one metric, so that old and new files compare."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False).rename(columns=RENAMED)
    if "metric" in table:
        table = table[table["metric"] == "auroc"].drop(columns="metric")
    return table.set_index(identity).drop(columns=[c for c in EXEMPT if c in table])


def _of_tables(name: str, old: pd.DataFrame, new: pd.DataFrame) -> Iterator[str]:
    if not old.index.is_unique or not new.index.is_unique:
        yield f"{name}.csv: two rows have one name"
        return
    for row in old.index.difference(new.index):
        yield f"{name}.csv: no row {row} any more"
    for row in new.index.difference(old.index):
        yield f"{name}.csv: a new row {row}"
    for column in old.columns.difference(new.columns):
        yield f"{name}.csv: no column {column} any more"
    rows, columns = old.index.intersection(new.index), old.columns.intersection(new.columns)
    for column in columns:
        pairs = zip(rows, old.loc[rows, column], new.loc[rows, column])
        for row, a, b in pairs:
            if a != b and not _equal(a, b):
                yield f"{name}.csv {row} {column}: {a} became {b}"


def _equal(a: str, b: str) -> bool:
    """Whether two texts spell the same number."""
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def _lines(path: Path, mark: str) -> Counter[str]:
    return Counter(
        line for line in path.read_text().splitlines() if mark in line and NUMBER.search(line)
    )


class _Cells(HTMLParser):
    """The texts of all cells of all tables."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("td", "th"):
            self._depth += 1
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._depth > 0:
            self.texts[-1] += data


def _printed(path: Path) -> Counter[str]:
    """Scores that the tables of a page print: numbers with a decimal point."""
    parser = _Cells()
    parser.feed(path.read_text())
    return Counter(n for text in parser.texts for n in NUMBER.findall(text) if "." in n.rstrip("."))


if __name__ == "__main__":
    lines = list(differences(*map(Path, sys.argv[1:3])))
    print("\n".join(lines[:200]) or f"no digit differs: {sys.argv[1]} and {sys.argv[2]}")
    print(f"{len(lines)} differences") if lines else None
    sys.exit(bool(lines))
