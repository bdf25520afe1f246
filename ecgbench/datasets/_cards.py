"""Cards as data: what is published of the collection NAME stands in NAME.toml beside NAME.py."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from ecgbench.cards.dataset import DatasetCard, Download, Limb, Listed, Listing, Manifest, Task
from ecgbench.datasets._labels import codes
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.repair import Repair

KINDS = {"limb": Limb, "repair": Repair}
"""Tables of the file that are fields of the card."""
APART = ("manifest", "listing", "files")
"""Those that are no part of it: where its files are published."""


def card(
    name: str, labels: Mapping[str, Sequence[str]] = MappingProxyType({}), **more: Any
) -> DatasetCard:
    """The card of a collection; a file that does not name leads means the twelve.

    A task lists its labels, or names the table of labels/ that does; it has those of the table of
    its own name where the file says nothing. labels: of a task, where they follow from other
    tables. more: fields that such a file cannot say.
    """
    said = {key: value for key, value in _said(name).items() if key not in APART}
    made = {key: KINDS[key](**value) if key in KINDS else value for key, value in said.items()}
    tasks = tuple(_task(labels, **task) for task in said.get("tasks", ()))
    return DatasetCard(**{"leads": LEADS, **made, "tasks": tasks, **more})


def _task(given: Mapping[str, Sequence[str]], **said: Any) -> Task:
    labels = given.get(said["name"]) or said.get("labels", said["name"])
    return Task(**said | {"labels": codes(labels) if isinstance(labels, str) else tuple(labels)})


def manifest(name: str) -> Manifest:
    """Where PhysioNet publishes the files of a collection."""
    return Manifest(**_said(name)["manifest"])


def listing(name: str) -> Listing:
    """Where a repository lists the files of a collection."""
    said = _said(name)["listing"]
    return Listing(**said | {"files": tuple(Listed(**one) for one in said["files"])})


def downloads(name: str) -> tuple[Download, ...]:
    """The published files of a collection."""
    return tuple(Download(**one) for one in _said(name)["files"])


@cache
def _said(name: str) -> dict[str, Any]:
    """The file; its lists as tuples."""
    text = (files("ecgbench.datasets") / f"{name}.toml").read_text(encoding="utf-8")
    said: dict[str, Any] = _frozen(tomllib.loads(text))
    return said


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(one) for key, one in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
