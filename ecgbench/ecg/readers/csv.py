"""Text tables, a line per sample and a column per signal, with or without a line of names."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.ecg.readers.layout import Layout, recording, refused, there
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


def read(path: Path, record: str, patient: str, layout: Layout, separator: str = ",") -> Recording:
    """The recording in a table, in mV. Where `layout.leads` is None its first line names the
    signals.

    BadRecord for a file that is missing or is no table of numbers, and for an empty field.
    """
    named = layout.leads is None
    try:
        table = pd.read_csv(
            there(path, record),
            sep=separator,
            header=0 if named else None,
            dtype=np.float64,
            skipinitialspace=True,
        )
    except (ValueError, UnicodeError) as error:  # pandas' parser errors are ValueErrors
        raise refused(path, record, "a table of numbers", error) from error
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes what is too much for an index
        raise BadRecord(f"{record}: {path.name} has lines with more values than there are names")
    leads = tuple(map(str, table.columns)) if named else layout.leads
    return recording(
        table.to_numpy(), replace(layout, leads=leads, leads_first=False), record, patient
    )
