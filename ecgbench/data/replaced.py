"""Whether recordings were replaced since a copy was made of them, by others of the same size and
time stamp: what has another inode or time of its last change is compared by its contents.

    <prepared copy>/files-<sha256 of the root's path>    (file, 3): inode and time of the last
                                                         change, and 1 where it was compared since

Where a data folder was moved or restored, all have changed and few were replaced: of many, some
that are drawn are compared when a copy is opened, and all of them by `ecgbench data prepare`.
"""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.core.sealed import seal_bytes, unsealed_bytes
from ecgbench.data import encoded
from ecgbench.data.again import read_again
from ecgbench.data.manifest import drawn
from ecgbench.data.source import Source, identity, rows
from ecgbench.data.store import Prepared, damaged
from ecgbench.errors import BadRecord, WriteError

MOST = 2_000
"""Records that are compared when a copy is opened."""


def note(source: Source, folder: Path, compared: np.ndarray | int = 1) -> None:
    """Write the states of the files of which the copy in `folder` was made; compared: (file,)."""
    states = source.states.copy()
    states[:, 2] = compared
    with suppress(WriteError):  # they are compared again
        seal_bytes(_file(source, folder), states.tobytes())


def demand_same(copy: Prepared, thorough: bool = False) -> None:
    """DamagedCopy where a file that has changed since the copy was made of it holds another
    recording. thorough: compare all that never were, not some of them.

    What cannot be read cannot be compared: the copy stays, and is compared another time.
    """
    source, content = copy.source, unsealed_bytes(_file(copy.source, copy.folder)) or b""
    before = np.frombuffer(content, "<u8").reshape(-1, 3)
    known = source.identity == identity(before) and (before[:, 2].all() or not thorough)
    if known or not copy.digest or source.root is None:
        return
    if len(before) != len(source.states):
        before = np.zeros_like(source.states)
    sure = (before == source.states).all(axis=1)
    same = sure if thorough else (before == source.states)[:, :2].all(axis=1)
    left = {path for (path, *_), known in zip(source.files, same) if not known}
    index = copy.index
    index = index[index["path"].isin(left | {path.rpartition(".")[0] for path in left})]
    chosen = index.index.tolist() if thorough else drawn(source.name, index.index.tolist(), MOST)
    with suppress(OSError):
        if why := _changed(copy, index.loc[chosen]):
            error = damaged(copy.name, copy.folder, f"was made of other files: {why}")
            error.why = f"was made of other files ({why})"
            raise error
        note(source, copy.folder, sure | (len(chosen) == len(index)))


def _changed(copy: Prepared, index: pd.DataFrame) -> str:
    labelled = copy.source.index.merge(copy.index[["record", "sha256"]], on="record")
    if encoded.digest(labelled) != copy.digest:
        return "a label, a patient or a split has changed"
    for row in rows(index):
        with suppress(BadRecord):
            if encoded.sha256(*read_again(copy.source, row)) == row["sha256"]:
                continue
        return f"record {row['record']} has changed"
    return ""


def _file(source: Source, folder: Path) -> Path:
    return folder / f"files-{sha256(os.fsencode(source.root or '')).hexdigest()[:8]}"
