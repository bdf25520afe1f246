"""Headers of WFDB, and a table with another cell, for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd


def signal_lines(
    file: str, form: str, gain: str | Sequence[str], leads: Sequence[str], steps: np.ndarray
) -> list[str]:
    """The line of a header for each row of (lead, time), with its first value and checksum."""
    gains = [gain] * len(leads) if isinstance(gain, str) else gain
    sums = (steps.sum(axis=1, dtype=np.int64) + 2**15) % 2**16 - 2**15
    return [
        f"{file} {form} {own} 16 0 {row[0]} {total} 0 {lead}"
        for own, row, total, lead in zip(gains, steps, sums, leads, strict=True)
    ]


def change(file: Path, row: int, column: str, value: str) -> None:
    """Writes a value into a row (0: the first below the names) of a table of text."""
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table.loc[row, column] = value
    table.to_csv(file, index=False)
