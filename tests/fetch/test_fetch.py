"""Downloads against servers of this machine that answer as the Hub, Google Drive, Zenodo and
figshare do, well and badly.
"""

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from ecgbench.data.fetch import fetch

BODY = bytes(range(256)) * 8000
PART = 2**20
"""Bytes after which transfers break off; gdown keeps whole blocks of half as many."""
COMMIT, FILE_ID, FOLDER_ID = (
    "0123456789abcdef0123456789abcdef01234567",
    "1E7J-A1HqWa2f08T6Sfk5uWk-_CFJhOYQ",
    "13wb4DppUciMn-Y_qC2JRWTbZdz3xX0w2",
)
ATTACHED = {
    "Content-Type": "application/octet-stream",
    "Content-Disposition": 'attachment; filename="w.pth"',
}
LISTING = f"""<html><head><title>MERL checkpoints</title></head><body>
<a href="https://drive.google.com/file/d/{FILE_ID}/view?usp=drive_web"><div>res18_best_encoder.pth</div></a>
<a href="https://drive.google.com/file/d/{FILE_ID[::-1]}/view?usp=drive_web"><div>res18_best_ckpt.pth</div></a></body></html>"""


class Site:
    """A server whose pages are functions of the request; `asked` is what was asked of it, with the
    Range.
    """

    def __init__(self) -> None:
        self.pages: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.command, self.path, self.headers.get("Range")))
                page = site.pages.get(urlsplit(self.path).path)
                page(self) if page else send(self, 404, b"no such page")

            do_HEAD = do_GET

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def gets(self, path: str) -> list[str | None]:
        return [r for command, p, r in self.asked if command == "GET" and urlsplit(p).path == path]


def send(to: BaseHTTPRequestHandler, code: int, body: bytes, **headers: str) -> None:
    to.send_response(code)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        to.send_header(name.replace("_", "-"), value)
    to.end_headers()
    if to.command == "GET":
        to.wfile.write(body)


def file(
    body: bytes = BODY, cut: list[int] | None = None, ranges: bool = True, **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    """A page that sends a file; `cut`: numbers of bytes after which successive transfers break
    off.
    """
    cuts = cut or []

    def answer(to: BaseHTTPRequestHandler) -> None:
        asked = to.headers.get("Range")
        tag = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', **headers}
        start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked and ranges else 0
        part = body[start:]
        to.send_response(206 if asked and ranges else 200)
        for name, value in {
            "Content-Length": str(len(part)),
            "Accept-Ranges": "bytes",
            **tag,
        }.items():
            to.send_header(name, value)
        if asked and ranges:
            to.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        to.end_headers()
        if to.command == "GET":
            to.wfile.write(part[: cuts.pop(0)] if cuts else part)

    return answer


def redirect(to: str, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: send(handler, 302, b"", Location=to, **headers)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)


@pytest.fixture
def drive(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Requests to Google go to the local site instead."""
    genuine = requests.Session.request

    def local(self: requests.Session, method: str, url: str, **words: Any) -> requests.Response:
        parts = urlsplit(url)
        assert parts.netloc.endswith("google.com")
        return genuine(
            self,
            method,
            site.url + parts.path + (f"?{parts.query}" if parts.query else ""),
            **words,
        )

    monkeypatch.setattr(requests.Session, "request", local)
    return site


def had(
    url: str, folder: Path, file: str = "w.pth", proved: bool = False
) -> tuple[bytes, list[tuple[int, int | None]]]:
    told: list[tuple[int, int | None]] = []
    path = fetch.download(url, file, folder, proved, lambda done, total: told.append((done, total)))
    return path.read_bytes(), told


def not_had(url: str, folder: Path, file: str = "w.pth", proved: bool = False) -> str:
    with pytest.raises(fetch.DownloadError) as caught:
        had(url, folder, file, proved)
    assert not (folder / file).exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_transfer_that_breaks_off_goes_on_where_it_was(site: Site, tmp_path: Path) -> None:
    site.pages = {"/w.pth": file(cut=[PART, PART // 2])}
    body, _ = had(f"{site.url}/w.pth", tmp_path)
    assert body == BODY
    assert [r for r in site.gets("/w.pth") if r] == [f"bytes={PART}-", f"bytes={PART * 3 // 2}-"]


def test_a_transfer_that_always_breaks_off_leaves_no_file(site: Site, tmp_path: Path) -> None:
    site.pages = {"/w.pth": file(cut=[PART] + 20 * [0])}
    assert "the connection broke off (ProtocolError); 1,048,576 bytes of it are kept" in not_had(
        f"{site.url}/w.pth", tmp_path
    )
    assert {p.suffix for p in tmp_path.iterdir()} == {".part", ".tag"}


@pytest.mark.parametrize("proved", [True, False])
def test_what_an_earlier_command_left_is_used_only_where_a_hash_will_tell(
    proved: bool, site: Site, tmp_path: Path
) -> None:
    site.pages = {"/w.pth": file(cut=[PART] + 20 * [0])}
    not_had(f"{site.url}/w.pth", tmp_path)
    changed = bytes(reversed(BODY))  # the authors have published anew meanwhile
    site.pages, site.asked = {"/w.pth": file(changed)}, []
    body, _ = had(f"{site.url}/w.pth", tmp_path, proved=proved)
    assert site.gets("/w.pth") == ([f"bytes={PART}-"] if proved else [None])
    assert body == ((BODY[:PART] + changed[PART:]) if proved else changed)


def test_a_file_of_a_folder_of_the_drive_is_found_by_its_name(drive: Site, tmp_path: Path) -> None:
    drive.pages = {
        "/embeddedfolderview": lambda to: send(to, 200, LISTING.encode(), Content_Type="text/html"),
        "/uc": file(**ATTACHED),
    }
    url = f"https://drive.google.com/drive/folders/{FOLDER_ID}"
    body, _ = had(url, tmp_path, "res18_best_encoder.pth")
    assert body == BODY
    assert drive.asked[-1][1] == f"/uc?id={FILE_ID}"
    assert "0 files called vit_tiny" in not_had(url, tmp_path, "vit_tiny_best_encoder.pth")


def hub(site: Site, monkeypatch: pytest.MonkeyPatch, **words: Any) -> str:
    """The Hub's answers for one large file: the address leads to storage on another host and says
    commit, size and hash of it.
    """
    linked = {
        "X-Repo-Commit": COMMIT,
        "X-Linked-Size": str(len(BODY)),
        "X-Linked-ETag": f'"{hashlib.sha256(BODY).hexdigest()}"',
    }
    site.pages = {
        "/PKUDigitalHealth/ECGFounder/resolve/main/w.pth": redirect(
            f"{site.url.replace('127.0.0.1', 'localhost')}/storage/abc", **linked
        ),
        "/storage/abc": file(**words),
    }
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    return "https://huggingface.co/PKUDigitalHealth/ECGFounder/resolve/main/w.pth"


@pytest.mark.parametrize("cut", [[], [PART]])
def test_a_file_of_the_hub(
    cut: list[int], site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = list(cut)
    body, told = had(hub(site, monkeypatch, cut=cut), tmp_path)
    assert body == BODY
    assert told[-1] == (len(BODY), len(BODY))
    assert site.gets("/storage/abc") == [None, *(f"bytes={n}-" for n in times)]


@pytest.mark.parametrize(
    "url",
    [
        "https://huggingface.co/PKUDigitalHealth/ECGFounder/resolve/main/w.pth",
        f"https://drive.google.com/file/d/{FILE_ID}/view",
        f"https://drive.google.com/drive/folders/{FOLDER_ID}",
        "https://zenodo.org/records/14881564/files/w.pth",
    ],
)
def test_without_a_network_one_line_says_so(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, port, *_, **__: [(2, 1, 6, "", ("127.0.0.1", port))]
    )
    assert not_had(url, tmp_path) == f"no connection to {urlsplit(url).netloc}"


def test_an_empty_answer_and_an_address_that_is_none(site: Site, tmp_path: Path) -> None:
    site.pages = {"/w.pth": lambda to: send(to, 200, b"")}
    with pytest.raises(fetch.DownloadError, match="it is empty"):
        had(f"{site.url}/w.pth", tmp_path)
    assert "404" in not_had(f"{site.url}/gone.pth", tmp_path, "gone.pth")
    assert "no address to download from" in not_had("ftp://example.org/w.pth", tmp_path / "new")
