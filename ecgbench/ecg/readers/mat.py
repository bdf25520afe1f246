"""MATLAB files up to version 7 by `scipy.io`: the `val` of PhysioNet's challenges (version 4),
arrays, and fields of structs.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.ecg.readers.arrays import FileFormat, existing_file, recording, unreadable
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


def read(path: Path, record: str, patient: str, file_format: FileFormat) -> Recording:
    """The recording in the array `file_format.variable` (`val`, or `ECG.data` of a struct) of a
    .mat file, in mV.

    BadRecord for a file that is missing, damaged or of version 7.3 (which is HDF5), and for an
    array that is not there.
    """
    first, *fields = file_format.variable.split(".")
    value = _variable(existing_file(path, record), first, record)
    try:
        for field in fields:
            value = value[field][0, 0]
    # numpy's, by what the variable is instead
    except (ValueError, IndexError, KeyError, TypeError):
        raise BadRecord(f"{record}: {path.name} holds no {file_format.variable}") from None
    return recording(np.asarray(value), file_format, record, patient)


def _variable(path: Path, name: str, record: str) -> Any:
    from scipy.io import loadmat

    try:
        variables = loadmat(path, variable_names=[name])
    except NotImplementedError:
        raise BadRecord(
            f"{record}: {path.name} is of MATLAB 7.3, which is HDF5; read it with ecg.readers.hdf5"
        ) from None
    except Exception as error:
        raise unreadable(path, record, "a MATLAB file", error) from error
    if name not in variables:
        raise BadRecord(f"{record}: {path.name} holds no {name}")
    return variables[name]
