"""A table with another cell, for tests."""

from pathlib import Path

import pandas as pd


def change(file: Path, row: int, column: str, value: str) -> None:
    """Writes a value into a row (0: the first below the names) of a table of text."""
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table.loc[row, column] = value
    table.to_csv(file, index=False)
