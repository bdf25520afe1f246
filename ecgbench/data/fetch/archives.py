"""Unpacking of downloaded archives: nothing is written outside their folder, nothing but plain
files, and no more than a limit.
"""

import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import IO

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
    NotImplementedError,  # a compression that zipfile does not know
)
END = struct.Struct("<4s4H2LH")
"""The end of a zip archive: mark, its disk, that of the directory, entries there and in all, bytes
and place of the directory, bytes of a comment.
"""
Member = tuple[str, bool, int, Callable[[], IO[bytes] | None]]
"""Name, whether it is a plain file, its bytes, and what opens it."""


class BadArchive(Exception):
    """An archive that is damaged, or would do what no archive may; says why in half a sentence."""


def inside(name: str) -> PurePosixPath:
    """The path that a name from elsewhere means, below the folder of whoever asks; ValueError where
    it leads out of it.
    """
    path = PurePosixPath(name)
    odd = not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name
    if odd or not name.isprintable() or re.match(r"[A-Za-z]:", name):
        raise ValueError(f"the name {shortened(repr(name), 80)} leads out of its folder")
    return path


def unpack(archive: Path, most: int | None = None) -> dict[str, int]:
    """All that a zip or tar archive holds, beside it, once all of it is sound; BadArchive: nothing.
    Returns the files and their bytes.

    most: bytes that it may hold.
    """
    work = archive.with_name(f".{archive.name}.tmp")
    with writing(work):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
    try:
        _extract(archive, work, most or RATIO * archive.stat().st_size)
        files = (f for f in work.rglob("*") if f.is_file())
        held = {f.relative_to(work).as_posix(): f.stat().st_size for f in files}
        _move(work, archive.parent)
        return held
    except DAMAGED as error:
        raise BadArchive(f"it is damaged ({type(error).__name__})") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def join(volumes: Sequence[Path], to: Path) -> None:
    """`to` becomes one zip archive of the files of one that was split, in their order; BadArchive.

    The parts follow one another, and what counts from the beginning of a part then counts from the
    beginning of all (APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16).
    """
    starts = [0, *accumulate(volume.stat().st_size for volume in volumes)]
    demand_room(to.parent, starts[-1], to.name)
    with writing(to), to.open("wb") as out:
        for volume in volumes:
            with volume.open("rb") as part:
                shutil.copyfileobj(part, out, 2**20)
    try:
        with writing(to), to.open("r+b") as whole:
            _renumber(whole, starts[:-1], starts[-1])
    except (struct.error, IndexError):
        raise BadArchive("its parts do not belong together") from None


def _renumber(whole: IO[bytes], starts: Sequence[int], total: int) -> None:
    """Makes the directory of joined parts that of one archive."""
    tail = max(0, total - END.size - 2**16)
    whole.seek(tail)
    place = (rest := whole.read()).rfind(b"PK\5\6")
    if place < 0:
        raise BadArchive("its last part does not end as a zip archive does")
    end = [*END.unpack_from(rest, place)]
    _, last, disk, _, entries, size, offset, _ = end
    if last != len(starts) - 1:
        raise BadArchive(f"it is of {last + 1} parts, and {len(starts)} are here")
    first = _whole(starts, disk, offset)
    whole.seek(first)
    directory = bytearray(whole.read(size))
    at = 0
    for _ in range(entries):
        if directory[at : at + 4] != b"PK\1\2":
            raise BadArchive("its parts do not belong together")
        (begins,) = struct.unpack_from("<L", directory, at + 42)
        *lengths, on = struct.unpack_from("<4H", directory, at + 28)
        struct.pack_into("<H", directory, at + 34, 0)
        struct.pack_into("<L", directory, at + 42, _whole(starts, on, begins))
        at += 46 + sum(lengths)  # name, extra, comment
    whole.seek(first)
    whole.write(directory)
    end[1:4] = [0, 0, entries]
    end[6] = first
    whole.seek(tail + place)
    whole.write(END.pack(*end))


def _whole(starts: Sequence[int], disk: int, offset: int) -> int:
    """A place in a part as one in all parts."""
    if disk == 2**16 - 1 or offset == 2**32 - 1 or starts[disk] + offset >= 2**32 - 1:
        raise BadArchive("it is a split zip of more than 4 GiB; join it with: zip -s 0")
    return starts[disk] + offset


def _extract(archive: Path, work: Path, most: int) -> None:
    names, folders, total = set[str](), set[str](), 0
    with closing(_members(archive)) as members:
        for name, plain, count, opened in members:
            try:
                path = inside(name)
            except ValueError as error:
                raise BadArchive(str(error)) from None
            above = {str(folder).casefold() for folder in path.parents}
            own = str(path).casefold()  # some disks tell no capitals apart
            if own in names or own in folders or above & names:
                raise BadArchive(f"{shortened(name, 80)} is in it twice")
            names.add(own)
            folders |= above
            total += count
            if not plain:
                raise BadArchive(f"{shortened(name, 80)} is a link, a device or locked, not a file")
            if total > most:
                raise BadArchive(f"it holds more than {size(most)}")
            demand_room(work, count, name)
            with writing(work / path):
                (work / path).parent.mkdir(parents=True, exist_ok=True)
                with (work / path).open("xb") as out:
                    source = opened()
                    while source is not None and (block := _read(source)):
                        out.write(block)
            if (work / path).stat().st_size != count:
                raise BadArchive(f"{shortened(name, 80)} is cut off")
    if not names:
        raise BadArchive("it holds no file")


def _read(source: IO[bytes]) -> bytes:
    try:
        return source.read(2**20)
    except OSError as error:  # of the archive, not of what is written
        raise BadArchive(f"it is damaged ({type(error).__name__})") from None


def _members(archive: Path) -> Generator[Member, None, None]:
    """What an archive holds, without folders, in its order: a tar.xz can only be read onwards."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for item in packed.infolist():
                mode = stat.S_IFMT(item.external_attr >> 16)
                plain = mode in (0, stat.S_IFREG) and not item.flag_bits & 1
                if not (item.is_dir() and mode in (0, stat.S_IFDIR)):
                    yield item.filename, plain, item.file_size, lambda i=item: packed.open(i)  # type: ignore[misc]
        return
    with tarfile.open(archive) as taped:
        for part in taped:
            if not part.isdir():
                plain = part.isreg() and not part.issparse()
                yield part.name, plain, part.size, lambda p=part: taped.extractfile(p)  # type: ignore[misc]


def _move(work: Path, folder: Path) -> None:
    """Gives the files their places, perhaps over those of an earlier attempt."""
    for file in sorted(f for f in work.rglob("*") if f.is_file()):
        place = folder / file.relative_to(work)
        if not place.parent.resolve().is_relative_to(folder.resolve()):
            raise BadArchive(f"{place.parent} is a link that leads out of {folder}")
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, place)
