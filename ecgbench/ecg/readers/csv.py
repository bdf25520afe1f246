"""Text tables, a line per sample and a column per signal, with or without a line of names."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.ecg.readers.arrays import FileFormat, existing_file, recording, unreadable
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


def read(
    path: Path, record: str, patient: str, file_format: FileFormat, separator: str = ","
) -> Recording:
    """The recording in a table, in mV. Where `file_format.leads` is None its first line names the
    signals.

    BadRecord for a file that is missing or is no table of numbers, and for an empty field.
    """
    named = file_format.leads is None
    try:
        table = pd.read_csv(
            existing_file(path, record),
            sep=separator,
            header=0 if named else None,
            dtype=np.float64,
            skipinitialspace=True,
        )
    except (ValueError, UnicodeError) as error:  # pandas' parser errors are ValueErrors
        raise unreadable(path, record, "a table of numbers", error) from error
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes what is too much for an index
        raise BadRecord(f"{record}: {path.name} has lines with more values than there are names")
    leads = tuple(map(str, table.columns)) if named else file_format.leads
    return recording(
        table.to_numpy(), replace(file_format, leads=leads, leads_first=False), record, patient
    )
