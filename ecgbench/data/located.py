"""Which files a record may be read from: those below the dataset's folder, of a length that its
card makes likely. Nothing is decoded here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecgbench.core.cards import DatasetCard
from ecgbench.datasets.indexing.tables import within
from ecgbench.errors import BadRecord

LONGEST = 60
"""Times the usual number of samples from which on a record is taken for another file: ten minutes
where 10 s are usual.
"""
BYTES, LETTERS = 8, 16
"""Bytes of a number at most, in a file of numbers, and in a text."""
TEXTS = {".csv", ".tsv", ".txt"}


def demand_readable(root: Path, row: Mapping[str, Any], card: DatasetCard) -> None:
    """BadRecord where the file of a row of the index does not lie below `root`, or is so long that
    it cannot be the record; nothing where there is no such file, which its reader says better.
    Recordings of one's own may have any length.

    A record of WFDB is as long as its header says, any other at most as its bytes; files that hold
    many records (with a `position`) may be of any size.
    """
    record = row["record"]
    if not row["path"]:  # no file of the release holds it
        return
    path = within(root, row["path"], record)
    if card.any_leads:
        return
    usual = card.seconds * card.fs
    header = path if path.suffix == ".hea" else path.with_name(f"{path.name}.hea")
    if header.is_file():
        stated = _samples(header)
        if stated > LONGEST * usual:
            raise BadRecord(
                f"{record}: {header.name} states {stated:,} samples, more than {LONGEST} times the "
                f"{usual:,.0f} that are usual; nothing was read"
            )
    elif path.is_file() and "position" not in row:
        each = LETTERS if path.suffix.lower() in TEXTS else BYTES
        size, most = path.stat().st_size, LONGEST * usual * len(card.leads) * each
        if size > most:
            raise BadRecord(
                f"{record}: {path.name} has {size:,} bytes, and {LONGEST} times the usual length "
                f"would take {most:,.0f}; nothing was read"
            )


def _samples(header: Path) -> int:
    """What the first line of a header states, `NAME SIGNALS RATE SAMPLES`; 0 where it does not."""
    with header.open(encoding="utf-8", errors="replace") as file:
        first = next((line for line in file if line.strip() and not line.startswith("#")), "")
    words = first.split()
    stated = words[3] if len(words) > 3 else ""
    return int(stated) if stated.isdecimal() and len(stated) < 19 else 0
