"""Whether a prepared copy still holds what the published files say: both are read again and
compared by sha256.
"""

from pathlib import Path
from typing import Any

from ecgbench.errors import BadRecord
from ecgbench.prepared.checked import checked
from ecgbench.prepared.prepare import Prepared, Progress
from ecgbench.prepared.source import read, root_of, rows
from ecgbench.prepared.store import digest, encode, sha256


def verify(
    copy: Prepared, data: Path | None, progress: Progress | None = None
) -> list[tuple[str, str]]:
    """Problems of a prepared copy, whole or in part, of what is under `data`, as (record, reason);
    none when all is well.

    Quarantined records are no problem here: they are not in the copy, and `Prepared.quarantined`
    lists them.
    """
    root = root_of(copy.name, copy.card, data)
    problems, total = [], len(copy.index)
    if digest(copy.index) != copy.digest:
        problems.append(("index", "the prepared index is not the one that was written"))
    for done, row in enumerate(rows(copy.index), 1):
        if reason := _stored(copy, row) or _native(copy, root, row):
            problems.append((row["record"], reason))
        if progress is not None:
            progress(done, total)
    return problems


def _stored(copy: Prepared, row: dict[str, Any]) -> str | None:
    if sha256(*copy.stored(row["record"]), row["fs"]) == row["sha256"]:
        return None
    return (
        f"the prepared signal differs from what was written; delete {copy.folder} and prepare again"
    )


def _native(copy: Prepared, root: Path | None, row: dict[str, Any]) -> str | None:
    try:
        recording = checked(read(copy.name, root, row), copy.card, copy.fix).recording
    except (BadRecord, OSError) as error:
        return str(error).removeprefix(f"{row['record']}: ")
    if sha256(*encode(recording), recording.fs) == row["sha256"]:
        return None
    return "the published file differs from what was prepared"
