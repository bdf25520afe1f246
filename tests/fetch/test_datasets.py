"""Files of datasets against a server of this machine that misbehaves on request: whatever it does,
one clear line, nothing outside the folder, and the same command goes on once the server behaves.
"""

import hashlib
import io
import os
import re
import shutil
import socket
import tarfile
import threading
import time
import warnings
import zipfile
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from typer.testing import CliRunner

from ecgbench import datasets as room
from ecgbench.cards.dataset import Download, Listing, Manifest
from ecgbench.cli import app
from ecgbench.data.fetch import datasets, resumed
from ecgbench.errors import BadSetting, EcgbenchError

BODY = bytes(range(256)) * 2500
SHA = hashlib.sha256(BODY).hexdigest()
HEADER = b"E00001 12 500 5000\nE00001.mat 16+24 1000/mV 16 0 136 -28477 0 I\n#Dx: 426783006\n"
PAGE = b"\xef\xbb\xbf\n <!DOCTYPE html><html><body>Down for maintenance</body></html>"
HOST = "https://data.test"
Page = Callable[[BaseHTTPRequestHandler], None]


class Site:
    """A server whose pages are functions of the request, reached as https://data.test."""

    def __init__(self) -> None:
        self.pages: dict[str, list[Page]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.encodings: set[str | None] = set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.asked.append((self.path, self.headers.get("Range")))
                site.encodings.add(self.headers["Accept-Encoding"])
                pages = site.pages.get(self.path, [answer(404, b"no such page")])
                (pages.pop(0) if len(pages) > 1 else pages[0])(self)

            def log_message(self, *_: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None: ...

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def serve_one(self, name: str, body: bytes) -> None:
        self.pages[f"/{name}"] = [whole(body)]

    def serve(self, files: dict[str, bytes]) -> None:
        self.pages = {f"/{name}": [whole(body)] for name, body in files.items()}


def answer(code: int, body: bytes = b"", length: int | None = None, **headers: str) -> Page:
    """A page; `length`: what it says instead of its true length."""

    def send(to: BaseHTTPRequestHandler) -> None:
        to.send_response(code)
        said = str(len(body) if length is None else length)
        for name, value in {"Content-Length": said, **headers}.items():
            to.send_header(name.replace("_", "-"), value)
        to.end_headers()
        to.wfile.write(body)
        if length is not None and length > len(body):
            to.close_connection = True

    return send


def whole(body: bytes = BODY, tag: str | None = None, cut: int | None = None) -> Page:
    """A file as a good server sends it, ranges and If-Range with it; `cut`: breaks off after so
    many bytes.
    """
    tag = f'"{hashlib.md5(body).hexdigest()}"' if tag is None else tag

    def send(to: BaseHTTPRequestHandler) -> None:
        asked, only_if = to.headers.get("Range"), to.headers.get("If-Range", tag)
        start = int(asked[6:-1]) if asked and only_if == tag else 0
        if start and start >= len(body):
            return answer(416, Content_Range=f"bytes */{len(body)}")(to)
        part = body[start:]
        to.send_response(206 if start else 200)
        to.send_header("Content-Length", str(len(part)))
        if tag:
            to.send_header("ETag", tag)
        if start:
            to.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        to.end_headers()
        to.wfile.write(part[:cut])
        to.close_connection = cut is not None
        return None

    return send


def reset(to: BaseHTTPRequestHandler) -> None:
    """The connection is reset in the middle of an answer."""
    to.send_response(200)
    to.send_header("Content-Length", str(len(BODY)))
    to.send_header("ETag", f'"{hashlib.md5(BODY).hexdigest()}"')
    to.end_headers()
    to.wfile.write(BODY[:70_000])
    to.wfile.flush()
    time.sleep(0.02)
    to.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    to.close_connection = True


def redirect(to: str) -> Page:
    return answer(302, Location=to)


def part_of(start: int, total: int | str = len(BODY), tag: str = "") -> Page:
    """The second part of a file, beginning at `start` whatever was asked for."""
    body = BODY[start:]
    said = f"bytes {start}-{len(BODY) - 1}/{total}"
    return answer(206, body, Content_Range=said, **({"ETag": tag} if tag else {}))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site()

    class Local(HTTPAdapter):
        def send(self, request: Any, *args: Any, **words: Any) -> requests.Response:
            sent = request.copy()
            sent.url = request.url.replace(HOST, made.url)
            response = super().send(sent, *args, **words)
            response.url, response.request = request.url, request
            return response

    genuine = resumed.session

    def local() -> requests.Session:
        session = genuine()
        session.mount(HOST, Local())
        return session

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(resumed, "session", local)
    monkeypatch.setattr(resumed, "PAUSES", (0.0, 0.0))
    yield made
    made.close()
    assert made.encodings <= {"identity"}


def fetch(
    root: Path, *files: Download, manifest: Manifest | None = None, listing: Listing | None = None
) -> datasets.Plan:
    plan = datasets.planned(root, files, manifest, listing)
    datasets.fetch(plan, lambda n: None)
    return plan


def failure(root: Path, *files: Download, **lists: Any) -> str:
    with pytest.raises(EcgbenchError) as caught:
        fetch(root, *files, **lists)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def below(folder: Path) -> set[str]:
    """Files in a folder, those of the lock left out."""
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
    return files - {"data/.fetch.lock", ".fetch.lock"}


@dataclass
class Case:
    """How a server misbehaves while one file is fetched."""

    told: str
    """What the error says."""
    pages: list[Page]
    left: set[str] = field(default_factory=set)
    """What lies in the folder then."""
    resumes: bool = False
    """Whether the second try goes on in the middle."""
    first: list[Page] = field(default_factory=list)
    """What an earlier, interrupted command met."""
    file: dict[str, Any] = field(default_factory=dict)
    """What of the declared file is otherwise."""


ALWAYS = 3
"""Attempts that a command makes."""
PART = {"x.mat.part", "x.mat.part.tag"}
CUT = [whole(cut=100_000)] + [whole(cut=0)] * ALWAYS
CUT_UNTAGGED = whole(bytes(reversed(BODY)), tag="", cut=100_000)
OTHER = bytes(reversed(BODY))
CASES = {
    "a web page": Case("it is a web page", [answer(200, PAGE)]),
    "truncated": Case("broke off .*; 100,000 bytes of it are kept for the n", CUT, PART, True),
    "truncated, of unknown size": Case(
        "connection broke off", CUT, PART, True, file={"sha256": None, "size": None}
    ),
    "wrong size": Case("bytes and not", [whole(BODY[:-1])], file={"sha256": None}),
    "reset": Case("connection", [reset], PART),
    "wrong sha256": Case(f"its sha256 is .* and not {SHA}", [whole(OTHER)]),
    "wrong md5": Case(
        "its md5 is .* and not", [whole(OTHER)],
        file={"sha256": None, "md5": hashlib.md5(BODY).hexdigest()},
    ),
    "redirect loop": Case("30 redirects", [redirect("/x.mat")]),
    "404": Case("the server answers 404", [answer(404)]),
    "500": Case("the server answers 500", [answer(500)]),
    "206 unasked": Case("and not those from 0 on", [part_of(1000)]),
    "empty": Case("it is empty", [answer(200)]),
    "Range wrong": Case(
        "the server sends bytes 5-639999/640000 and not those from 100,000 on",
        [part_of(5)], PART, True, first=CUT,
    ),
    "Range of another file": Case(
        "its sha256 is", [part_of(100_000)], first=[CUT_UNTAGGED, answer(403)]
    ),
    "gone between two parts": Case("answers 404", [answer(404)], PART, True, first=CUT),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_server_that_misbehaves(name: str, site: Site, tmp_path: Path) -> None:
    case, root = CASES[name], tmp_path / "data"
    facts = {"path": "x.mat", "sha256": SHA, "size": len(BODY), **case.file}
    file = Download(url=f"{HOST}/x.mat", **facts)
    if case.first:
        site.pages["/x.mat"] = list(case.first)
        failure(root, file)
    site.pages["/x.mat"] = list(case.pages)
    said = failure(root, file)
    assert re.search(case.told, said)
    assert said.startswith(f"{HOST}/x.mat: ")
    assert below(tmp_path) == {f"data/{f}" for f in case.left}
    site.pages["/x.mat"], site.asked = [whole()], []
    fetch(root, file)
    assert (root / file.path).read_bytes() == BODY
    assert (site.asked[0][1] is not None and site.asked[0][1] != "bytes=0-") >= case.resumes
    assert below(root) == {file.path}
    assert not datasets.planned(root, [file], None).missing


def test_a_short_trouble_is_overcome_in_one_command(site: Site, tmp_path: Path) -> None:
    site.pages["/x.mat"] = [whole(cut=100_000), answer(503), whole()]
    fetch(tmp_path, Download(url=f"{HOST}/x.mat", path="x.mat", sha256=SHA))
    assert [r for _, r in site.asked] == [None, "bytes=100000-", "bytes=100000-"]
    assert below(tmp_path) == {"x.mat"}


@pytest.mark.parametrize(
    ("proof", "tag", "asked"),
    [
        (SHA, "", "bytes=100000-"),
        (None, '"v1"', "bytes=100000-"),
        (None, "", None),
        (None, 'W/"weak"', None),
    ],
)
def test_a_beginning_is_used_only_where_something_tells_that_it_fits(
    proof: str | None, tag: str, asked: str | None, site: Site, tmp_path: Path
) -> None:
    file = Download(url=f"{HOST}/x.mat", path="x.mat", sha256=proof)
    site.pages["/x.mat"] = [whole(tag=tag, cut=100_000), answer(403)]
    failure(tmp_path, file)
    site.pages["/x.mat"], site.asked = [whole(tag=tag)], []
    fetch(tmp_path, file)
    assert site.asked == [("/x.mat", asked)]
    assert (tmp_path / "x.mat").read_bytes() == BODY


def test_a_file_that_is_here_is_proved_and_replaced_where_it_is_another(
    site: Site, tmp_path: Path
) -> None:
    site.serve({"x.mat": BODY, "y.mat": BODY})
    files = [Download(url=f"{HOST}/{n}", path=n, sha256=SHA) for n in ("x.mat", "y.mat")]
    (tmp_path / "x.mat").write_bytes(OTHER)
    (tmp_path / "y.mat").write_bytes(BODY)
    fetch(tmp_path, *files)
    assert {p for p, _ in site.asked} == {"/x.mat"}
    assert (tmp_path / "x.mat").read_bytes() == BODY


# archives


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, body in entries:
            packed.writestr(name, body)
    return out.getvalue()


def taped(*entries: tuple[str, bytes, bytes], packed: str = "") -> bytes:
    """A tar of (name, body, type)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{packed}") as tape:  # type: ignore[call-overload]
        for name, body, kind in entries:
            item = tarfile.TarInfo(name)
            item.type, item.size = kind, len(body) if kind == tarfile.REGTYPE else 0
            item.linkname = "../../outside" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            tape.addfile(item, io.BytesIO(body))
    return out.getvalue()


def locked_zip() -> bytes:
    body = bytearray(zipped(("a.csv", b"1")))
    for place in (body.index(b"PK\x03\x04") + 6, body.index(b"PK\x01\x02") + 8):
        body[place] |= 1
    return bytes(body)


GOOD = [("data/a.csv", HEADER * 50), ("b.hea", HEADER)]
REG = tarfile.REGTYPE
GOOD_TAR = [(name, body, REG) for name, body in GOOD]
NOISE = os.urandom(30_000)
BAD = {
    "zip locked": ("a.zip", locked_zip(), "locked"),
    "zip truncated": ("a.zip", zipped(("a.dat", NOISE))[:-400], "it is damaged"),
    "zip corrupt": (
        "a.zip", zipped(("a.dat", NOISE)).replace(NOISE[500:600], bytes(100)), "it is damaged"
    ),
    "tar ..": ("a.tar", taped(*GOOD_TAR, ("../evil", b"1", REG)), "OutsideDestination"),
    "tar symlink": ("a.tar", taped(("l", b"", tarfile.SYMTYPE)), "OutsideDestination"),
    "tar truncated": ("a.tar", taped(("a.dat", NOISE, REG))[:20_000], "it is damaged"),
    "tar.xz truncated": ("a.tar.xz", taped(("a", NOISE, REG), packed="xz")[:-900], "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_an_archive_that_no_one_should_unpack(name: str, site: Site, tmp_path: Path) -> None:
    file, body, told = BAD[name]
    root = tmp_path / "data"
    site.serve({file: body})
    wanted = Download(url=f"{HOST}/{file}", path=file, unpack=True)
    said = failure(root, wanted)
    assert told in said
    assert said.startswith(f"{HOST}/{file}: ")
    assert not below(tmp_path)
    good = zipped(*GOOD) if file == "a.zip" else taped(*GOOD_TAR, packed=file[6:])
    site.serve({file: good})
    fetch(root, wanted)
    assert (root / "data/a.csv").read_bytes() == HEADER * 50
    assert below(root) == {"data/a.csv", "b.hea", f"{file}.unpacked"}


def test_an_archive_is_fetched_once_and_again_where_a_file_of_it_is_cut(
    site: Site, tmp_path: Path
) -> None:
    site.serve({"a.zip": zipped(("zeros.csv", bytes(10**6)))})
    one = Download(url=f"{HOST}/a.zip", path="sub/a.zip", unpack=True)
    fetch(tmp_path, one)
    assert not datasets.planned(tmp_path, [one], None).missing
    (tmp_path / "sub/zeros.csv").write_bytes(b"cut off")
    fetch(tmp_path, one)
    assert (tmp_path / "sub/zeros.csv").stat().st_size == 10**6


# the folder, the disk


def test_a_folder_that_cannot_be_written(site: Site, tmp_path: Path) -> None:
    site.serve({"a/x.mat": BODY, "y.mat": BODY})
    inner = Download(url=f"{HOST}/a/x.mat", path="a/x.mat", sha256=SHA)
    (tmp_path / "a").write_text("a file where a folder should be")
    assert re.search("cannot write .*/a/x.mat: (File exists|Not a dir)", failure(tmp_path, inner))
    (tmp_path / "a").unlink()
    (tmp_path / "y.mat").mkdir()
    outer = Download(url=f"{HOST}/y.mat", path="y.mat", sha256=SHA)
    assert "y.mat: Is a directory" in failure(tmp_path, outer)
    (tmp_path / "y.mat").rmdir()
    site.asked = []
    fetch(tmp_path, inner, outer)
    assert (tmp_path / "a/x.mat").read_bytes() == BODY
    assert ("/y.mat", f"bytes={len(BODY)}-") in site.asked


Usage = namedtuple("Usage", "total used free")


def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Download(url=f"{HOST}/x.mat", path="x.mat", sha256=SHA, size=len(BODY))
    free = len(BODY) - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, free))
    plan = datasets.planned(tmp_path / "new", [file], None)
    with pytest.raises(BadSetting, match=r"mine needs 640 kB, and the disk of .* has 640 kB free"):
        plan.demand_room("mine")


# a release of many files


RELEASE = {
    "training/georgia/g1/E00001.hea": HEADER,
    "training/georgia/g1/E00001.mat": BODY,
    "training/georgia/g2/E00002.hea": HEADER * 2,
    "training/georgia/g2/E00002.mat": OTHER,
    "training/ptb/g1/S0001.hea": HEADER,
    "training/ptb/g1/S0001.mat": BODY,
    "training/georgia/g1/index.html": PAGE,
    "training/georgia/g1/RECORDS": b"E00001\n",
    "LICENSE.txt": b"CC BY",
}
GEORGIA = Manifest(base=f"{HOST}/", below="training/georgia/", suffixes=(".hea", ".mat"), size=9)
OWN = {
    n.removeprefix(GEORGIA.below): body
    for n, body in RELEASE.items()
    if re.search("georgia.*(hea|mat)", n)
}


def sums(files: dict[str, bytes]) -> bytes:
    lines = (f"{hashlib.sha256(body).hexdigest()} {name}" for name, body in files.items())
    return "\n".join(lines).encode() + b"\n"


def test_a_release_by_its_checksums(site: Site, tmp_path: Path) -> None:
    site.serve({**RELEASE, "SHA256SUMS.txt": sums(RELEASE)})
    plan = fetch(tmp_path, manifest=GEORGIA)
    assert {n: (tmp_path / n).read_bytes() for n in OWN} == OWN
    assert below(tmp_path) == set(OWN)
    assert plan.unit == (4, "files")
    (tmp_path / "g1/E00001.mat").write_bytes(OTHER)
    again = datasets.planned(tmp_path, (), GEORGIA)
    assert [one.path for one in again.missing] == ["g1/E00001.mat"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"SHA256SUMS.txt": PAGE}, "it is a web page"),
        ({"SHA256SUMS.txt": sums({"LICENSE.txt": b""})}, "name no file below 'training/georgia/'"),
        ({"SHA256SUMS.txt": sums({"training/georgia/../x.hea": b""})}, "outside of its folder"),
        ({}, "SHA256SUMS.txt: the server answers 404"),
    ],
)
def test_lists_that_cannot_be_trusted(
    files: dict[str, bytes], told: str, site: Site, tmp_path: Path
) -> None:
    site.serve(files)
    assert told in failure(tmp_path / "data", manifest=GEORGIA)
    assert not below(tmp_path)
    site.serve({**RELEASE, "SHA256SUMS.txt": sums(RELEASE)})
    fetch(tmp_path / "data", manifest=GEORGIA)
    assert below(tmp_path / "data") == set(OWN)


def test_what_fails_of_many_is_counted_and_the_others_stay(site: Site, tmp_path: Path) -> None:
    site.serve({**RELEASE, "SHA256SUMS.txt": sums(RELEASE)})
    del site.pages["/training/georgia/g1/E00001.mat"]
    said = failure(tmp_path, manifest=GEORGIA)
    assert said.endswith("E00001.mat: the server answers 404 Not Found (1 of 4 files were not had)")
    assert below(tmp_path) == set(OWN) - {"g1/E00001.mat"}


def test_two_commands_do_not_write_into_one_file(site: Site, tmp_path: Path) -> None:
    file = Download(url=f"{HOST}/x.mat", path="x.mat", sha256=SHA)
    site.serve({"x.mat": BODY})
    with datasets.locked(tmp_path, ".fetch.lock"):
        assert "another command is fetching" in failure(tmp_path, file)
    fetch(tmp_path, file)


def test_progress_counts_megabytes_where_all_sizes_are_known(site: Site, tmp_path: Path) -> None:
    body = bytes(range(250)) * 10_000
    site.serve({"x.mat": body, "y.mat": body})
    files = [Download(url=f"{HOST}/{n}.mat", path=f"{n}.mat", size=len(body)) for n in "xy"]
    done: list[int] = []
    plan = datasets.planned(tmp_path, files, None)
    datasets.fetch(plan, done.append)
    assert plan.unit == (5, "MB")
    assert sum(done) == 5


# the command


def ecgbench(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["data", "fetch", *words])
    error = "" if done.exception is None or done.exit_code == 2 else repr(done.exception)
    return done.exit_code, done.output + error + str(done.exception or "")


@pytest.fixture
def georgia(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(room.get("georgia"), "MANIFEST", GEORGIA)
    site.serve({**RELEASE, "SHA256SUMS.txt": sums(RELEASE)})
    return site


def test_the_command_fetches_and_then_finds_all_here(georgia: Site, tmp_path: Path) -> None:
    dry, said = ecgbench("georgia", "--data", str(tmp_path), "--dry-run")
    assert "4 of 4 files are missing, about" in said
    assert "licence CC BY 4.0" in said
    assert (dry, list(tmp_path.iterdir())) == (0, [])
    code, said = ecgbench("georgia", "--data", str(tmp_path))
    assert code == 0
    assert f"ecgbench data prepare georgia --data {tmp_path}" in said
    assert below(tmp_path / "georgia") == set(OWN)
    georgia.asked = []
    code, said = ecgbench("georgia", "--data", str(tmp_path))
    assert "0 of 4 files are missing" in said
    assert (code, [p for p, _ in georgia.asked]) == (0, ["/SHA256SUMS.txt"])


@pytest.mark.parametrize(
    ("name", "wanted", "others"),
    [
        (
            "cinc2017",
            ("REFERENCE-v3.csv", "training/A00/A00001.hea", "training/A00/A00001.mat"),
            ("REFERENCE-v2.csv", "validation/A00001.mat", "training2017.zip", "RECORDS"),
        ),
        (
            "cpsc2021",
            tuple(f"Training_set_II/data_60_1.{s}" for s in ("hea", "dat", "atr")),
            ("REVISED_RECORDS", "Training_set_I/RECORDS", "score_2021.py"),
        ),
        (
            "nstdb",
            tuple(f"{kind}.{suffix}" for kind in ("bw", "em", "ma") for suffix in ("hea", "dat")),
            ("118e24.dat", "old/oldbw.dat", "118e24.atr"),
        ),
    ],
)
def test_a_release_gives_what_its_reader_needs_and_no_more(
    name: str,
    wanted: tuple[str, ...],
    others: tuple[str, ...],
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = room.get(name)
    monkeypatch.setattr(module, "MANIFEST", replace(module.MANIFEST, base=f"{HOST}/"))
    release = {n: n.encode() for n in (*wanted, *others)}
    site.serve({**release, "SHA256SUMS.txt": sums(release)})
    code, said = ecgbench(name, "--data", str(tmp_path))
    assert code == 0, said
    assert below(tmp_path / name) == set(wanted)
    assert f"licence {module.CARD.licence}" in said
    assert ("data prepare" in said) == (name != "nstdb")


@pytest.mark.parametrize("name", ["code", "demo", "hefei"])
def test_what_is_not_free_or_not_listed_is_not_tried(
    name: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumed, "session", lambda: pytest.fail("it connects"))
    with pytest.raises(BadSetting) as caught:
        CliRunner().invoke(
            app, ["data", "fetch", name, "--data", str(tmp_path)], catch_exceptions=False
        )
    said = str(caught.value)
    card = room.get(name).CARD
    assert card.access == "open" or card.access in said
    assert not card.folder or f"put them into {tmp_path / card.folder}" in said
    assert not list(tmp_path.iterdir())
