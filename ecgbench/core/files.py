"""Files that are there whole or not at all: a temporary name in the same folder, fsync, rename."""

import codecs
import errno
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ecgbench.errors import BadSetting, WriteError

try:
    from ecgbench import claims, owners
except ImportError:  # of fcntl
    raise BadSetting("ecgbench runs on Linux and macOS; on Windows use WSL") from None

if TYPE_CHECKING:
    import pandas as pd

Content = bytes | str | Callable[[BinaryIO], object]
"""What a file will hold, or a function that writes it into an open file."""
_AT_ONCE = 2**24
"""Bytes of a file that is read in one piece to be hashed, at most."""


@contextmanager
def writing(path: Path, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """An OSError of what is done inside, `but` not those, becomes WriteError of `path`: whatever is
    written next would meet the same disk, so it is never the failure of one model or one cell.
    """
    try:
        yield
    except but:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise WriteError(
            f"cannot write {path}: {reason}; make room or choose another folder, then run the "
            f"same command again"
        ) from error


def put(path: Path, content: Content, lasting: bool = True) -> Path:
    """Write a file durably and atomically; text is UTF-8 with the line ends it has. Returns the
    path. lasting: it is on the disk before this returns; what can be computed again, and has its
    hash in it, need not be.

    Whatever goes wrong (no space, an I/O error, a kill) leaves the old file as it was; WriteError
    names `path`.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        passing = owners.temporary(path)
        out = open(passing, "xb", opener=_exclusive)  # noqa: SIM115  (what is here is not ours)
        try:
            with out:
                owners.take(out.fileno())
                _fill(out, content, lasting)
                os.replace(passing, path)
        finally:
            with suppress(OSError):  # what made it fail is the news; `sweep` finds what is left
                passing.unlink(missing_ok=True)
        if lasting:
            _sync(path.parent)
    return path


def put_into(unfinished: Path, name: str, content: Content) -> Path:
    """Write a new file into a folder of `making`, which nobody reads before `move` has named it and
    made its names durable: a cell needs half the waiting for the disk. Returns the path; WriteError
    names it.
    """
    path = unfinished / name
    with writing(path), open(path, "xb", opener=_exclusive) as out:
        _fill(out, content)
    return path


def _fill(out: BinaryIO, content: Content, lasting: bool = True) -> None:
    """The content of an open file."""
    if callable(content):
        content(out)
    else:
        out.write(content.encode() if isinstance(content, str) else content)
    if lasting:
        flush(out)


def metadata(content: bytes) -> dict[str, str]:
    """Words that a safetensors file holds beside its tensors; ValueError where it is none."""
    size = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + size]).get("__metadata__", {}))


def move(complete: Path, folder: Path) -> bool:
    """Give a folder whose files are all durable its final name, durably; WriteError names `folder`.

    False where a folder that is not empty has that name: then nothing is done.
    """
    with writing(folder):
        _sync(complete)
        try:
            os.rename(complete, folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        _sync(folder.parent)
    return True


@contextmanager
def making(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`, held while it is filled; `move` gives it its name. What is left
    of it is removed. WriteError names what cannot be made.
    """
    passing = owners.temporary(folder)
    with writing(passing):
        passing.parent.mkdir(parents=True, exist_ok=True)
        passing.mkdir()
        handle = os.open(passing, os.O_RDONLY)
    try:
        owners.take(handle)
        yield passing
    finally:
        os.close(handle)
        shutil.rmtree(passing, ignore_errors=True)


def append(path: Path, lines: Iterable[str], lasting: bool = True) -> None:
    """Add lines to a file, in one write, so that those of two processes do not mix; WriteError
    names `path`. lasting: they are on the disk before it returns.
    """
    # begins anew after half a line of a writer that died
    data = ("".join(f"\n{line}" for line in lines) + "\n").encode()
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as out:
            out.write(data)
            if lasting:
                flush(out)


def flush(out: BinaryIO) -> None:
    """What was written to an open file is on the disk."""
    out.flush()
    os.fsync(out.fileno())


def sweep(folder: Path, below: bool = True) -> None:
    """Remove what dead writers left in `folder`, and `below` it: what belongs to a process of this
    machine that ended, and what was not written for a day. What someone holds stays, and so does
    all that has another name.
    """
    names = f".*{owners.PASSING}"
    for left in list(folder.rglob(names) if below else folder.glob(names)):
        with suppress(OSError):
            if owners.abandoned(left):
                _remove_free(left)


def _remove_free(left: Path) -> None:
    handle = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not owners.take(handle):
            return
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
    finally:
        os.close(handle)


@contextmanager
def locked(
    folder: Path, name: str = ".lock", wait: bool = True, otherwise: str = ""
) -> Iterator[None]:
    """One process at a time inside. The claim ends with its process, however that ends.

    folder: made where there is none. name: of the lock's file in it, which stays; "": the folder
    itself is the lock. Where another process is inside: wait, or BlockingIOError, or, with
    `otherwise`, BadSetting(otherwise). WriteError names what cannot be made.
    """
    # but not the lock itself: that another holds it is no fault of the disk
    with writing(folder / name):
        folder.mkdir(parents=True, exist_ok=True)
        how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW if name else os.O_RDONLY
        handle = os.open(folder / name, how, 0o666)
    with ExitStack() as stack:
        stack.callback(os.close, handle)
        try:
            with writing(folder / name, but=BlockingIOError):
                held = claims.claim(handle, folder / name, wait and not otherwise)
                stack.enter_context(held)
        except BlockingIOError:
            if otherwise:
                raise BadSetting(otherwise) from None
            raise
        yield


def _exclusive(path: str, flags: int) -> int:
    """Opens a new file and nothing that is there, a link neither."""
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def _sync(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path | str) -> str:
    """The hash of a file's content; "" where there is no file."""
    with suppress(FileNotFoundError, IsADirectoryError), open(path, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size > _AT_ONCE:
            return hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(file.read()).hexdigest()
    return ""


def decoded(content: bytes) -> str:
    """The text of a file that anybody wrote: UTF-8, UTF-16 with its mark, else the code page of
    Western Windows. UnicodeError where it is none of them.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16").removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252")


def as_json(value: Any) -> str:
    """Readable JSON with sorted keys; NaN is an error, a missing number is null."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"


def as_npy(array: np.ndarray) -> bytes:
    """An array in numpy's own format, without pickle."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def array_of(content: bytes) -> np.ndarray:
    """The array that `as_npy` wrote and nothing else, for np.load would open archives too;
    ValueError where it is none.
    """
    return np.asarray(np.lib.format.read_array(io.BytesIO(content), allow_pickle=False))


def as_parquet(table: "pd.DataFrame") -> bytes:
    """A table as parquet, without its index."""
    out = io.BytesIO()
    table.to_parquet(out, index=False)
    return out.getvalue()


def lines(rows: Iterable[Iterable[object]]) -> str:
    """Comma-separated lines for small logs."""
    return "".join(",".join(str(v) for v in row) + "\n" for row in rows)
