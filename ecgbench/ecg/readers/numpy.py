"""numpy's own files: one array per file, or many recordings in one array (EchoNext), or arrays by
name (.npz).
"""

from pathlib import Path

import numpy as np

from ecgbench.ecg.readers.layout import Layout, recording, refused, there
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


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
                    raise BadRecord(
                        f"{record}: {path.name} holds no array {layout.variable!r}; it holds "
                        f"{', '.join(stored)}"
                    )
                stored = stored[layout.variable]
    except (OSError, ValueError, EOFError) as error:
        raise refused(path, record, "an array of numpy", error) from error
    if position is not None and not 0 <= position < len(stored):
        raise BadRecord(
            f"{record}: {path.name} holds {len(stored)} recordings, none at position {position}"
        )
    return recording(
        np.asarray(stored if position is None else stored[position]), layout, record, patient
    )
