"""Lists of files from repositories: PhysioNet with sha256, Zenodo and figshare with address, size
and md5.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import count
from typing import Any
from urllib.parse import quote

import requests

from ecgbench.cards.dataset import Download, Listing, Manifest
from ecgbench.core.text import enumerated, shortened
from ecgbench.data.fetch import resumed
from ecgbench.data.fetch.resumed import DownloadError

SUMS = "SHA256SUMS.txt"
PAGE = 100
"""Entries of a page of figshare."""
NAMED = 8
"""Files that an error lists."""


def released(manifest: Manifest) -> list[Download]:
    """The files of a dataset in a release of PhysioNet."""
    found, text = [], resumed.text(resumed.session(), manifest.base + SUMS)
    lines = re.findall(r"^(\w{64}) [ *]?(.+?)\s*$", text, re.M)
    named = {name: sha256 for sha256, name in lines}
    for name, sha256 in sorted(named.items()):
        own = name.removeprefix(manifest.below)
        record = own.startswith(manifest.folders) and own.endswith(manifest.suffixes)
        if name.startswith(manifest.below) and (record or own in manifest.tables):
            found.append(Download(url=manifest.base + quote(name), path=own, sha256=sha256))
    if not found:
        raise DownloadError(f"{manifest.base}: its lists name no file below {manifest.below!r}")
    return found


def deposited(listing: Listing) -> list[Download]:
    """The files of a dataset in a list of Zenodo or figshare; DownloadError for a missing one."""
    try:
        every = [*(_zenodo if "/records/" in listing.url else _figshare)(listing.url)]
    except (KeyError, TypeError, ValueError):
        raise DownloadError(
            f"{listing.url}: is not the list of files, with size and md5, that it was"
        ) from None
    found = []
    for one in listing.files:
        own = [file for file in every if fnmatchcase(file.path, one.name)]
        if not own or (one.path and len(own) > 1):
            names = [shortened(file.path, 60) for file in every[:NAMED]]
            raise DownloadError(
                f"{listing.url}: lists {len(own) or 'no'} files {one.name}; it has "
                f"{enumerated([*names, 'others'] if every[NAMED:] else names) or 'none'}"
            )
        found += [
            replace(f, path=one.path or f.path, unpack=one.unpack, unpacked=one.unpacked)
            for f in own
        ]
    return found


def _zenodo(url: str) -> Iterator[Download]:
    for entry in json.loads(resumed.text(resumed.session(), url))["files"]:
        yield _file(entry["key"], entry["links"]["self"], entry["size"], entry["checksum"])


def _figshare(url: str) -> Iterator[Download]:
    """The files of an article, or of all articles of a collection."""
    session, lists = resumed.session(), [url]
    if url.endswith("/articles"):
        base = url.partition("/collections/")[0]
        lists = [f"{base}/articles/{int(e['id'])}/files" for e in _pages(session, url)]
    for own in lists:
        for entry in _pages(session, own):
            md5 = entry["computed_md5"] or entry["supplied_md5"]
            yield _file(entry["name"], entry["download_url"], entry["size"], md5)


def _pages(session: requests.Session, url: str) -> Iterator[dict[str, Any]]:
    """The entries of all pages, to the first one that is not full."""
    for page in count(1):
        entries = json.loads(resumed.text(session, f"{url}?page={page}&page_size={PAGE}"))
        yield from entries
        if len(entries) < PAGE:
            return


def _file(name: str, url: str, size: int, md5: str) -> Download:
    md5 = md5.removeprefix("md5:")
    if not re.fullmatch(r"[0-9a-fA-F]{32}", md5):
        raise ValueError
    return Download(path=name, url=url, size=size, md5=md5)
