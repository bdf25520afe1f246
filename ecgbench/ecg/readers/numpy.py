"""numpy's own files: one array per file, or many recordings in one array (EchoNext), or arrays by
name (.npz).
"""

from pathlib import Path

import numpy as np

from ecgbench.ecg.readers.layout import Layout, at, lacking, recording, refused, there
from ecgbench.ecg.recording import Recording


def read(
    path: Path, record: str, patient: str, layout: Layout, position: int | None = None
) -> Recording:
    """The recording in a .npy, or in `layout.variable` of a .npz, in mV; `position` is its row
    where there are many.

    Of a .npy only that row is read from the disk. BadRecord for a file that is missing, damaged or
    holds Python objects (they would run code), an array or a row that is not there.
    """
    try:
        stored = np.load(there(path, record), mmap_mode="r", allow_pickle=False)
        if not isinstance(stored, np.ndarray):
            with stored:
                if layout.variable not in stored:
                    raise lacking(path, record, layout, stored)
                stored = stored[layout.variable]
    except (OSError, ValueError, EOFError) as error:
        raise refused(path, record, "an array of numpy", error) from error
    return recording(at(stored, position, path, record), layout, record, patient)
