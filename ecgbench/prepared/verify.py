"""Whether a prepared copy still holds what the published files say: both are read again and compared by sha256."""

from pathlib import Path

from ecgbench.datasets import get
from ecgbench.errors import BadRecord
from ecgbench.prepared.prepare import Prepared, Progress, find
from ecgbench.prepared.source import root_of
from ecgbench.prepared.store import digest, encode, sha256


def verify(name: str, data: Path | None, prepared: Path | None, progress: Progress | None = None) -> list[tuple[str, str]]:
    """Problems as (record, reason), none when all is well; MissingData when no prepared copy matches the files.

    Quarantined records are no problem here: they are not in the copy, and `Prepared.quarantined` lists them.
    """
    copy = find(name, data, prepared)
    root = root_of(copy.name, copy.card, data)
    problems = [] if digest(copy.index) == copy.digest else [("index", "the prepared index is not the one that was written")]
    total = len(copy.index)
    for done, (record, fs, stated) in enumerate(zip(copy.index["record"], copy.index["fs"], copy.index["sha256"]), 1):
        reason = _stored(copy, record, fs, stated) or _native(copy, root, record, stated)
        if reason:
            problems.append((record, reason))
        if progress is not None:
            progress(done, total)
    return problems


def _stored(copy: Prepared, record: str, fs: float, stated: str) -> str | None:
    if sha256(*copy.stored(record), fs) == stated:
        return None
    return f"the prepared signal differs from what was written; delete {copy.folder} and prepare again"


def _native(copy: Prepared, root: Path | None, record: str, stated: str) -> str | None:
    try:
        recording = get(copy.name).read(root, record).clinical()
    except BadRecord as error:
        return str(error).removeprefix(f"{record}: ")
    if sha256(*encode(recording), recording.fs) == stated:
        return None
    return "the published file differs from what was prepared"
