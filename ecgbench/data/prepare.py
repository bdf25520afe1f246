"""From published files to the prepared copy: every recording is read once, checked, and stored or
quarantined.

A run with `--limit` prepares only its own records; a later run adds what it needs. Blocks of
records are appended whole: a kill, a full disk or a dying process costs one block. Of two processes
the second waits and finds the work done. The stored record does not depend on interruptions or on
the number of processes.

A run trusts prepared records. `prepare_and_check` compares the sizes and times of the published
files, reads changed ones again, and checks every stored record.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from ecgbench.core.division import Division
from ecgbench.core.files import as_json, locked, put, sweep
from ecgbench.core.parallel import cores, on_all_cores
from ecgbench.core.parts import Parts
from ecgbench.data.copy import ABOUT, Copy, Progress, opened
from ecgbench.data.duplicates import crossing
from ecgbench.data.reading import Row, checked_row
from ecgbench.data.select import selected
from ecgbench.data.source import LAYOUT, Source, command, root_of, rows, where
from ecgbench.data.splits import resplit
from ecgbench.datasets import ROOM, get, resolve
from ecgbench.errors import BadRecord, MissingData

LOST = 5
"""Preparing stops when more records than this and than the card's share are lost."""
BLOCK = 500
"""Records of a part: what a kill costs."""
FEW = 100
"""Records that are read before other processes are started."""
MOST = 8
"""Processes by default."""

Facts = dict[str, Any]
"""Facts of a record (`reading.Row`)."""


def prepare(  # noqa: PLR0913  (each is a setting)
    name: str,
    data: Path | None,
    prepared: Path | None,
    progress: Progress | None = None,
    limit: int | None = None,
    fix: bool = False,
    division: Division = Division(),  # noqa: B008  (frozen)
    workers: int | None = None,
) -> Copy:
    """The prepared copy of a dataset under `data`, with all records or at least those of a run with
    `limit`. Missing records are read now, by `workers` processes (None: as many as are useful).
    fix: the copy in which errors beyond doubt are corrected. division: of its split, if not its
    card's.

    Records that cannot be trusted are quarantined with a reason; those that a rule of the card
    excludes are counted separately. MissingData when the dataset is not there, or when more than
    0.5 % (or the card's share) of the records that were read, and more than 5, are lost.
    """
    home = where(prepared, data, name)
    source = Source.of(name, data, prepared, fix)
    # recordings of one's own change from day to day, and are few
    own = source.module.CARD.any_leads or not ROOM.built_in(source.name)
    copy = resplit(opened(source, home), division)
    if _missing(copy, limit) or (own and changed(copy)):
        with locked(source.folder(home).parent):
            if own and (edited := changed(copy := opened(source, home))):
                _read(copy, edited, progress, workers)
            # once more where a record was lost, for the one that takes its place
            while missing := _missing(copy := resplit(opened(source, home), division), limit):
                _read(copy, missing, progress, workers)
    return _usable(copy)


def prepare_and_check(
    name: str,
    data: Path | None,
    prepared: Path | None,
    progress: Progress | None = None,
    fix: bool = False,
    workers: int | None = None,
) -> Copy:
    """The same with all records, after a check of every published file and every stored record:
    changed, lost and damaged ones are read again.
    """
    source = Source.of(name, data, prepared, fix, thorough=True)
    return _usable(read_all(source, where(prepared, data, name), progress, workers))


def read_all(
    source: Source, home: Path, progress: Progress | None = None, workers: int | None = None
) -> Copy:
    """The copy of a dataset below `home` with every record as its files are now; only new, changed,
    lost and damaged ones are read.
    """
    with locked(source.folder(home).parent):
        copy = opened(source, home)
        damaged = {r for r in copy.index["record"] if copy.stored(r) is None}
        if wanted := _missing(copy, None) | changed(copy) | damaged:
            _read(copy, wanted, progress, workers)
        return opened(source, home)


def seen(
    name: str,
    data: Path | None,
    prepared: Path | None,
    division: Division = Division(),  # noqa: B008  (frozen)
    fix: bool = False,
    thorough: bool = False,
) -> Copy:
    """The prepared copy, perhaps empty: what is known before preparing. thorough: read the index
    again.
    """
    source = Source.of(name, data, prepared, fix, thorough)
    return resplit(opened(source, where(prepared, data, name)), division)


def find(
    name: str, data: Path | None, prepared: Path | None, limit: int | None = None, **how: Any
) -> Copy:
    """The prepared copy of a dataset, with all records or at least those of a run with `limit`;
    MissingData where it lacks any (nothing is prepared). how: as for `seen`.
    """
    copy = find_any(name, data, prepared, **how)
    if _missing(copy, limit):
        raise MissingData(
            f"{copy.name}: only {len(copy.index):,} of {len(copy.published):,} records are "
            f"prepared, in {copy.folder}; for the rest run: {command(copy.name, data, copy.fix)}"
        )
    return copy


def find_any(name: str, data: Path | None, prepared: Path | None, **how: Any) -> Copy:
    """The prepared copy, perhaps incomplete; MissingData where it is empty. how: as for `seen`."""
    copy = seen(name, data, prepared, **how)
    if not copy.count:
        raise MissingData(
            f"{copy.name}: no prepared copy of these files in {copy.folder.parent}; run: "
            f"{command(copy.name, data, copy.fix)}"
        )
    return copy


def state(
    name: str, data: Path | None, prepared: Path | None
) -> Literal["ready", "partial", "downloaded", "absent"]:
    """Whether a dataset is prepared, only downloaded, or missing; no signal is read and nothing is
    prepared.
    """
    try:
        root_of(resolve(name), get(name).CARD, data)
    except MissingData:
        return "absent"
    try:
        copy = seen(name, data, prepared)
    except (MissingData, BadRecord):
        return "downloaded"
    return "downloaded" if not copy.count else "ready" if copy.whole else "partial"


def _missing(copy: Copy, limit: int | None) -> set[str]:
    """Records that a run with `limit` takes and that nobody has read yet."""
    if copy.whole:
        return set()
    return {*selected(copy, limit)} - {*copy.known.index}


def changed(copy: Copy) -> set[str]:
    """Prepared records whose files have another size or time than when they were read, and those
    that were lost then.
    """
    before = copy.known[["state", "kind"]]
    own = copy.published.set_index("record").loc[before.index]
    now = pd.Series(copy.source.states(own), index=before.index)
    lost = before["kind"] == "damaged"
    if "damaged" in own:  # what the index says is not found out by reading
        lost &= own["damaged"] == ""
    return {*before.index[(before["state"] != now) | lost]}


def _read(copy: Copy, records: set[str], progress: Progress | None, workers: int | None) -> None:
    """Reads records once and appends what can be trusted of them; what is damaged comes last, for
    nothing may be known of a dataset of which too many are.

    The first FEW are read in this process, which imports all that reading needs, the others in
    processes forked from it. What those leave, for whatever reason, is read here again, where an
    error is seen.
    """
    source, parts, table = copy.source, copy.parts, copy.source.index
    table = table[table["record"].isin(records)]
    states = dict(zip(table["record"], source.states(table)))
    before = copy.quarantined
    reasons = dict(before[~before["record"].isin(records)].itertuples(index=False, name=None))
    damaged, done = list[Facts](), 0

    def show(more: int) -> None:
        nonlocal done
        done = min(done + more, len(table))
        if progress is not None:
            progress(done, len(table))

    def note(about: Facts) -> None:
        if about["kind"] == "damaged":
            damaged.append(about)
            reasons[about["name"]] = about["reason"]
            _demand_few(source, reasons, len(records | {*copy.known.index}))
        show(1)

    sweep(parts.folder, below=False)
    put(parts.folder / ABOUT, as_json({"layout": LAYOUT, "fix": source.fix}))
    _append(source, parts, table[:FEW], states, note)
    rest, workers = table[FEW:], workers or min(MOST, cores())
    if len(rest) and workers > 1:
        size = min(BLOCK, math.ceil(len(rest) / (4 * workers)))
        blocks = [rest[i : i + size] for i in range(0, len(rest), size)]
        work = [partial(_append, source, parts, block, states) for block in blocks]
        on_all_cores(work, lambda more: show(more * size), processes=workers)
        known, parts = len(parts.names), Parts(parts.folder)
        rest = rest[~rest["record"].isin(parts.rows.index[parts.rows["part"] >= known])]
        done = len(table) - len(rest)
    _append(source, parts, rest, states, note)
    parts.append([(about, b"") for about in damaged])


def _append(
    source: Source,
    parts: Parts,
    table: pd.DataFrame,
    states: Mapping[str, str],
    note: Callable[[Facts], None] = lambda about: None,
) -> None:
    """Reads the recordings of some rows of the index and appends those that are not damaged.
    BadSetting where the dataset's plug-in fails.
    """

    def sound(block: pd.DataFrame) -> Iterator[Row]:
        for row in rows(block):
            about, content = checked_row(source, row)
            about["state"] = states.get(row["record"], "")
            note(about)
            if about["kind"] != "damaged":
                yield about, content

    for start in range(0, len(table), BLOCK):
        parts.append(sound(table[start : start + BLOCK]))


def _demand_few(source: Source, lost: dict[str, str], total: int) -> None:
    share = source.module.CARD.losses
    if len(lost) <= max(LOST, share * total):
        return
    raise MissingData(
        f"{source.name}: {len(lost)} records"
        f"{f' in {source.root}' if source.root else ''} cannot be used, and the rest of {total} "
        f"was not read: at most {LOST} or {share:.1%} may be lost; {_some(lost)}; ... "
        f"fetch or correct the files, then: {command(source.name, None, source.fix)}"
    )


def _some(lost: dict[str, str]) -> str:
    return "; ".join(f"{record}: {reason}" for record, reason in [*lost.items()][:3])


def _usable(copy: Copy) -> Copy:
    """The copy; MissingData where no record of it can be used, or its card refuses that the same
    samples stand in two splits; BadRecord for two units.
    """
    if copy.index.empty:
        reasons = _some(dict(copy.left_out[["record", "reason"]].itertuples(index=False)))
        raise MissingData(f"{copy.name}: no record can be used; {reasons}")
    if copy.card.crossing == "refused" and (crossed := crossing(copy)):
        raise MissingData(f"{copy.name}: {crossed}; put each recording into one split")
    assert copy.unit
    return copy
