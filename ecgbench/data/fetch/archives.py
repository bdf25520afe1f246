"""Unpacking of downloaded archives: nothing is written outside their folder, nothing but plain
files, and no more than a limit.
"""

import bisect
import lzma
import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path, PurePosixPath

from ecgbench.core.files import writing
from ecgbench.core.text import shortened, size
from ecgbench.data.fetch.resumed import demand_room

RATIO = 20
"""An archive may hold so many times its own bytes, where nothing else is declared."""
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    IndexError,  # of a part that is not here
    RuntimeError,  # a password, or a compression that zipfile does not know
)


class BadArchive(Exception):
    """An archive that is damaged, or would do what no archive may; says why in half a sentence."""


def inside(name: str) -> PurePosixPath:
    """A name from elsewhere as a path below a folder; ValueError where it leads out of it."""
    path = PurePosixPath(name)
    odd = not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name
    if odd or not name.isprintable() or re.match(r"[A-Za-z]:", name):
        raise ValueError(f"the name {shortened(repr(name), 80)} leads out of its folder")
    return path


def unpack(archive: Path, most: int | None = None, before: Sequence[Path] = ()) -> dict[str, int]:
    """All that a zip or tar archive holds, beside it, once all of it is sound; BadArchive: nothing.
    Returns the files and their bytes.

    most: bytes that it may hold. before: of a zip in several files those before the last, in their
    order.
    """
    volumes = [*before, archive]
    most = most or RATIO * sum(volume.stat().st_size for volume in volumes)
    work = archive.with_name(f".{archive.name}.tmp")
    shutil.rmtree(work, ignore_errors=True)
    try:
        with writing(work):
            work.mkdir()
            if before or zipfile.is_zipfile(archive):
                _unzip(volumes, work, most)
            else:
                _untar(archive, work, most)
            files = sorted(f for f in work.rglob("*") if f.is_file())
            if not files:
                raise BadArchive("it holds no file")
            held = {f.relative_to(work).as_posix(): f.stat().st_size for f in files}
            for file, name in zip(files, held):
                place = archive.parent / name
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, place)
        return held
    except ValueError as error:
        raise BadArchive(str(error)) from None
    except DAMAGED as error:
        raise BadArchive(f"it is damaged or locked ({type(error).__name__})") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unzip(volumes: Sequence[Path], work: Path, most: int) -> None:
    """Extract a zip. Parts follow one another, and what counts from the beginning of a part then
    counts from the beginning of all (APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16).
    """
    whole, starts = volumes[-1], [0]
    if volumes[1:]:
        whole = work / ".joined"
        starts = [0, *accumulate(volume.stat().st_size for volume in volumes)]
        demand_room(work, starts.pop(), whole.name)
        with whole.open("wb") as out:
            for volume in volumes:
                with volume.open("rb") as part:
                    shutil.copyfileobj(part, out, 2**20)
    with zipfile.ZipFile(whole) as packed:
        # zipfile takes all places for those of the part that the directory begins in
        of = starts[bisect.bisect_right(starts, packed.start_dir) - 1]
        for item in packed.infolist():
            inside(item.filename)
            item.header_offset += starts[item.volume] - of
            if hasattr(item, "_end_offset"):  # where it ends, of the place that was wrong
                item._end_offset = None
        _demand_size(sum(item.file_size for item in packed.infolist()), work, most)
        packed.extractall(work)
    if volumes[1:]:
        whole.unlink()


def _untar(archive: Path, work: Path, most: int) -> None:
    total = 0

    def checked(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        nonlocal total
        inside(member.name)
        if not (member.isreg() or member.isdir()):
            raise BadArchive(f"{shortened(member.name, 80)} is a link or a device, not a file")
        total += member.size
        _demand_size(total, work, most)
        return tarfile.data_filter(member, path)

    with tarfile.open(archive) as packed:
        packed.extractall(work, filter=checked)


def _demand_size(total: int, work: Path, most: int) -> None:
    if total > most:
        raise BadArchive(f"it holds more than {size(most)}")
    demand_room(work, total, work.name.strip(".").removesuffix(".tmp"))
