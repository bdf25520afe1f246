"""Downloads of weights against a server of this machine that answers as the Hub and Google Drive
do, well and badly.
"""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from ecgbench.data.fetch import fetch, resumed
from tests.fetch.test_datasets import BODY, OTHER, Site, answer, redirect, whole

CUT = 100_000
FILE_ID, FOLDER_ID = "1E7J-A1HqWa2f08T6Sfk5uWk-_CFJhOYQ", "13wb4DppUciMn-Y_qC2JRWTbZdz3xX0w2"
VIEW = "https://drive.google.com/file/d/{}/view?usp=drive_web"
FOLDER = f"""<html><head><title>MERL checkpoints</title></head><body>
<a href="{VIEW.format(FILE_ID)}"><div>res18_best_encoder.pth</div></a>
<a href="{VIEW.format(FILE_ID[::-1])}"><div>res18_best_ckpt.pth</div></a></body></html>"""
HUB = "https://huggingface.co/PKUDigitalHealth/ECGFounder/resolve/main/w.pth"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(resumed, "PAUSES", (0.0, 0.0))
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    made = Site()
    yield made
    made.close()


def had(url: str, folder: Path, file: str = "w.pth", proved: bool = False) -> bytes:
    told: list[int] = []
    path = fetch.download(url, file, folder, proved, lambda done, total: told.append(done))
    assert told[-1] == path.stat().st_size
    return path.read_bytes()


def not_had(url: str, folder: Path, file: str = "w.pth") -> str:
    with pytest.raises(fetch.DownloadError) as caught:
        had(url, folder, file)
    assert not (folder / file).exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("proved", [True, False])
def test_what_an_earlier_command_left_is_used_only_where_a_hash_will_tell(
    proved: bool, site: Site, tmp_path: Path
) -> None:
    site.pages = {"/w.pth": [whole(cut=CUT), whole(cut=0)]}
    assert f"{CUT:,} bytes of it are kept" in not_had(f"{site.url}/w.pth", tmp_path)
    # the authors have published anew meanwhile
    site.pages, site.asked = {"/w.pth": [whole(OTHER, tag='"same"')]}, []
    body = had(f"{site.url}/w.pth", tmp_path, proved=proved)
    assert site.asked == [("/w.pth", f"bytes={CUT}-" if proved else None)]
    assert body == OTHER


def test_a_file_of_a_folder_of_the_drive_is_found_by_its_name(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests to Google go to this machine instead."""
    genuine = requests.Session.request

    def local(self: requests.Session, method: str, url: str, **words: Any) -> requests.Response:
        parts = urlsplit(url)
        assert parts.netloc.endswith("google.com")
        query = "" if "embedded" in parts.path else f"?{parts.query}"
        return genuine(self, method, f"{site.url}{parts.path}{query}", **words)

    monkeypatch.setattr(requests.Session, "request", local)
    attached = {"Content_Type": "application/octet-stream"}
    attached["Content_Disposition"] = 'attachment; filename="w.pth"'
    site.pages = {
        "/embeddedfolderview": [answer(200, FOLDER.encode(), Content_Type="text/html")],
        f"/uc?id={FILE_ID}": [answer(200, BODY, **attached)],
    }
    url = f"https://drive.google.com/drive/folders/{FOLDER_ID}"
    assert had(url, tmp_path, "res18_best_encoder.pth") == BODY
    assert "0 files called vit_tiny" in not_had(url, tmp_path, "vit_tiny_best_encoder.pth")


def test_a_file_of_the_hub_comes_from_its_mirror_and_goes_on_where_it_broke_off(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address leads to storage on another host."""
    storage = f"{site.url.replace('127.0.0.1', 'localhost')}/storage/abc"
    site.pages = {urlsplit(HUB).path: [redirect(storage)]}
    site.pages["/storage/abc"] = [whole(cut=CUT), whole()]
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    assert had(HUB, tmp_path) == BODY
    ranges = [asked for path, asked in site.asked if path == "/storage/abc"]
    assert ranges == [None, f"bytes={CUT}-"]


@pytest.mark.parametrize("url", [HUB, f"https://drive.google.com/drive/folders/{FOLDER_ID}"])
def test_without_a_network_one_line_says_so(
    url: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    found = [(2, 1, 6, "", ("127.0.0.1", 80))]
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert not_had(url, tmp_path) == f"no connection to {urlsplit(url).netloc}"


def test_an_empty_answer_and_an_address_that_is_none(site: Site, tmp_path: Path) -> None:
    site.pages = {"/w.pth": [answer(200)]}
    assert "it is empty" in not_had(f"{site.url}/w.pth", tmp_path)
    assert "404" in not_had(f"{site.url}/gone.pth", tmp_path, "gone.pth")
    assert "no address to download from" in not_had("ftp://example.org/w.pth", tmp_path / "new")
