"""What Zenodo and figshare list, against a server of this machine: every page, no file without its
md5, and one line where the list is not what it was.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ecgbench.cards.dataset import Listed, Listing
from ecgbench.data.fetch import listings
from tests.fetch.test_datasets import HOST, Site, answer, below, failure, fetch
from tests.fetch.test_datasets import site as site

TABLE = b"exam_id,patient_id\n1,2\n"
PART = b"\x89HDF" + bytes(range(256)) * 40


def md5(body: bytes) -> str:
    return hashlib.md5(body).hexdigest()


def pages(site: Site, path: str, value: Any) -> None:
    site.pages[path] = [answer(200, json.dumps(value).encode())]


def zenodo(name: str, body: bytes) -> dict[str, Any]:
    return {
        "key": name,
        "size": len(body),
        "checksum": f"md5:{md5(body)}",
        "links": {"self": f"{HOST}/api/records/7/files/{name}/content"},
    }


def figshare(number: int, name: str, body: bytes) -> dict[str, Any]:
    return {
        "id": number,
        "name": name,
        "size": len(body),
        "is_link_only": False,
        "download_url": f"{HOST}/files/{number}",
        "supplied_md5": "",
        "computed_md5": md5(body),
    }


RECORD = Listing(
    url=f"{HOST}/api/records/7", files=(Listed(name="exams.csv"), Listed(name="*.hdf5"))
)
COLLECTION = Listing(
    url=f"{HOST}/v2/collections/9/articles",
    files=(Listed(name="a.csv"), Listed(name="b.tar*", path="b.hdf5")),
)


@pytest.fixture
def record(site: Site) -> dict[str, Any]:
    """Zenodo's, with its files at their addresses."""
    bodies = {"exams.csv": TABLE, "p0.hdf5": PART, "p1.hdf5": PART[:-1], "LICENSE": b"free"}
    for name, body in bodies.items():
        site.serve_one(f"api/records/7/files/{name}/content", body)
    made = {"id": 7, "files": [zenodo(name, body) for name, body in bodies.items()]}
    pages(site, "/api/records/7", made)
    return made


def test_a_record_of_zenodo_brings_what_is_wanted_and_proves_it(
    site: Site, record: dict[str, Any], tmp_path: Path
) -> None:
    plan = fetch(tmp_path, listing=RECORD)
    assert below(tmp_path) == {"exams.csv", "p0.hdf5", "p1.hdf5"}
    assert plan.exact
    assert plan.size == len(TABLE) + 2 * len(PART) - 1
    # a second command asks for the list alone
    site.asked = []
    fetch(tmp_path, listing=RECORD)
    assert [path for path, _ in site.asked] == ["/api/records/7"]
    # what the server sends instead of the listed file is refused
    (tmp_path / "p1.hdf5").unlink()
    site.serve_one("api/records/7/files/p1.hdf5/content", PART[:-2] + b"0")
    assert "its md5 is" in failure(tmp_path, listing=RECORD)


def test_a_collection_of_figshare_is_read_to_its_last_page(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "PAGE", 2)
    files = {11: ("other.csv", b"x"), 12: ("a.csv", TABLE), 13: ("b.tar.gz", PART)}
    ids = [{"id": number} for number in files]
    size = f"page_size={listings.PAGE}"
    pages(site, f"/v2/collections/9/articles?page=1&{size}", ids[:2])
    pages(site, f"/v2/collections/9/articles?page=2&{size}", ids[2:])
    for number, (name, body) in files.items():
        pages(site, f"/v2/articles/{number}/files?page=1&{size}", [figshare(number, name, body)])
        site.serve_one(f"files/{number}", body)
    fetch(tmp_path, listing=COLLECTION)
    assert below(tmp_path) == {"a.csv", "b.hdf5"}


STRANGE: dict[str, Any] = {
    "no object": [],
    "no files": {"id": 7},
    "a file without md5": {"files": [{**zenodo("exams.csv", TABLE), "checksum": ""}]},
    "a file without address": {"files": [{**zenodo("exams.csv", TABLE), "links": {}}]},
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_list_that_is_none(name: str, site: Site, tmp_path: Path) -> None:
    pages(site, "/api/records/7", STRANGE[name])
    said = failure(tmp_path, listing=RECORD)
    assert said == f"{RECORD.url}: is not the list of files, with size and md5, that it was"
    assert not list(tmp_path.iterdir())


def test_two_files_of_one_name_are_not_written_over_one_another(
    site: Site, record: dict[str, Any], tmp_path: Path
) -> None:
    record["files"].append(zenodo("p1.hdf5", PART))
    pages(site, "/api/records/7", record)
    assert "lists name several files: p1.hdf5" in failure(tmp_path, listing=RECORD)
    assert not list(tmp_path.iterdir())


def test_a_list_that_lacks_or_hides_something(
    site: Site, record: dict[str, Any], tmp_path: Path
) -> None:
    pages(
        site, "/api/records/7", {"files": [f for f in record["files"] if f["key"] != "exams.csv"]}
    )
    said = failure(tmp_path, listing=RECORD)
    assert "lists no files exams.csv; it has p0.hdf5, p1.hdf5 and LICENSE" in said
    bad = {**zenodo("x.hdf5", PART), "key": "../p2.hdf5"}
    pages(site, "/api/records/7", {"files": [*record["files"], bad]})
    assert "outside of its folder" in failure(tmp_path, listing=RECORD)
