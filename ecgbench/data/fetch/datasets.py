"""The files of a dataset, from where they are published into its folder: which are lacking, and
getting those, several at a time.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

import requests

from ecgbench.core.cards import Download, Listing, Manifest
from ecgbench.core.files import as_json, locked, put
from ecgbench.data.fetch import archives, listings, resumed
from ecgbench.data.fetch.fetch import DownloadError

PARALLEL = 4
ENOUGH = 10
"""Files that cannot be had, after which the others are not tried."""
SUMS, LIST = "SHA256SUMS.txt", "RECORDS"
MEGABYTE = 10**6
DONE = ".unpacked"
"""NAME.zip.unpacked lists the files that an archive held; all must be here, of their size."""


@dataclass(frozen=True)
class Plan:
    """What is to be fetched."""

    root: Path
    """The dataset's folder."""
    every: tuple[Download, ...]
    lacking: tuple[Download, ...]
    size: int | None
    """Bytes of what is lacking; None where nobody says."""
    exact: bool
    """Whether each file's size is known; else it is about that."""

    @property
    def unit(self) -> tuple[int, str]:
        """What progress is counted in, and how much there is of it."""
        if self.exact and self.size:
            return max(1, self.size // MEGABYTE), "MB"
        return len(self.lacking), "files"

    def demand_room(self, name: str) -> None:
        """BadSetting where the disk has no room for it."""
        inner = sum(d.unpacked or d.size or 0 for d in self.lacking if d.unpack)
        inner += sum(_size(d) or 0 for d in self.lacking if d.before)  # joined, then unpacked
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
    every = (*files, *(_listed(manifest) if manifest else ()))
    every += (*(listings.wanted(listing) if listing else ()),)
    for one in (part for whole in every for part in (*whole.before, whole)):
        try:
            archives.inside(one.path)
        except ValueError as error:
            raise DownloadError(f"{one.url}: {error}") from None
    with ThreadPoolExecutor(PARALLEL) as pool:
        here = list(pool.map(lambda one: _here(root / one.path, one), every))
    lacking = tuple(one for one, there in zip(every, here) if not there)
    sizes = [_size(one) for one in lacking]
    if None not in sizes:
        return Plan(root, every, lacking, sum(s or 0 for s in sizes), exact=True)
    about = manifest.size * len(lacking) // len(every) if manifest else None
    return Plan(root, every, lacking, about, exact=False)


def fetch(plan: Plan, advance: Callable[[int], None]) -> None:
    """Get what is lacking; DownloadError names the first file that could not be had, and how many
    there are.

    advance: receives what is done, in the unit of the plan.
    """
    busy = f"another command is fetching into {plan.root}; wait for it, then run this one again"
    work = _Work(plan, advance)
    with locked(plan.root, ".fetch.lock", otherwise=busy), ThreadPoolExecutor(PARALLEL) as pool:
        futures = [pool.submit(work.get, one) for one in plan.lacking]
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
        several = f" ({len(failed)} of {len(plan.lacking):,} files were not had)"
        raise DownloadError(f"{failed[0]}{several if len(plan.lacking) > 1 else ''}")


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
        self._told(one, 0)
        for part in (*one.before, one):
            place = self.plan.root / part.path
            resumed.obtain(self._own.session, part, place, partial(self._told, part))
        if one.unpack:
            try:
                held = self._unpacked(one, path)
            except archives.BadArchive as error:
                raise resumed.refused(one, path, str(error)) from None
            put(path.with_name(path.name + DONE), as_json({"url": one.url, "files": held}))
            for part in (*one.before, one):
                (self.plan.root / part.path).unlink()
        if self.plan.unit[1] == "files":
            with self._lock:
                self.advance(1)

    def _unpacked(self, one: Download, path: Path) -> dict[str, int]:
        """The files of an archive, and their bytes."""
        if not one.before:
            return archives.unpack(path, one.unpacked)
        joined = path.with_name(f".{path.name}.joined")
        try:
            archives.join([*(self.plan.root / part.path for part in one.before), path], joined)
            return archives.unpack(joined, one.unpacked)
        finally:
            joined.unlink(missing_ok=True)

    def _told(self, one: Download, count: int) -> None:
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


def _listed(manifest: Manifest) -> Iterator[Download]:
    """The files that a release lists and a dataset wants."""
    session, found = resumed.session(), 0
    try:
        named = _sums(resumed.text(session, manifest.base + SUMS), manifest)
    except resumed.NotThere:
        named = dict.fromkeys(_records(session, manifest))
    for name, proof in sorted(named.items()):
        own = name.removeprefix(manifest.below)
        record = own.startswith(manifest.folders) and own.endswith(manifest.suffixes)
        if name.startswith(manifest.below) and (record or own in manifest.tables):
            found += 1
            yield Download(url=manifest.base + quote(name), path=own, sha256=proof)
    if not found:
        raise DownloadError(f"{manifest.base}: its lists name no file below {manifest.below!r}")


def _sums(text: str, manifest: Manifest) -> dict[str, str | None]:
    named: dict[str, str | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"([0-9a-fA-F]{64}) [ *]?(\S.*)", line.rstrip())
        if match:
            named[match[2]] = match[1]
        elif line.strip():
            raise DownloadError(f"{manifest.base}{SUMS}: line {number} is no sha256 with a name")
    return named


def _records(session: requests.Session, manifest: Manifest) -> list[str]:
    """All files of the records that the nested lists name: a line is a record, or a folder, with a
    slash, that has a list of its own.
    """
    folders, seen = [""], set[str]()
    names = [manifest.below + table for table in manifest.tables]
    while folders:
        folder = folders.pop()
        for line in resumed.text(session, manifest.base + quote(folder) + LIST).split():
            name = folder + line
            ours = name.startswith(manifest.below) or manifest.below.startswith(name)
            if not name.endswith("/"):
                names += [name + suffix for suffix in manifest.suffixes]
            elif ours and name not in seen:
                seen.add(name)
                folders.append(name)
    return names
