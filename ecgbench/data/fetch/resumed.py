"""Downloads one published file by https: resumed where it broke off, and checked before it gets its
name.

The part so far is NAME.part; NAME.part.tag is the server's tag of this version. What is not the
published file is removed, and one that lies there is replaced by it.
"""

import hashlib
import http.client
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3

from ecgbench.cards.dataset import Download
from ecgbench.core.files import writing
from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting

BLOCK = 2**18
TIMEOUT = (20.0, 60.0)
"""Seconds to wait for a connection, and between two bytes."""
PAUSES: tuple[float, ...] = (0.5, 2.0, 8.0)
"""Seconds before an interrupted transfer is resumed."""
PAGE = (b"<!doctype", b"<html", b"<head", b"<?xml")


Progress = Callable[[int, int | None], None]
"""Called with the bytes so far, and the total (None: not known)."""


class DownloadError(BadSetting):
    """A failed download; the message gives the reason, without a remedy."""


class _Interrupted(Exception):
    """Perhaps the next attempt succeeds."""


def session() -> requests.Session:
    """The connections of one thread."""
    made = requests.Session()
    made.headers["Accept-Encoding"] = "identity"
    return made


def obtain(session: requests.Session, wanted: Download, path: Path, progress: Progress) -> None:
    """Download a file to `path`, whole and checked; DownloadError gives the reason in one line."""
    if path.is_file() and not wrong(path, wanted):
        return
    part = _with_suffix(path, ".part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    for pause in (*PAUSES, None):
        try:
            _transfer(session, wanted, part, progress)
            break
        except _Interrupted as error:
            if pause is None:
                received = part.stat().st_size if part.is_file() else 0
                more = f"; {received:,} bytes of it are kept for the next time" if received else ""
                raise DownloadError(f"{wanted.url}: {error}{more}") from None
            time.sleep(pause)
    why = wrong(part, wanted)
    with writing(path):
        _with_suffix(part, ".tag").unlink(missing_ok=True)
        if why:
            raise refused(wanted, part, why)
        os.replace(part, path)


def wrong(path: Path, wanted: Download) -> str:
    """Why a file is not the published one, as the end of a sentence; "" where no fault is found."""
    try:
        with path.open("rb") as file:
            count, head = os.fstat(file.fileno()).st_size, file.read(512)
            if not count:
                return "it is empty"
            if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(PAGE):
                return "it is a web page"
            if wanted.size not in (None, count):
                return f"it has {count:,} bytes and not {wanted.size:,}"
            for kind, right in (("sha256", wanted.sha256), ("md5", wanted.md5)):
                file.seek(0)
                if right and (own := hashlib.file_digest(file, kind).hexdigest()) != right.lower():
                    return f"its {kind} is {own} and not {right}"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return ""


def refused(wanted: Download, path: Path, why: str) -> DownloadError:
    """The error of a wrong file, which is removed."""
    path.unlink()
    return DownloadError(f"{wanted.url}: what came is not the published file: {why}")


def text(session: requests.Session, url: str) -> str:
    """Content of a small file, such as a list, downloaded again each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        obtain(session, Download(url=url, path=path.name), path, lambda *_: None)
        return path.read_text(encoding="utf-8", errors="replace")


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _transfer(session: requests.Session, wanted: Download, part: Path, progress: Progress) -> None:
    """One attempt: what is missing of `part` is added to it."""
    note = _with_suffix(part, ".tag")
    have = part.stat().st_size if part.is_file() else 0
    tag = note.read_text() if note.is_file() else ""
    if not (tag or wanted.sha256 or wanted.md5):
        have = 0  # an older beginning and a newer end would make one file
    headers = {"Range": f"bytes={have}-", **({"If-Range": tag} if tag else {})} if have else {}
    with _response(session, wanted.url, headers) as response:
        if response.status_code == 416:
            return  # nothing is missing; the checks tell whether it is the file
        start = have if response.status_code == 206 else 0
        extent = response.headers.get("Content-Range", "")
        if response.status_code == 206 and not extent.startswith(f"bytes {have}-"):
            raise DownloadError(
                f"{wanted.url}: the server sends {shortened(extent, 60) or 'other bytes'} and not "
                f"those from {have:,} on; delete {part} if that happens again"
            )
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        strong = (response.headers.get("ETag", ""), response.headers.get("Last-Modified", ""))
        with writing(part):
            note.write_text(strong[0] if strong[0].startswith('"') else strong[1])
            with part.open("ab" if start else "wb") as out:
                while block := _read(response):
                    out.write(block)
                    progress(out.tell(), total)


def _read(response: requests.Response) -> bytes:
    try:
        # as much as is there: a whole block would be lost where the connection breaks off in it;
        # less than the stated length is an error of urllib3
        return response.raw.read1(BLOCK)
    except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
        raise _Interrupted(f"the connection broke off ({type(error).__name__})") from None


def _response(session: requests.Session, url: str, headers: dict[str, str]) -> requests.Response:
    """What a server answers, after redirects."""
    try:
        response = session.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except (requests.ConnectionError, requests.Timeout):
        raise _Interrupted(f"no connection to {urlsplit(url).netloc}") from None
    except requests.RequestException as error:
        raise DownloadError(f"{url}: {shortened(str(error), 100)}") from None
    status = response.status_code
    if status in (200, 206) or (status == 416 and headers):
        return response
    response.close()
    why = f"the server answers {status} {shortened(response.reason or '', 40)}".strip()
    if status >= 500 or status in (408, 429):
        raise _Interrupted(why)
    raise DownloadError(f"{url}: {why}")
