"""The same samples in two splits: what a model was trained on is then tested."""

import pandas as pd

from ecgbench.core.text import counted

SHOWN = 3
"""Groups of records that a sentence names."""


def crossing(index: pd.DataFrame) -> str:
    """Which records of a prepared index hold the same samples, bit for bit, and stand in several
    splits, in a few words; "" where none do.
    """
    splits = index.groupby("sha256")["split"].transform("nunique")
    own = index[splits > 1].sort_values("record")
    if own.empty:
        return ""
    groups = [
        " = ".join(f"{record} ({split})" for record, split in zip(group["record"], group["split"]))
        for _, group in own.groupby("sha256", sort=False)
    ]
    rest = "; ..." if groups[SHOWN:] else ""
    return (
        f"{counted(len(groups), 'recording')} in two splits or more under several records: "
        f"{'; '.join(groups[:SHOWN])}{rest}"
    )
