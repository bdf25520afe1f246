"""MATLAB files up to version 7 by `scipy.io`: the `val` of PhysioNet's challenges (version 4),
arrays, and fields of structs.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.ecg.readers.layout import Layout, recording, refused, there
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord


def read(path: Path, record: str, patient: str, layout: Layout) -> Recording:
    """The recording in the array `layout.variable` (`val`, or `ECG.data` of a struct) of a .mat
    file, in mV.

    BadRecord for a file that is missing, damaged or of version 7.3 (which is HDF5), and for an
    array that is not there.
    """
    first, *fields = layout.variable.split(".")
    value = _variable(there(path, record), first, record)
    try:
        for field in fields:
            value = value[field][0, 0]
    # numpy's, by what the variable is instead
    except (ValueError, IndexError, KeyError, TypeError):
        raise BadRecord(f"{record}: {path.name} holds no {layout.variable}") from None
    return recording(np.asarray(value), layout, record, patient)


def _variable(path: Path, name: str, record: str) -> Any:
    from scipy.io import loadmat

    try:
        variables = loadmat(path, variable_names=[name])
    except NotImplementedError:
        raise BadRecord(
            f"{record}: {path.name} is of MATLAB 7.3, which is HDF5; read it with ecg.readers.hdf5"
        ) from None
    except Exception as error:
        raise refused(path, record, "a MATLAB file", error) from error
    if name not in variables:
        raise BadRecord(f"{record}: {path.name} holds no {name}")
    return variables[name]
