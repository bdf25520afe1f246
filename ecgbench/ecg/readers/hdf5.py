"""HDF5 by `h5py`: one array per file (SPH: `ecg`), or many recordings in one array (CODE-15%:
`tracings`).
"""

from pathlib import Path

from ecgbench.ecg.readers.layout import Layout, recording, refused, there
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


def read(
    path: Path, record: str, patient: str, layout: Layout, position: int | None = None
) -> Recording:
    """The recording in the dataset `layout.variable` of a file, in mV; `position` is its row where
    there are many.

    BadRecord for a file that is missing or damaged, a dataset or a row that is not there.
    """
    import h5py

    there(path, record)
    try:
        with h5py.File(path, "r") as file:
            stored = file.get(layout.variable)
            if not isinstance(stored, h5py.Dataset):
                raise BadRecord(
                    f"{record}: {path.name} holds no array {layout.variable!r}; it holds "
                    f"{', '.join(file)}"
                )
            if position is not None and not 0 <= position < len(stored):
                raise BadRecord(
                    f"{record}: {path.name} holds {len(stored)} recordings, none at position "
                    f"{position}"
                )
            array = stored[()] if position is None else stored[position]
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise refused(path, record, "HDF5", error) from error
    return recording(array, layout, record, patient)
