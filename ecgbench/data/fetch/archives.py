"""Unpacks downloaded archives, whole or not at all; zipfile and tarfile prevent writing outside
their folder.
"""

import bisect
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from ecgbench.core.files import writing

DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    ValueError,
    IndexError,  # of a part that is not here
    RuntimeError,  # a password, or a compression that zipfile does not know
)


class BadArchive(Exception):
    """An archive that is damaged or unsafe; the message is half a sentence."""


def unpack(archive: Path, before: Sequence[Path] = ()) -> dict[str, int]:
    """Unpack a zip or tar archive next to itself, if all of it is sound; else BadArchive. Returns
    the files and their bytes.

    before: for a zip in several files those before the last, in their order.
    """
    work = archive.with_name(f".{archive.name}.tmp")
    shutil.rmtree(work, ignore_errors=True)
    try:
        with writing(work):
            work.mkdir()
            if before or zipfile.is_zipfile(archive):
                _unzip([*before, archive], work)
            else:
                with tarfile.open(archive) as packed:
                    packed.extractall(work, filter="data")
            found = sorted(f for f in work.rglob("*") if f.is_file() and not f.is_symlink())
            if not found:
                raise BadArchive("it holds no file")
            sizes = {f.relative_to(work).as_posix(): f.stat().st_size for f in found}
            for file, name in zip(found, sizes):
                target = archive.parent / name
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, target)
        return sizes
    except DAMAGED as error:
        raise BadArchive(f"it is damaged or locked ({type(error).__name__})") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unzip(volumes: Sequence[Path], work: Path) -> None:
    """Extract a zip. Parts follow one another, and what counts from the beginning of a part then
    counts from the beginning of all (APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16).
    """
    whole, starts = volumes[-1], [0]
    if volumes[1:]:
        whole = work / ".joined"
        starts = [0, *accumulate(volume.stat().st_size for volume in volumes[:-1])]
        with whole.open("wb") as out:
            for volume in volumes:
                with volume.open("rb") as part:
                    shutil.copyfileobj(part, out, 2**20)
    with zipfile.ZipFile(whole) as packed:
        # zipfile takes all places for those of the part that the directory begins in
        of = starts[bisect.bisect_right(starts, packed.start_dir) - 1]
        for item in packed.infolist():
            item.header_offset += starts[item.volume] - of
            if hasattr(item, "_end_offset"):  # where it ends, of the place that was wrong
                item._end_offset = None
        packed.extractall(work)
    if volumes[1:]:
        whole.unlink()
