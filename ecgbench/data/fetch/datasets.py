"""Downloads the missing files of a dataset into its folder, several at a time."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ecgbench.cards.dataset import Download, Listing, Manifest
from ecgbench.core.files import as_json, locked, put
from ecgbench.core.text import size
from ecgbench.data.disk import free_bytes
from ecgbench.data.fetch import archives, listings, resumed
from ecgbench.data.fetch.resumed import DownloadError
from ecgbench.datasets.indexing.tables import below
from ecgbench.errors import BadSetting

PARALLEL = 4
ENOUGH = 10
"""Failed files after which the others are not tried."""
MEGABYTE = 10**6
DONE = ".unpacked"
"""NAME.zip.unpacked lists the files of an archive; all must exist with their size."""


@dataclass(frozen=True)
class Plan:
    """The missing files of a dataset."""

    root: Path
    """The dataset's folder."""
    every: tuple[Download, ...]
    missing: tuple[Download, ...]
    size: int | None
    """Bytes of the missing files; None where they are not known."""
    exact: bool
    """Whether the size of each file is known; else the sum is approximate."""

    @property
    def unit(self) -> tuple[int, str]:
        """Unit of the progress, and the total."""
        if self.exact and self.size:
            return max(1, self.size // MEGABYTE), "MB"
        return len(self.missing), "files"

    def demand_room(self, name: str) -> None:
        """BadSetting where the disk is too full."""
        inner = sum(d.unpacked or d.size or 0 for d in self.missing if d.unpack)
        count = (self.size or 0) + inner
        if (free := free_bytes(self.root)) < count:
            raise BadSetting(
                f"{name} needs {size(count)}, and the disk of {self.root} has {size(free)} free; "
                f"make room, or choose another folder with --data"
            )


class _Stopped(Exception):
    """Others have failed, or the person has had enough."""


def planned(
    root: Path,
    files: Sequence[Download],
    manifest: Manifest | None,
    listing: Listing | None = None,
) -> Plan:
    """The files of a dataset that are missing in `root`. Nothing is written; lists of a manifest
    and a listing are read.
    """
    every = (*files, *(listings.released(manifest) if manifest else ()))
    every += (*(listings.deposited(listing) if listing else ()),)
    for path, count in Counter(one.path for one in every).items():
        if count > 1 or not below(path):
            why = "several files" if count > 1 else "outside of its folder"
            raise DownloadError(f"its lists name {why}: {path}")
    with ThreadPoolExecutor(PARALLEL) as pool:
        here = list(pool.map(lambda one: _is_here(root / one.path, one), every))
    missing = tuple(one for one, there in zip(every, here) if not there)
    sizes = [one.size for one in missing]
    if None not in sizes:
        return Plan(root, every, missing, sum(s or 0 for s in sizes), exact=True)
    about = manifest.size * len(missing) // len(every) if manifest else None
    return Plan(root, every, missing, about, exact=False)


def fetch(plan: Plan, advance: Callable[[int], None]) -> None:
    """Download the missing files; DownloadError names the first one that failed, and the number of
    all.

    advance: called with the progress, in the unit of the plan.
    """
    busy = f"another command is fetching into {plan.root}; wait for it, then run this one again"
    own, lock, stopped = threading.local(), threading.Lock(), threading.Event()
    received, failed = dict[str, int](), list[DownloadError]()

    def count(one: Download, size: int, total: int | None = None) -> None:
        if stopped.is_set():
            raise _Stopped
        with lock:
            before = sum(received.values()) // MEGABYTE
            received[one.path] = size
            if plan.unit[1] == "MB":
                advance(sum(received.values()) // MEGABYTE - before)

    def get(one: Download) -> None:
        own.session = getattr(own, "session", None) or resumed.session()
        path = plan.root / one.path
        resumed.obtain(own.session, one, path, partial(count, one))
        if one.unpack:
            try:
                sizes = archives.unpack(path)
            except archives.BadArchive as error:
                raise resumed.refused(one, path, str(error)) from None
            put(_note(path), as_json({"url": one.url, "files": sizes}))
            path.unlink()
        with lock:
            if plan.unit[1] == "files":
                advance(1)

    with locked(plan.root, ".fetch.lock", otherwise=busy), ThreadPoolExecutor(PARALLEL) as pool:
        futures = [pool.submit(get, one) for one in plan.missing]
        try:
            for future in as_completed(futures):
                try:
                    future.result()
                except DownloadError as error:
                    failed.append(error)
                if len(failed) == ENOUGH:
                    break
        finally:
            stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)
    if failed:
        several = f" ({len(failed)} of {len(plan.missing):,} files were not had)"
        raise DownloadError(f"{failed[0]}{several if len(plan.missing) > 1 else ''}")


def _note(archive: Path) -> Path:
    return archive.with_name(archive.name + DONE)


def _is_here(path: Path, wanted: Download) -> bool:
    if not wanted.unpack:
        return path.is_file() and not resumed.wrong(path, wanted)
    try:
        sizes = json.loads(_note(path).read_text(encoding="utf-8"))["files"]
        return all((path.parent / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False
