"""HDF5 by `h5py`: one array per file (SPH: `ecg`), or many recordings in one array (CODE-15%:
`tracings`).
"""

from pathlib import Path

from ecgbench.ecg.readers.layout import Layout, at, lacking, recording, refused, there
from ecgbench.ecg.recording import Recording


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
                raise lacking(path, record, layout, file)
            array = at(stored, position, path, record)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise refused(path, record, "HDF5", error) from error
    return recording(array, layout, record, patient)
