"""Unpacks downloaded archives, whole or not at all; zipfile and tarfile prevent writing outside
their folder.
"""

import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path

from ecgbench.core.files import writing

DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    ValueError,
    RuntimeError,  # a password, or a compression that zipfile does not know
)


class BadArchive(Exception):
    """An archive that is damaged or unsafe; the message is half a sentence."""


def unpack(archive: Path) -> dict[str, int]:
    """Unpack a zip or tar archive next to itself, if all of it is sound; else BadArchive. Returns
    the files and their bytes.
    """
    work = archive.with_name(f".{archive.name}.tmp")
    shutil.rmtree(work, ignore_errors=True)
    try:
        with writing(work):
            work.mkdir()
            if zipfile.is_zipfile(archive):
                with zipfile.ZipFile(archive) as packed:
                    packed.extractall(work)
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
