"""Files that exist whole or not at all: a temporary name in the same folder, fsync, rename.

A damaged file is renamed to NAME.damaged (`quarantine`), with a line in the log
`ecgbench.core.files`, which goes to standard error by default. Locks are `filelock`'s.
"""

import codecs
import errno
import hashlib
import io
import json
import logging
import os
import platform
import re
import secrets
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ecgbench.core.text import visible
from ecgbench.errors import BadSetting, WriteError

if os.name == "nt":
    raise BadSetting("ecgbench runs on Linux and macOS; on Windows use WSL")

if TYPE_CHECKING:
    import pandas as pd

Content = bytes | str | Callable[[BinaryIO], object]
"""Content of a file, or a function that writes it into an open file."""
TEMPORARY = ".tmp"
"""Suffix of files that are being written; leftovers of a kill are removed at the next start."""
DAMAGED = ".damaged"
OUTDATED = ".outdated"
"""Behind the name of a folder whose place another one has taken."""
"""Suffix of quarantined files and folders; a later one replaces an earlier one."""
CHANGED = "is not as it was written"
PROOF = "proof"
"""Entry of a JSON object with the hash of all others."""
_FORGOTTEN = 86_400.0
"""A temporary file without a write for so many seconds is a leftover; the longest write is far
shorter.
"""
_OURS = re.compile(r"\..+\.(?P<host>[\w-]+)\.(?P<pid>\d{1,9})\.[0-9a-f]{16}\.tmp")
"""Our temporary names; a folder may hold other files."""
_LOG = logging.getLogger(__name__)
_WARNED: set[tuple[Path, str]] = set()
"""Files that this process has warned about."""


@contextmanager
def writing(path: Path, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turns an OSError, except `but`, into WriteError of `path`: later writes would meet the same
    disk, so it is never the failure of one model or one cell.
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


def put(path: Path, content: Content) -> Path:
    """Write a file durably and atomically; text is UTF-8 with its line ends. Returns the path.

    Any failure (no space, an I/O error, a kill) leaves the old file unchanged; WriteError names
    `path`.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _temporary(path)
        try:
            with open(unfinished, "xb") as out:
                _fill(out, content)
                os.replace(unfinished, path)
        finally:
            with suppress(OSError):  # what made it fail is the news; `sweep` finds what is left
                unfinished.unlink(missing_ok=True)
        _sync(path.parent)
    return path


def put_into(unfinished: Path, name: str, content: Content) -> Path:
    """Write a new file into a folder of `making`. Its name need not be durable before `move`, which
    halves the wait for the disk. Returns the path; WriteError names it.
    """
    path = unfinished / name
    with writing(path), open(path, "xb") as out:
        _fill(out, content)
    return path


def _fill(out: BinaryIO, content: Content) -> None:
    """The content of an open file."""
    if callable(content):
        content(out)
    else:
        out.write(content.encode() if isinstance(content, str) else content)
    flush(out)


def metadata(content: bytes) -> dict[str, str]:
    """Metadata of a safetensors file; ValueError where it is none."""
    size = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + size]).get("__metadata__", {}))


def move(complete: Path, folder: Path) -> bool:
    """Give a folder of durable files its final name, durably; WriteError names `folder`.

    False where a folder with content has that name; then nothing is done.
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
    """A new folder next to `folder`, to be filled and renamed by `move`; removed otherwise.
    WriteError names it.
    """
    unfinished = _temporary(folder)
    with writing(unfinished):
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir()
    try:
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def append(path: Path, lines: Iterable[str], lasting: bool = True) -> None:
    """Add lines to a file in one write, so that lines of two processes do not mix; WriteError names
    `path`. lasting: wait until they are on the disk.
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
    """Wait until the content of an open file is on the disk."""
    out.flush()
    os.fsync(out.fileno())


def sweep(folder: Path, below: bool = True) -> None:
    """Remove leftovers of dead writers in `folder`, and `below` it: temporary files of ended
    processes of this machine, and those not written for a day. Other files stay.
    """
    names = f".*{TEMPORARY}"
    for path in list(folder.rglob(names) if below else folder.glob(names)):
        with suppress(OSError):
            if not _abandoned(path):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """A name beside `path` that nobody else gives; it holds machine and process."""
    mine = f"{_host()}.{os.getpid()}.{secrets.token_hex(8)}"
    return path.with_name(f".{path.name[:40]}.{mine}{TEMPORARY}")


def _abandoned(path: Path) -> bool:
    import psutil  # takes longer than all else that most commands do

    match = _OURS.fullmatch(path.name)
    if not match:
        return False
    if match["host"] == _host() and not psutil.pid_exists(int(match["pid"])):
        return True
    return time.time() - path.lstat().st_mtime > _FORGOTTEN


@cache
def _host() -> str:
    """The machine's name; one of another container has another name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", platform.node())[:40] or "host"


@contextmanager
def locked(
    folder: Path, name: str = ".lock", wait: bool = True, otherwise: str = ""
) -> Iterator[None]:
    """One process at a time inside. The lock ends with its process.

    folder: created if needed. name: of the lock file, which stays. If another process is inside:
    wait, or BlockingIOError, or, with `otherwise`, BadSetting(otherwise). WriteError names what
    cannot be created.
    """
    from filelock import FileLock, SoftFileLock, Timeout  # who writes nothing needs none

    path, seconds = folder / name, -1 if wait and not otherwise else 0
    lock: FileLock | SoftFileLock = FileLock(path)
    try:
        with writing(path, but=Timeout):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=seconds)
            except OSError as error:
                # filelock takes a file for a lock by itself where there is no such call (ENOSYS)
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP):
                    raise
                warnings.warn(
                    f"flock not supported in {folder}; a file stands for it", stacklevel=2
                )
                lock = SoftFileLock(folder / f"{name}.owner")
                lock.acquire(timeout=seconds)
    except Timeout:
        if otherwise:
            raise BadSetting(otherwise) from None
        raise BlockingIOError(errno.EWOULDBLOCK, "another process is inside", str(path)) from None
    try:
        yield
    finally:
        lock.release()


def quarantine(
    path: Path, why: str = CHANGED, then: str = "what it held is computed again"
) -> None:
    """Rename a damaged file or folder, and log it. If that fails (another process did it, or the
    disk is read-only), the caller must not use it either.
    """
    damaged, where = path.with_name(path.name + DAMAGED), "it is not used"
    with suppress(OSError):
        if damaged.is_dir():
            shutil.rmtree(damaged)
        os.replace(path, damaged)
        where = f"renamed to {damaged.name}"
    _LOG.warning("%s", visible(f"{path} {why}; {where}, and {then}"))


def warn_once(path: Path, text: str, what: str | None = None) -> None:
    """Warn about a damaged part of a file; once per file, text (or `what` it speaks of) and
    process, so that a failing disk does not fill a log.
    """
    key = path, text if what is None else what
    if key not in _WARNED:
        _WARNED.add(key)
        _LOG.warning("%s", visible(f"{path}: {text}"))


@contextmanager
def warnings_to(show: Callable[[str], None]) -> Iterator[None]:
    """Warnings about damaged files go to `show`, line by line."""
    listener = logging.Handler()
    listener.emit = lambda record: show(record.getMessage())  # type: ignore[method-assign]
    _LOG.addHandler(listener)
    try:
        yield
    finally:
        _LOG.removeHandler(listener)


def proved(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts for a JSON file, with their hash."""
    written = {name: value for name, value in facts.items() if name != PROOF}
    return {**written, PROOF: _hash_of(json.loads(json.dumps(written)))}


def facts_of(whole: dict[str, Any]) -> dict[str, Any]:
    """The facts in a JSON object of `proved`; those of an object without a hash as they are.
    ValueError where the hash is wrong.
    """
    facts = {name: value for name, value in whole.items() if name != PROOF}
    if PROOF in whole and whole[PROOF] != _hash_of(facts):
        raise ValueError("it is not as it was written")
    return facts


def _hash_of(facts: dict[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def put_proved(path: Path, facts: dict[str, Any]) -> None:
    """Write facts with their hash durably and atomically; WriteError names `path`."""
    put(path, json.dumps(proved(facts), indent=1) + "\n")


def read_proved(path: Path) -> dict[str, Any] | None:
    """The facts written by `put_proved`; None for a missing file, or a damaged one, which is
    quarantined.
    """
    with _checked(path):
        whole = json.loads(content_of(path))
        if PROOF in whole:
            return facts_of(whole)
        raise ValueError("it holds no hash")
    return None


def put_hashed(path: Path, content: bytes | memoryview) -> None:
    """Write bytes durably and atomically, after their sha256; WriteError names `path`."""
    put(path, lambda out: out.writelines([hashlib.sha256(content).digest(), content]))


def read_hashed(path: Path) -> bytes | None:
    """The bytes written by `put_hashed`; None for a missing file, or a damaged one, which is
    quarantined.
    """
    with _checked(path):
        content = content_of(path)
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return content[32:]
        raise ValueError("its hash is another")
    return None


@contextmanager
def _checked(path: Path) -> Iterator[None]:
    """A file that turns out inside not to be as it was written goes into quarantine."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError, TypeError, RecursionError):
        quarantine(path)


def _sync(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def opened(path: Path | str) -> io.FileIO:
    """A file to be read, which nobody is waited for: a named pipe is empty until somebody writes
    into it.
    """
    return io.FileIO(
        os.fspath(path), opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
    )


def content_of(path: Path | str) -> bytes:
    """What a file holds; see `opened`."""
    with opened(path) as file:
        return file.readall() or b""


def sha256_of(path: Path | str) -> str:
    """The hash of a file's content; "" where there is no file."""
    with suppress(FileNotFoundError, IsADirectoryError), opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


def sha256_once(path: Path) -> str:
    """`sha256_of` a file that this process may ask for again; "" too where it cannot be read. A
    changed file keeps perhaps its size and its time, but not that of the change.
    """
    with suppress(OSError):
        now = path.stat()
        return _sha256_of(path, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    return ""


@cache
def _sha256_of(path: Path, *_: int) -> str:
    return sha256_of(path)


def decoded(content: bytes) -> str:
    """The text of a user's file: UTF-8, UTF-16 with a byte order mark, else Windows-1252.
    UnicodeError where it is none of them.
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
    """An array written by `as_npy`, and nothing else (np.load would open archives too); ValueError
    where it is none.
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
