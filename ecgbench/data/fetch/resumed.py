"""One published file by https: taken up again where it broke off, and proved before it gets its
name.

What has come so far lies in NAME.part, beside it in NAME.part.tag what the server calls this
version of the file. A file that is not the published one is kept as NAME.refused.
"""

import hashlib
import http.client
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urljoin

import requests
import urllib3

from ecgbench.core.cards import Download
from ecgbench.core.files import writing
from ecgbench.core.text import shortened, size
from ecgbench.data.fetch.fetch import TIMEOUT, WEB, DownloadError
from ecgbench.errors import BadSetting

BLOCK = 2**18
PAUSES: tuple[float, ...] = (1.0, 4.0, 16.0)
"""Seconds before an interrupted transfer is taken up again."""
SLOWEST, PATIENCE = 1000.0, 60.0
"""Bytes a second, over so many seconds, below which a transfer counts as interrupted."""
REDIRECTS = 5
MAGIC = {
    ".zip": (0, b"PK"),
    ".xlsx": (0, b"PK"),
    ".xz": (0, b"\xfd7zXZ\x00"),
    ".gz": (0, b"\x1f\x8b"),
    ".tar": (257, b"ustar"),
    ".hdf5": (0, b"\x89HDF"),
    ".h5": (0, b"\x89HDF"),
    ".npy": (0, b"\x93NUMPY"),
}
"""Suffix -> where in a file of that format which bytes stand."""
PAGE = (b"<!doctype", b"<html", b"<head", b"<?xml")


class NotThere(DownloadError):
    """The server knows no such file."""


class _Interrupted(Exception):
    """Perhaps the next attempt succeeds."""


def session() -> requests.Session:
    """Connections of one thread; no credentials of this machine are sent."""
    made = requests.Session()
    made.auth = lambda request: request  # else requests would look into ~/.netrc
    made.headers["Accept-Encoding"] = "identity"
    return made


def obtain(
    session: requests.Session, wanted: Download, path: Path, told: Callable[[int], None]
) -> None:
    """`path` becomes the file, whole and proved; DownloadError says in one line why not.

    told: receives how many bytes of it are here.
    """
    if path.is_file():
        if not wrong(path, wanted):
            return
        _aside(path, path)
    part = _beside(path, ".part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    for pause in (*PAUSES, None):
        try:
            _transfer(session, wanted, part, told)
            break
        except _Interrupted as error:
            if pause is None:
                kept = part.stat().st_size if part.is_file() else 0
                more = f"; {kept:,} bytes of it are kept for the next time" if kept else ""
                raise DownloadError(f"{wanted.url}: {error}{more}") from None
            time.sleep(pause)
    if why := wrong(part, wanted):
        raise refused(wanted, part, why)
    with writing(path):
        os.replace(part, path)
        _beside(part, ".tag").unlink(missing_ok=True)


def wrong(path: Path, wanted: Download) -> str:
    """Why a file is not the published one, as the end of a sentence; "" where nothing is known
    against it.
    """
    suffix = Path(wanted.path).suffix.lower()
    # the last part of a split archive begins anywhere
    place, magic = (0, b"") if wanted.before else MAGIC.get(suffix, (0, b""))
    try:
        with path.open("rb") as file:
            count, head = os.fstat(file.fileno()).st_size, file.read(512)
            found = {}
            for kind in ("sha256", "md5"):
                if getattr(wanted, kind):
                    file.seek(0)
                    found[kind] = hashlib.file_digest(file, kind).hexdigest()
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if not count:
        return "it is empty"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(PAGE):
        return "it is a web page"
    if not head[place:].startswith(magic):
        return f"it does not begin as a {suffix} file does"
    if wanted.size not in (None, count):
        return f"it has {count:,} bytes and not {wanted.size:,}"
    other = [k for k, value in found.items() if value != getattr(wanted, k).lower()]
    return "".join(f"its {k} is {found[k]} and not {getattr(wanted, k)}" for k in other[:1])


def refused(wanted: Download, path: Path, why: str) -> DownloadError:
    """The error of a file, or of what has come of it, that is put aside."""
    kept = _aside(path, path.with_name(path.name.removesuffix(".part")))
    return DownloadError(
        f"{wanted.url}: what came is not the published file: {why}; kept as {kept}"
    )


def text(session: requests.Session, url: str) -> str:
    """What a small file holds, a list for example, which is fetched anew each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        obtain(session, Download(url=url, path=path.name), path, lambda count: None)
        return path.read_text(encoding="utf-8", errors="replace")


def demand_room(folder: Path, count: int, what: str) -> None:
    """BadSetting where `count` bytes have no room on the disk of a folder, or of the one that it
    will lie in.
    """
    there = next(f for f in (folder, *folder.absolute().parents) if f.is_dir())
    if (free := shutil.disk_usage(there).free) < count:
        raise BadSetting(
            f"{what} needs {size(count)}, and the disk of {folder} has {size(free)} free; make "
            f"room, or choose another folder with --data"
        )


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _aside(path: Path, final: Path) -> Path:
    kept = _beside(final, ".refused")
    with writing(kept):
        os.replace(path, kept)
        _beside(path, ".tag").unlink(missing_ok=True)
    return kept


def _transfer(
    session: requests.Session, wanted: Download, part: Path, told: Callable[[int], None]
) -> None:
    """One attempt: what is lacking of `part` is added to it."""
    note, have, tag = _beside(part, ".tag"), 0, ""
    with suppress(OSError):
        have, tag = part.stat().st_size, note.read_text() if note.is_file() else ""
    if not (tag or wanted.sha256 or wanted.md5):
        have = 0  # an older beginning and a newer end would make one file
    asked = {"Range": f"bytes={have}-", "If-Range": tag} if have else {}
    with _answer(session, wanted.url, {k: v for k, v in asked.items() if v}) as answer:
        if answer.status_code == 416:
            if answer.headers.get("Content-Range") == f"bytes */{have}":
                return
            raise refused(wanted, part, "it has become another one since its beginning came")
        began, whole = _extent(answer, wanted, have)
        new = answer.headers.get("ETag", "")
        new = answer.headers.get("Last-Modified", "") if new[:1] != '"' else new
        if began and tag and new and new != tag:
            raise refused(wanted, part, "it has become another one since its beginning came")
        demand_room(part.parent, (whole or 0) - began, part.name.removesuffix(".part"))
        with writing(part):
            note.write_text(new)
            with part.open("r+b" if began else "wb") as out:
                out.seek(began)
                came = began
                for block in _blocks(answer):
                    came += out.write(block)
                    told(came)
                    if came > (wanted.size or came):
                        return  # without an end, perhaps; its proof will fail
        if whole is not None and came < whole:
            raise _Interrupted(f"only {came:,} of {whole:,} bytes came")


def _blocks(answer: requests.Response) -> Iterator[bytes]:
    """What comes, as long as it comes fast enough."""
    count, since = 0, time.monotonic()
    while True:
        try:
            # as much as is there: a whole block of a server that drips would take for ever
            block = answer.raw.read1(BLOCK)
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            raise _Interrupted(f"the connection broke off ({type(error).__name__})") from None
        if not block:
            return
        yield block
        count += len(block)
        if (passed := time.monotonic() - since) >= PATIENCE:
            if count < SLOWEST * passed:
                raise _Interrupted(f"less than {SLOWEST / 1000:g} kB a second came")
            count, since = 0, time.monotonic()


def _extent(answer: requests.Response, wanted: Download, have: int) -> tuple[int, int | None]:
    """From which byte on the answer holds the file, and how many the file has, if that is said."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise DownloadError(
            f"{wanted.url}: the server sends it compressed "
            f"({answer.headers['Content-Encoding']}), which was not asked for"
        )
    length = answer.headers.get("Content-Length", "")
    if answer.status_code == 200:
        return 0, int(length) if length.isdigit() else None
    said = answer.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", said)
    if match is None or int(match[1]) != have:
        raise DownloadError(
            f"{wanted.url}: asked for the bytes from {have:,} on, the server sends "
            f"{shortened(said, 60) or 'others'}; delete its .part file if that happens again"
        )
    return have, int(match[2]) if match[2].isdigit() else None


def _answer(session: requests.Session, url: str, asked: dict[str, str]) -> requests.Response:
    """What a server answers, after redirects that stay on https."""
    first = url
    for _ in range(REDIRECTS + 1):
        if not WEB.match(url):
            raise DownloadError(f"{first}: leads to {shortened(url, 100)}, which is not https")
        try:
            answer = session.get(
                url, headers=asked, stream=True, timeout=TIMEOUT, allow_redirects=False
            )
        except requests.RequestException as error:
            raise _Interrupted(f"no connection ({type(error).__name__})") from None
        if not answer.is_redirect:
            break
        answer.close()
        there = urljoin(url, answer.headers["Location"])
        if url.startswith("https:") and not there.startswith("https:"):
            raise DownloadError(f"{first}: leads to {shortened(there, 100)}, which is not https")
        url = there
    else:
        raise DownloadError(f"{first}: more than {REDIRECTS} redirects")
    status = answer.status_code
    if status == 200 or (status in (206, 416) and asked):
        return answer
    answer.close()
    said = f"the server answers {status} {shortened(answer.reason or '', 40)}".strip()
    if status >= 500 or status in (408, 429):
        raise _Interrupted(said)
    raise (NotThere if status in (404, 410) else DownloadError)(f"{first}: {said}")
