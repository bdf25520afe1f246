"""From files as published to the prepared store: every recording is read once, checked, and kept or
quarantined.

A run with `--limit` prepares a part: the records that it takes. A later one that takes more, or
all, makes a larger copy, into which what was read before is copied; the smaller one stays for those
who use it.

A copy is written in a folder of its own that is renamed at the end, under a lock that dies with its
process: a killed attempt leaves nothing that counts but finished blocks of records, which the next
one takes over (`unfinished`), and of two processes the second waits and finds the work done. The
copy is the same to the byte however often it was interrupted and however many processes read.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from ecgbench import __version__
from ecgbench.core.aside import set_aside
from ecgbench.core.files import as_npy, as_parquet, flush, locked, move, put, writing
from ecgbench.data import meta
from ecgbench.data.checked import FOUND
from ecgbench.data.crossing import crossing
from ecgbench.data.divided import redivided
from ecgbench.data.division import Division
from ecgbench.data.encoded import digest
from ecgbench.data.meta import GAIN, INDEX, SIGNAL
from ecgbench.data.readers import ROWS, outcomes, workers_for
from ecgbench.data.reading import Lost, Outcome, copied, described
from ecgbench.data.replaced import demand_same, note
from ecgbench.data.source import LAYOUT, Source, canonical, command, root_of, where
from ecgbench.data.store import LEFT_OUT, Prepared, demand_sound, empty, opened
from ecgbench.data.subset import taken
from ecgbench.data.unfinished import Unfinished, started
from ecgbench.datasets import get, resolve
from ecgbench.errors import BadRecord, BadSetting, DamagedCopy, MissingData, WriteError

__all__ = ["Prepared", "Progress", "find", "held", "prepare", "state", "where"]

LOST_COUNT = 5
"""Preparing stops once more than this many and more than the card's share are lost."""

Progress = Callable[[int, int], None]
"""Called with (records read, records to read)."""


def prepare(  # noqa: PLR0913  (each is a setting)
    name: str,
    data: Path | None,
    prepared: Path | None,
    progress: Progress | None = None,
    limit: int | None = None,
    fix: bool = False,
    division: Division = Division(),  # noqa: B008  (frozen)
    workers: int | None = None,
) -> Prepared:
    """The prepared copy of what is under `data`, with all records or at least those that a run with
    `limit` takes; what it lacks is read now, by `workers` processes (None: as many as are of use).
    fix: the copy in which faults are put right that `checked` is sure of, which is another one.
    division: of its own split, if not its card's.

    Records that cannot be trusted are quarantined with a reason; those that a rule of the card
    excludes are counted apart. MissingData when the dataset is not there, or when more than 0.5 %
    (or what its card says) of the records that were read, and more than 5, are lost.
    """
    home = where(prepared, data)
    source = Source.of(name, data, prepared, fix)
    with suppress(DamagedCopy):  # set aside below, where one process looks at a time
        copy = redivided(_proved(source, source.folder(home)), division)
        if not _lacking(copy, limit):
            return copy
    source = Source.of(name, data, prepared, fix, thorough=True)
    folder = source.folder(home)
    with _locked(folder.parent):
        # once more where a record was lost, for the one that takes its place
        while lacking := _lacking(copy := redivided(_usable(source, folder), division), limit):
            _enlarge(_Making(source, copy, lacking, progress, workers), folder)
    return copy


def prepare_and_check(
    name: str,
    data: Path | None,
    prepared: Path | None,
    progress: Progress | None = None,
    fix: bool = False,
    workers: int | None = None,
) -> Prepared:
    """The same with all records, and with a look at every file as published and, where all was
    prepared before, at every stored record: one that is not what was written is read again.
    """
    source = Source.of(name, data, prepared, fix, thorough=True)
    folder = source.folder(where(prepared, data))
    with _locked(folder.parent):
        if not _lacking(copy := _usable(source, folder), None):
            try:
                demand_same(copy, thorough=True)
                demand_sound(copy, progress)
                return copy
            except DamagedCopy as error:
                _set_aside(error)
        while lacking := _lacking(copy := _usable(source, folder), None):
            _enlarge(_Making(source, copy, lacking, progress, workers), folder)
    return copy


def find(
    name: str,
    data: Path | None,
    prepared: Path | None,
    limit: int | None = None,
    fix: bool = False,
    division: Division = Division(),  # noqa: B008  (frozen)
) -> Prepared:
    """The prepared copy that matches the files under `data` and holds all records, or at least
    those that a run with `limit` takes; MissingData when there is none (nothing is prepared).
    """
    copy = redivided(held(name, data, prepared, fix), division)
    if _lacking(copy, limit):
        raise MissingData(
            f"{copy.name}: only {len(copy.index):,} of {len(copy.published):,} records are "
            f"prepared, in {copy.folder}; for the rest run: {command(copy.name, data, fix)}"
        )
    return copy


def seen(
    name: str, data: Path | None, prepared: Path | None, division: Division, fix: bool = False
) -> Prepared:
    """The largest prepared copy, perhaps without a record: what can be known before preparing."""
    source = Source.of(name, data, prepared, fix)
    folder = source.folder(where(prepared, data))
    try:
        return redivided(_largest(source, folder), division)
    except DamagedCopy:  # preparing will make another one
        return redivided(empty(source, folder), division)


def held(
    name: str,
    data: Path | None,
    prepared: Path | None,
    fix: bool = False,
    thorough: bool = False,
) -> Prepared:
    """The largest prepared copy that matches the files under `data`, perhaps a part; MissingData
    when there is none. thorough: look at every file.
    """
    source = Source.of(name, data, prepared, fix, thorough)
    folder = source.folder(where(prepared, data))
    copy = _largest(source, folder)
    if not copy.count:
        raise MissingData(
            f"{source.name}: no prepared copy of these files in {folder.parent}; run: "
            f"{command(source.name, data, fix)}"
        )
    return copy


def state(
    name: str, data: Path | None, prepared: Path | None
) -> Literal["ready", "partial", "downloaded", "absent"]:
    """Whether a dataset is prepared, only downloaded, or not there; no signal is read and nothing
    is written.
    """
    try:
        root_of(resolve(name), get(name).CARD, data)
    except MissingData:
        return "absent"
    try:
        return "ready" if held(name, data, prepared).whole else "partial"
    except (MissingData, BadRecord):
        return "downloaded"


def _largest(source: Source, folder: Path) -> Prepared:
    """The whole copy, or its largest part, which holds all of the smaller ones, or an empty one."""
    there = {0: folder} | {
        int(count): path
        for path in folder.parent.glob(f"{folder.name}-*")
        if (count := path.name.rpartition("-")[2]).isdigit()  # not one that is being written
    }
    there = {count: path for count, path in there.items() if (path / meta.FILE).is_file()}
    if not there:
        return empty(source, folder)
    return opened(source, there.get(0) or there[max(there)])


def _proved(source: Source, folder: Path) -> Prepared:
    """The same, all of which but the recordings was compared with its hashes, and those that lie in
    files which are not as they were (`replaced`).
    """
    copy = _largest(source, folder)
    copy.demand_tables()
    demand_same(copy)
    return copy


def _usable(source: Source, folder: Path) -> Prepared:
    """The same once damaged ones are out of the way; called inside the lock."""
    while True:
        try:
            return _proved(source, folder)
        except DamagedCopy as error:
            _set_aside(error)


def _set_aside(error: DamagedCopy) -> None:
    if error.folder is not None:
        set_aside(error.folder, error.why, then="another copy is made")
    if error.folder is None or error.folder.exists():
        raise error


def _lacking(copy: Prepared, limit: int | None) -> set[str]:
    """Records that a run with `limit` takes and that nobody has read yet."""
    if copy.whole:
        return set()
    return {*taken(copy, limit)} - {*copy.index["record"]}


@dataclass(frozen=True, eq=False)
class _Making:
    """A copy that is to be made of another one and of what is lacking in it."""

    source: Source
    copy: Prepared
    lacking: set[str]
    progress: Progress | None
    workers: int | None


def _enlarge(making: _Making, folder: Path) -> None:
    """`_make`, or what it would copy from is out of the way because it is damaged."""
    try:
        _make(making, folder)
    except DamagedCopy as error:
        _set_aside(error)


def _make(making: _Making, folder: Path) -> None:
    """Writes the copy beside `folder` and renames it; called inside the lock."""
    for left in folder.parent.glob("*.tmp"):  # of attempts that died: the living hold the lock
        if not left.name.startswith(folder.name):  # and of other files
            shutil.rmtree(left, ignore_errors=True)
    count = making.copy.count + len(making.lacking)
    if count < making.source.count:
        folder = folder.with_name(f"{folder.name}-{count}")
    if folder.exists():
        shutil.rmtree(folder)
    work, useful = folder.with_name(folder.name + ".tmp"), False
    with writing(work):
        work.mkdir(exist_ok=True)
    try:
        _fill(making, work)
        move(work, folder)
    except (MissingData, BadRecord):  # the files must change first
        raise
    except BaseException:
        useful = started(work)
        raise
    finally:
        if not useful:
            shutil.rmtree(work, ignore_errors=True)


def _fill(making: _Making, work: Path) -> None:
    """Everything a prepared copy holds, durably in `work`; the signals pass through a few at a
    time.
    """
    source, copy = making.source, making.copy
    kept = _Kept(lost=list(copy.left_out[LEFT_OUT].itertuples(index=False, name=None)))
    with writing(work):
        _signals(making, work, kept)
    if not kept.rows:
        reasons = "; ".join(f"{record}: {why}" for record, why, _ in kept.lost[:3])
        raise MissingData(f"{source.name}: no record can be used; {reasons}")
    if len(kept.units) != 1:
        raise BadRecord(
            f"{source.name}: signals in {' and '.join(sorted(kept.units)) or 'no unit'}; all "
            f"records need the same one"
        )
    index = source.index.merge(kept.table(), on="record", how="inner", validate="one_to_one")
    if source.module.CARD.crossing == "refused" and (said := crossing(index)):
        raise MissingData(
            f"{source.name}: {said}; nothing was prepared; put each recording into one split"
        )
    files = {
        GAIN: as_npy(np.array(kept.gains, "<f4")),
        INDEX: as_parquet(index),
        "left_out.parquet": as_parquet(
            pd.DataFrame(sorted(kept.lost), columns=LEFT_OUT, dtype="str")
        ),
        "findings.parquet": as_parquet(pd.DataFrame(kept.findings, columns=FOUND, dtype="str")),
    }
    about = {
        "dataset": source.name,
        "digest": digest(index),
        "tables": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "unit": kept.units.pop(),
        "fix": source.fix,
        "layout": LAYOUT,
        "ecgbench": __version__,
    }
    for name, content in files.items():
        put(work / name, content)
    note(source, work)
    meta.write(work, about)


def _signals(making: _Making, work: Path, kept: "_Kept") -> None:
    """Reads every record that is lacking once, and writes what can be trusted of it; what the other
    copy holds is copied, and what an earlier attempt finished stays.
    """
    source, copy = making.source, making.copy
    chosen = {*copy.rows, *making.lacking}
    wanted = source.index[[record in chosen for record in source.index["record"]]]
    records = wanted["record"].tolist()
    rests_on = [source.fingerprint, source.identity, source.fix, LAYOUT, __version__, records]
    key = hashlib.sha256(canonical(rests_on)).hexdigest()
    unfinished, done = Unfinished(work, key, records), 0
    there = unfinished.finished | {*copy.rows}
    left = wanted[[record not in there for record in records]]
    reading = outcomes(source, left, workers_for(len(left), making.workers), work)
    with closing(reading), (work / SIGNAL).open("r+b") as out:
        for number, block in enumerate(unfinished.blocks):
            if (finished := unfinished.taken_over(number, out)) is not None:
                for outcome in finished:
                    kept.add(outcome)
                continue
            start, told = out.tell(), []
            for record in block:
                outcome = copied(record, copy) if record in copy.rows else next(reading)
                kept.add(outcome)
                told.append(described(outcome))
                if isinstance(outcome, Lost):
                    _stop_if_too_many(source, kept.damaged, len(records))
                else:
                    out.write(outcome.steps)
                if record not in copy.rows:
                    done += 1
                    if making.progress is not None:
                        making.progress(done, len(left))
            unfinished.finish(number, start, told, out)
        out.truncate()
        flush(out)
    unfinished.forget()
    (work / ROWS).unlink(missing_ok=True)


@dataclass
class _Kept:
    """Facts of the records that were kept, and why others were lost; the signals themselves are on
    disk already.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    gains: list[np.ndarray] = field(default_factory=list)
    units: set[str] = field(default_factory=set)
    lost: list[tuple[str, str, str]] = field(default_factory=list)
    """record, reason, kind."""
    findings: list[tuple[str, str, str]] = field(default_factory=list)
    """Of FOUND."""

    @property
    def damaged(self) -> list[tuple[str, str]]:
        """record, reason."""
        return [(record, reason) for record, reason, kind in self.lost if kind == "damaged"]

    def add(self, outcome: Outcome) -> None:
        """Notes what became of a record."""
        if isinstance(outcome, Lost):
            self.lost.append((outcome.record, outcome.reason, outcome.kind))
            return
        self.rows.append(outcome.facts)
        self.findings += [(outcome.facts["record"], *told) for told in outcome.told]
        self.gains.append(outcome.gain)
        self.units.add(outcome.unit)

    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows)


def _stop_if_too_many(source: Source, lost: list[tuple[str, str]], total: int) -> None:
    share = source.module.CARD.losses
    if len(lost) <= max(LOST_COUNT, share * total):
        return
    reasons = "; ".join(f"{record}: {reason}" for record, reason in lost[:3])
    raise MissingData(
        f"{source.name}: {len(lost)} of {total} records"
        f"{f' in {source.root}' if source.root else ''} cannot be used, more than {LOST_COUNT} and "
        f"more than "
        f"{share:.1%}, so nothing was prepared; {reasons}; ... Correct the files, then: "
        f"{command(source.name, None, source.fix)}"
    )


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Holds the lock of a dataset's prepared copies."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(home))
        except WriteError as error:
            reason = str(error).partition(";")[0]
            raise BadSetting(
                f"{reason}; choose another place with --prepared DIR or ECGBENCH_PREPARED=DIR"
            ) from None
        yield
