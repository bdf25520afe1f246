"""Columns of tables that print a number with its interval."""

from collections.abc import Callable, Sequence
from typing import Any

from ecgbench.reports._section import Column, Row, TableCell
from ecgbench.reports._text import points, signed, signed_bracket

DIFFERENCE = ("difference", "low", "high")


def difference_column(
    names: Sequence[str] = DIFFERENCE, note: str = "95 % interval", heading: str = ""
) -> Column:
    """Prints a difference in points with its interval. names: the columns of its value and of the
    ends of its interval.
    """
    return Column(
        names[0], heading, "number", note=note, cell=lambda row: difference_cell(row, *names)
    )


def difference_cell(
    row: Row, name: str = "difference", low: str = "low", high: str = "high"
) -> Any:
    """A difference in points with its interval; "" where there is none."""
    if row.get(name) is None:
        return ""
    return TableCell(signed(row[name]), small=signed_bracket(row[low], row[high]))


def estimate_column(
    names: Sequence[str], spell: Callable[[Any], str] = points, note: str = "95 % interval"
) -> Column:
    """Prints a number with its interval. names: the columns of its value and of the ends."""

    def cell(row: Row) -> TableCell | None:
        value, *ends = (row[name] for name in names)
        if value is None:
            return None
        known = all(end is not None and end == end for end in ends)
        return TableCell(spell(value), small=f"[{', '.join(map(spell, ends))}]" if known else "")

    return Column(names[0], kind="number", note=note, cell=cell)
