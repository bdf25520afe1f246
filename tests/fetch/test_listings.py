"""What Zenodo and figshare list, against a server of this machine: every page, no file without its
md5, and one line where the list is not what it was. Archives in several files.
"""

import hashlib
import io
import json
import shutil
import struct
import subprocess
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ecgbench.core.cards import Download, Listed, Listing
from ecgbench.data.fetch import archives, listings
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


# archives in several files

INNER = {f"ecg/P{i}/r.dat": bytes([i]) * (300 + 7 * i) for i in range(40)}


def split_zip(at: list[int]) -> list[bytes]:
    """A zip archive in parts as PKZIP writes them: cut at `at` bytes, places counted in parts."""
    out = io.BytesIO()
    out.write(b"PK\7\10")  # the mark of an archive in several parts
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as packed:
        for name, body in INNER.items():
            packed.writestr(name, body)
    whole = bytearray(out.getvalue())
    starts = [0, *at]

    def placed(offset: int) -> tuple[int, int]:
        disk = max(i for i, start in enumerate(starts) if start <= offset)
        return disk, offset - starts[disk]

    end = whole.rindex(b"PK\5\6")
    count, size, place = struct.unpack_from("<HLL", whole, end + 10)
    entry = place
    for _ in range(count):
        lengths = struct.unpack_from("<3H", whole, entry + 28)
        disk, offset = placed(struct.unpack_from("<L", whole, entry + 42)[0])
        struct.pack_into("<H", whole, entry + 34, disk)
        struct.pack_into("<L", whole, entry + 42, offset)
        entry += 46 + sum(lengths)
    disk, offset = placed(place)
    struct.pack_into("<4H", whole, end + 4, len(at), disk, count, count)
    struct.pack_into("<L", whole, end + 16, offset)
    assert entry == place + size
    cuts = [*starts, len(whole)]
    return [bytes(whole[a:b]) for a, b in pairwise(cuts)]


def volumes(bodies: list[bytes]) -> Download:
    """The parts as a dataset declares them."""
    names = [*(f"ecg.z{i:02}" for i in range(1, len(bodies))), "ecg.zip"]
    parts = [
        {"url": f"{HOST}/{n}", "path": n, "md5": md5(b), "size": len(b)}
        for n, b in zip(names, bodies)
    ]
    before = tuple(Download(**part) for part in parts[:-1])
    return Download(**parts[-1], before=before, unpack=True)


@pytest.mark.parametrize("at", [[1000], [900, 1700], [4], [3000, 3900]])
def test_an_archive_in_several_files_is_joined_and_unpacked(
    at: list[int], site: Site, tmp_path: Path
) -> None:
    bodies = split_zip(at)
    one = volumes(bodies)
    site.serve({part.path: body for part, body in zip((*one.before, one), bodies)})
    plan = fetch(tmp_path, one)
    assert plan.size == sum(map(len, bodies))
    assert {n: (tmp_path / n).read_bytes() for n in INNER} == INNER
    assert below(tmp_path) == {*INNER, "ecg.zip.unpacked"}
    site.asked = []
    fetch(tmp_path, one)
    assert site.asked == []


def test_parts_that_do_not_belong_together(site: Site, tmp_path: Path) -> None:
    bodies = split_zip([1000, 2000])
    for wrong, told in (
        ([bodies[0], bodies[2]], "damaged"),
        ([bodies[1], bodies[0], bodies[2]], "damaged"),
        ([bodies[0], bodies[1], bodies[2][:-30]], "damaged"),
    ):
        one = volumes(wrong)
        site.serve({part.path: body for part, body in zip((*one.before, one), wrong)})
        said = failure(tmp_path / str(len(told)), one)
        assert any(word in said for word in told.split("|"))
        assert not (tmp_path / str(len(told)) / "ecg").exists()


@pytest.mark.skipif(shutil.which("zip") is None, reason="no zip command")
def test_parts_that_zip_made(tmp_path: Path) -> None:
    """Info-ZIP's own: `zip -s 64k`."""
    import numpy as np

    own = tmp_path / "in"
    for i in range(5):
        (own / f"P{i}").mkdir(parents=True)
        (own / f"P{i}" / "r.dat").write_bytes(np.random.default_rng(i).bytes(50_000))
    subprocess.run(["zip", "-q", "-s", "64k", "-r", "../ecg.zip", "."], cwd=own, check=True)
    parts = [*sorted(tmp_path.glob("ecg.z0*")), tmp_path / "ecg.zip"]
    assert len(parts) > 3
    archives.unpack(parts[-1], before=parts[:-1])
    for file in own.rglob("*.dat"):
        assert (tmp_path / file.relative_to(own)).read_bytes() == file.read_bytes()
