"""`ecgbench cite`: valid BibTeX whose numbers are those of the cards."""

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ecgbench import datasets, metrics, models
from ecgbench.cli.cite import bibtex, used

BIB = files("ecgbench.cli").joinpath("references.bib").read_text(encoding="utf-8")
WITHOUT = {"demo": "generated", "hefei": "a competition"}
"""Data sets without an entry."""
pytestmark = pytest.mark.usefixtures("one_thread")


def parsed(text: str) -> dict[str, dict[str, str]]:
    """Key -> fields of each entry; what is no entry is a line of a comment."""
    found: dict[str, dict[str, str]] = {}
    for kind, key, body in re.findall(r"^@(\w+)\{(\w+),\n(.*?)\n\}$", text, re.M | re.S):
        fields = re.findall(r"^  (\w+) *= \{(.*)\},?$", body, re.M)
        assert len(fields) == body.count("\n") + 1, (kind, key)
        assert all(value.count("{") == value.count("}") for _, value in fields), key
        assert key not in found
        found[key] = dict(fields)
    assert len(found) == text.count("\n@") + text.startswith("@")
    return found


def entries() -> dict[str, list[str]]:
    """What an entry is for -> texts of its entries."""
    blocks = [block.partition("\n") for block in BIB.split("\n\n% ")[1:]]
    every: dict[str, list[str]] = {}
    for head, _, entry in blocks:
        for reason in head.split("; "):
            every.setdefault(reason, []).append(entry)
    return every


def built_in(room: Any) -> list[str]:
    """Names of a room without the plug-ins that other tests gave by path, and without WITHOUT."""
    return [name for name in room.names() if room.built_in(name) and name not in WITHOUT]


def numbers(text: str) -> set[str]:
    """DOIs and numbers of arXiv."""
    return {
        *re.findall(r"10\.\d{4,5}/[^\s,;}]+[^\s,;:.}]", text),
        *re.findall(r"arXiv:[\d.]+\d", text),
    }


def test_entries_are_valid_and_for_things_that_exist() -> None:
    found = parsed(BIB)
    assert all({"title"} <= {*fields} for fields in found.values())
    assert all({"year"} & {*f} or {"doi", "note"} & {*f} for f in found.values())
    rooms = {"model": models.ROOM, "dataset": datasets.ROOM, "metric": metrics.ROOM}
    for reason in entries():
        kind, _, name = reason.partition(" ")
        room = rooms.get(kind)
        assert not room or name in {*room.names(), *room.variants(), *room.families}, reason
    assert {f"model {n}" for n in built_in(models.ROOM)} <= {*entries()}
    assert {f"dataset {n}" for n in built_in(datasets.ROOM)} <= {*entries()}


def test_entries_have_the_numbers_of_the_cards() -> None:
    every = entries()
    for name in built_in(models.ROOM):
        stated = numbers(models.get(name).CARD.paper)
        assert stated <= numbers("".join(every[f"model {name}"])), name
    assert numbers(models.get("timm:resnet18").CARD.paper) <= numbers("".join(every["model timm"]))
    for name in built_in(metrics.ROOM):
        stated = numbers(metrics.get(name).CARD.source)
        assert stated <= numbers("".join(every.get(f"metric {name}", ["\n"]))), name
    for name in built_in(datasets.ROOM):
        known = numbers((datasets.get(name).__doc__ or "") + datasets.get(name).CARD.doi)
        assert known & numbers("".join(every[f"dataset {name}"])) or name == "ribeiro_dev", name


def test_a_comment_begins_no_entry() -> None:
    """BibTeX reads the text between entries, and @ begins one."""
    (line,) = bibtex({"your model timm:resnet18@spectrogram": "Wightman"})
    assert line.startswith("% your model timm:resnet18 at spectrogram: ")


def test_cite_as_typed(typed: Callable[..., int], here: Callable[..., Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert typed(run, "--leads", "12") == 0
    done = here("cite", run, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"ecgbench", "laef", "hanley1982auroc", "delong1988"} <= {*parsed(done.stdout)}
    assert "holm1979" not in done.stdout, "one model is compared with none"
    assert "% your model tiny: no entry is known; its card names no source" in done.stdout
    assert "dataset demo" in used(run)
    other = here("cite", tmp_path, cwd=tmp_path)
    assert (other.returncode, other.stdout, other.stderr.count("\n")) == (2, "", 1)
