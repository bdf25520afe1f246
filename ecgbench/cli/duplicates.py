"""`ecgbench data duplicates`: the same recording in two places of prepared datasets."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ecgbench.cli.options import DATA, JSON, PREPARED, argument, flag, option
from ecgbench.core.text import counted, size
from ecgbench.errors import BadSetting

if TYPE_CHECKING:
    from ecgbench.data.duplicates import Pair

SHOWN = 40
"""Rows of the table on a terminal; --csv and --json have all."""
FIELDS = ("dataset", "record", "patient", "split")
COLUMNS = (*FIELDS, *(f"other {field}" for field in FIELDS), "shift", "correlation")
MEASURED = "docs/duplicates.md has how often it misses and how often it errs"


def duplicates(
    datasets: list[str] = argument("Prepared datasets: ptbxl, or ptbxl georgia ningbo."),
    within: bool = flag("Of several datasets, also pairs within each; of one always."),
    to: Path = option("Write all pairs to this file.", "--csv", metavar="FILE"),
    data: Path = DATA,
    prepared: Path = PREPARED,
    as_json: bool = JSON,
) -> None:
    """Find recordings that are there twice: within a dataset, or in two datasets under other names.

    Found again although cut elsewhere by some seconds, at another rate, in another unit, rounded or
    high-pass filtered. Pairs between training and test come first: a model has seen what it is
    tested on.

    On 2,000 recordings of PTB-XL: false matches: 0 of 1,999,000 pairs, 76 of them of one patient;
    copies altered in one of these ways were all found (docs/duplicates.md).

      ecgbench data duplicates brugada --data ~/ecg

      ecgbench data duplicates chapman ningbo --data ~/ecg --csv pairs.csv

    Exit 0, whether there are any or not.
    """
    from ecgbench import datasets as room
    from ecgbench.data import duplicates as search
    from ecgbench.data.prepare import held
    from ecgbench.study.progress import counting, display

    names = list(dict.fromkeys(map(room.resolve, datasets)))
    copies = [held(name, data, prepared) for name in names]
    shown = display()
    with counting("fingerprint", shown) as progress:
        table = search.Table.of(copies, progress)
    found = search.candidates(table, within or len(copies) == 1)
    with counting("compare candidates", shown) as progress:
        pairs = search.confirmed(table, found, progress)
    if to is not None:
        _write(to, pairs)
    _tell(pairs, as_json)
    if not as_json:
        records = sum(len(copy.index) for copy in copies)
        typer.echo(
            f"{' and '.join(names)}: {counted(len(pairs), 'pair')} among {records:,} records "
            f"({len(found):,} compared, hashes of {size(search.BYTES * len(table.hashes))}); "
            f"{_leaks(pairs)}; {MEASURED}"
        )


def _leaks(pairs: Sequence["Pair"]) -> str:
    crossing = sum(pair.leak == 0 for pair in pairs)
    others = sum(pair.first.patient != pair.second.patient for pair in pairs)
    return f"{crossing} between training and test, {others} under two patients"


def _tell(pairs: Sequence["Pair"], as_json: bool) -> None:
    from ecgbench.cli.lists import show

    rows = [dict(zip(COLUMNS, row)) for row in map(_row, pairs)]
    if as_json:
        show([{**r, "leak": p.leak == 0} for r, p in zip(rows, pairs)], True, COLUMNS)
    elif rows:
        show([{**row, "correlation": f"{row['correlation']:.4f}"} for row in rows[:SHOWN]], False,
             COLUMNS)  # fmt: skip
        if len(rows) > SHOWN:
            typer.echo(f"... and {len(rows) - SHOWN:,} more; all of them: --csv FILE")


def _row(pair: "Pair") -> tuple[Any, ...]:
    first, second = (tuple(asdict(place).values()) for place in (pair.first, pair.second))
    return (*first, *second, round(pair.shift, 3), round(pair.correlation, 6))


def _write(file: Path, pairs: Sequence["Pair"]) -> None:
    from ecgbench.core.files import put

    if file.is_dir():
        raise BadSetting(f"--csv {file} is a folder; name a file: --csv {file / 'pairs.csv'}")
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *map(_row, pairs)])
    put(file, out.getvalue())
