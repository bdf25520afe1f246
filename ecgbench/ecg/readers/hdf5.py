"""HDF5 by `h5py`: one array per file (SPH: `ecg`), or many recordings in one array (CODE-15%:
`tracings`).
"""

from pathlib import Path

from ecgbench.ecg.readers.arrays import (
    FileFormat,
    at,
    existing_file,
    no_array,
    recording,
    unreadable,
)
from ecgbench.ecg.recording import Recording


def read(
    path: Path, record: str, patient: str, file_format: FileFormat, position: int | None = None
) -> Recording:
    """The recording in the dataset `file_format.variable` of a file, in mV; `position` is its row
    where there are many.

    BadRecord for a file that is missing or damaged, a dataset or a row that is not there.
    """
    import h5py

    existing_file(path, record)
    try:
        with h5py.File(path, "r") as file:
            stored = file.get(file_format.variable)
            if not isinstance(stored, h5py.Dataset):
                raise no_array(path, record, file_format, file)
            array = at(stored, position, path, record)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise unreadable(path, record, "HDF5", error) from error
    return recording(array, file_format, record, patient)
