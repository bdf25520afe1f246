"""Places of the scores of a row, as a table colours them."""

from collections.abc import Iterable


def ranks(values: Iterable[float | None], direction: str = "higher") -> list[int | None]:
    """1, 2, 3 for the three best distinct values, equal values alike.

    None for the rest, and for all if nothing is compared.

    >>> ranks([0.94, 0.95, None, 0.95, 0.90, 0.80])
    [2, 1, None, 1, 3, None]
    >>> ranks([0.9, None])
    [None, None]
    """
    values = list(values)
    there = [value for value in values if value is not None]
    top = sorted(set(there), reverse=direction == "higher")[:3] if len(there) > 1 else []
    return [top.index(value) + 1 if value in top else None for value in values]
