"""The files of a dataset, from where they are published into its folder: which are missing, and
getting those, several at a time.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ecgbench.core.cards import Download, Listing, Manifest
from ecgbench.core.files import as_json, locked, put
from ecgbench.data.fetch import archives, listings, resumed
from ecgbench.data.fetch.fetch import DownloadError

PARALLEL = 4
ENOUGH = 10
"""Files that cannot be had, after which the others are not tried."""
MEGABYTE = 10**6
DONE = ".unpacked"
"""NAME.zip.unpacked lists the files that an archive held; all must be here, of their size."""


@dataclass(frozen=True)
class Plan:
    """What is to be fetched."""

    root: Path
    """The dataset's folder."""
    every: tuple[Download, ...]
    missing: tuple[Download, ...]
    size: int | None
    """Bytes of what is missing; None where nobody says."""
    exact: bool
    """Whether each file's size is known; else it is about that."""

    @property
    def unit(self) -> tuple[int, str]:
        """What progress is counted in, and how much there is of it."""
        if self.exact and self.size:
            return max(1, self.size // MEGABYTE), "MB"
        return len(self.missing), "files"

    def demand_room(self, name: str) -> None:
        """BadSetting where the disk has no room for it."""
        inner = sum(d.unpacked or d.size or 0 for d in self.missing if d.unpack)
        inner += sum(_size(d) or 0 for d in self.missing if d.before)  # joined, then unpacked
        resumed.demand_room(self.root, (self.size or 0) + inner, name)


class _Stopped(Exception):
    """Others have failed, or the person has had enough."""


def planned(
    root: Path,
    files: Sequence[Download],
    manifest: Manifest | None,
    listing: Listing | None = None,
) -> Plan:
    """What of a dataset is not in `root` yet. Nothing is written; of a manifest and a listing the
    lists are read.
    """
    every = (*files, *(listings.released(manifest) if manifest else ()))
    every += (*(listings.deposited(listing) if listing else ()),)
    for one in every:
        try:
            archives.inside(one.path)
        except ValueError as error:
            raise DownloadError(f"{one.url}: {error}") from None
    if twice := [path for path, n in Counter(one.path for one in every).items() if n > 1]:
        raise DownloadError(f"its lists name several files {twice[0]}")  # one would be lost
    with ThreadPoolExecutor(PARALLEL) as pool:
        here = list(pool.map(lambda one: _here(root / one.path, one), every))
    missing = tuple(one for one, there in zip(every, here) if not there)
    sizes = [_size(one) for one in missing]
    if None not in sizes:
        return Plan(root, every, missing, sum(s or 0 for s in sizes), exact=True)
    about = manifest.size * len(missing) // len(every) if manifest else None
    return Plan(root, every, missing, about, exact=False)


def fetch(plan: Plan, advance: Callable[[int], None]) -> None:
    """Get what is missing; DownloadError names the first file that could not be had, and how many
    there are.

    advance: receives what is done, in the unit of the plan.
    """
    busy = f"another command is fetching into {plan.root}; wait for it, then run this one again"
    work = _Work(plan, advance)
    with locked(plan.root, ".fetch.lock", otherwise=busy), ThreadPoolExecutor(PARALLEL) as pool:
        futures = [pool.submit(work.get, one) for one in plan.missing]
        failed: list[DownloadError] = []
        try:
            for future in as_completed(futures):
                error = future.exception()
                if isinstance(error, DownloadError):
                    failed.append(error)
                elif error is not None:
                    raise error
                if len(failed) == ENOUGH:
                    break
        finally:
            work.stopped = True
            pool.shutdown(wait=True, cancel_futures=True)
    if failed:
        several = f" ({len(failed)} of {len(plan.missing):,} files were not had)"
        raise DownloadError(f"{failed[0]}{several if len(plan.missing) > 1 else ''}")


@contextmanager
def otherwise(by_hand: str) -> Iterator[None]:
    """Adds to the error of a file that cannot be had what else a person can do."""
    try:
        yield
    except DownloadError as error:
        raise DownloadError(f"{error}; {by_hand}") from None


class _Work:
    """What the threads share."""

    def __init__(self, plan: Plan, advance: Callable[[int], None]) -> None:
        self.plan, self.advance, self.stopped = plan, advance, False
        self._own, self._lock = threading.local(), threading.Lock()
        self._bytes: dict[str, int] = {}
        self._shown = 0

    def get(self, one: Download) -> None:
        """Get one file, and unpack it."""
        path = self.plan.root / one.path
        if not hasattr(self._own, "session"):
            self._own.session = resumed.session()
        for part in (*one.before, one):
            self._count(part, 0)
            place = self.plan.root / part.path
            resumed.obtain(self._own.session, part, place, partial(self._count, part))
        if one.unpack:
            before = [self.plan.root / part.path for part in one.before]
            try:
                held = archives.unpack(path, one.unpacked, before)
            except archives.BadArchive as error:
                raise resumed.refused(one, path, str(error)) from None
            put(path.with_name(path.name + DONE), as_json({"url": one.url, "files": held}))
            for part in (*one.before, one):
                (self.plan.root / part.path).unlink()
        if self.plan.unit[1] == "files":
            with self._lock:
                self.advance(1)

    def _count(self, one: Download, count: int) -> None:
        if self.stopped:
            raise _Stopped
        if self.plan.unit[1] == "MB":
            with self._lock:
                self._bytes[one.path] = count
                done = sum(self._bytes.values()) // MEGABYTE
                self.advance(done - self._shown)
                self._shown = done


def _size(one: Download) -> int | None:
    """Bytes of a file, with those of the parts before it; None where nobody says."""
    sizes = [part.size for part in (*one.before, one)]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _here(path: Path, wanted: Download) -> bool:
    if not wanted.unpack:
        return path.is_file() and not resumed.wrong(path, wanted)
    try:
        held = json.loads(path.with_name(path.name + DONE).read_text(encoding="utf-8"))["files"]
        return all((path.parent / name).stat().st_size == size for name, size in held.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
