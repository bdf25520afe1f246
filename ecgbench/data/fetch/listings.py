"""The files that Zenodo or figshare list of a deposit, with address, size and md5."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import requests

from ecgbench.core.cards import Download, Listing
from ecgbench.core.text import enumerated, shortened
from ecgbench.data.fetch import resumed
from ecgbench.data.fetch.fetch import DownloadError

PAGE, MOST = 100, 100
"""Entries of a page of figshare, and pages after which a list has no end."""
NAMED = 8
"""Files of a list that an error names."""


class File(NamedTuple):
    """One file of a list."""

    name: str
    url: str
    size: int
    md5: str


def wanted(listing: Listing) -> list[Download]:
    """The files of a list that a dataset wants; DownloadError where one of them is not in it."""
    files = list(_zenodo(listing.url) if "/records/" in listing.url else _figshare(listing.url))
    found = []
    for one in listing.files:
        own = [file for file in files if fnmatchcase(file.name, one.name)]
        if not own or (one.path and len(own) > 1):
            names = [shortened(file.name, 60) for file in files]
            raise DownloadError(
                f"{listing.url}: lists {len(own) or 'no'} files {one.name}; it has "
                f"{enumerated([*names[:NAMED], *(['others'] if names[NAMED:] else [])]) or 'none'}"
            )
        found += [
            Download(
                url=file.url,
                path=one.path or file.name,
                md5=file.md5,
                size=file.size,
                unpack=one.unpack,
                unpacked=one.unpacked,
            )
            for file in own
        ]
    places = [one.path for one in found]
    # they would be written over one another
    for path in places:
        if places.count(path) > 1:
            raise DownloadError(f"{listing.url}: lists several files {shortened(path, 60)}")
    return found


def _zenodo(url: str) -> Iterator[File]:
    record = _json(resumed.session(), url)
    for entry in _entries(record.get("files") if isinstance(record, dict) else None, url):
        try:
            yield _file(entry["key"], entry["links"]["self"], entry["size"], entry["checksum"], url)
        except (KeyError, TypeError):
            raise _strange(url) from None


def _figshare(url: str) -> Iterator[File]:
    """The files of an article, or of all articles of a collection."""
    session = resumed.session()
    lists = [url]
    if url.endswith("/articles"):
        base = url.partition("/collections/")[0]
        try:
            lists = [f"{base}/articles/{int(e['id'])}/files" for e in _pages(session, url)]
        except (KeyError, TypeError, ValueError):
            raise _strange(url) from None
    for own in lists:
        for entry in _pages(session, own):
            try:
                md5 = entry["computed_md5"] or entry["supplied_md5"]
                yield _file(entry["name"], entry["download_url"], entry["size"], md5, own)
            except (KeyError, TypeError):
                raise _strange(own) from None


def _pages(session: requests.Session, url: str) -> Iterator[dict[str, Any]]:
    """The entries of all pages, to the first one that is not full."""
    seen = set[str]()
    for page in range(1, MOST + 1):
        address = f"{url}?page={page}&page_size={PAGE}"
        entries = _entries(_json(session, address), address)
        for entry in entries:
            if (name := str(entry.get("id"))) in seen:
                raise DownloadError(f"{address}: repeats what an earlier page holds")
            seen.add(name)
            yield entry
        if len(entries) < PAGE:
            return
    raise DownloadError(f"{url}: its list has no end")


def _entries(value: Any, url: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise _strange(url)
    return value


def _file(name: str, url: str, size: int, md5: str, where: str) -> File:
    proof = str(md5).removeprefix("md5:")
    sound = isinstance(name, str) and isinstance(url, str) and type(size) is int and size > 0
    if not sound or not re.fullmatch(r"[0-9a-fA-F]{32}", proof):
        raise _strange(where)
    return File(name, url, size, proof)


def _json(session: requests.Session, url: str) -> Any:
    try:
        return json.loads(resumed.text(session, url))
    except (ValueError, RecursionError):
        raise _strange(url) from None


def _strange(url: str) -> DownloadError:
    return DownloadError(f"{url}: is not the list of files, with size and md5, that it was")
