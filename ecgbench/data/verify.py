"""Whether a prepared copy still holds what the published files say: both are read again and
compared by sha256. And whether its views hold what was computed.
"""

from typing import Any

from ecgbench.data import views
from ecgbench.data.again import read_again
from ecgbench.data.encoded import digest, sha256
from ecgbench.data.prepare import Prepared, Progress
from ecgbench.data.source import rows
from ecgbench.errors import BadRecord


def verify(copy: Prepared, progress: Progress | None = None) -> list[tuple[str, str]]:
    """Problems of a prepared copy, whole or in part, and of its views, as (record, reason); none
    when all is well. `progress` counts records, and those of each view once more.

    Nothing is mended: a run does that when it reads what is wrong. Quarantined records are no
    problem here: they are not in the copy, and `Prepared.quarantined` lists them. DamagedCopy where
    a table, the gains or meta.json are not as they were written.
    """
    copy.demand_tables()
    kept, problems = views.kept(copy), list[tuple[str, str]]()
    done, total = 0, len(copy.index) + sum(view.count for view in kept)
    if digest(copy.index) != copy.digest:
        problems.append(("index", "the prepared index is not the one that was written"))
    for row in rows(copy.index):
        if reason := _stored(copy, row) or _native(copy, row):
            problems.append((row["record"], reason))
        done += 1
        if progress is not None:
            progress(done, total)
    for view in kept:
        for record, sound in view.compared():
            if not sound:
                problems.append((record, _view(view)))
            done += 1
            if progress is not None:
                progress(done, total)
    return problems


def _stored(copy: Prepared, row: dict[str, Any]) -> str | None:
    if copy.stored(row["record"]):
        return None
    return (
        f"the prepared signal in {copy.folder} differs from what was written; it is read again "
        f"from its published file when it is next used"
    )


def _native(copy: Prepared, row: dict[str, Any]) -> str | None:
    try:
        now = sha256(*read_again(copy.source, row))
    except (BadRecord, OSError) as error:
        return str(error).removeprefix(f"{row['record']}: ")
    return None if now == row["sha256"] else "the published file differs from what was prepared"


def _view(view: views.Kept) -> str:
    return (
        f"its view in {view.folder} differs from what was computed; it is computed again when it "
        f"is next used"
    )
