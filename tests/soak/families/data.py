"""Recordings and tables of other people: cut, empty, unreadable, or with values that cannot be;
then a run on them. What is said of a record that cannot be used names it.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.soak.damage import harm
from tests.soak.families.results import damaged, follow, kinds
from tests.soak.place import Place
from tests.soak.row import Row

STRUCTURE = ("cut in half", "last byte cut", "empty", "bytes appended", "removed")
"""Damages that a reader can know; another sample is just another recording."""
RECORD = "w02"
Edit = Callable[[str], str]


def _line(number: int, to: str) -> Edit:
    """Text with another line."""

    def edit(text: str) -> str:
        lines = text.splitlines()
        lines[number] = to
        return "\n".join(lines) + "\n"

    return edit


RECORDINGS: dict[str, Edit] = {
    "50 V": lambda t: t.replace("\n0.", "\n50000."),
    "not a number": _line(40, "nan"),
    "a word among numbers": _line(40, "electrode off"),
    "two values in a line": _line(40, "1,2"),
    "a rate of 0": lambda t: t.replace("512 hertz", "0 hertz"),
    "a rate that is a word": lambda t: t.replace("512 hertz", "fast"),
    "a lead unknown": lambda t: t.replace("Lead I", "Lead Q"),
    "no lead": lambda t: t.replace("Lead,Lead I\n", ""),
    "a unit unknown": lambda t: t.replace("µV", "mmHg"),
    "one sample": lambda t: "\n".join(t.splitlines()[:8]) + "\n",
    "constant": lambda t: "\n".join([*t.splitlines()[:7], *["0.1"] * 5120]) + "\n",
    "control characters": lambda t: "\x1b[31m" + t,
    "a line of a million characters": _line(40, "1" * 1_000_000),
}
LABELS: dict[str, Edit] = {
    "a label of 2": lambda t: t.replace(f"{RECORD},P2,1", f"{RECORD},P2,2"),
    "a label that is a word": lambda t: t.replace(f"{RECORD},P2,1", f"{RECORD},P2,yes"),
    "no label": lambda t: t.replace(f"{RECORD},P2,1", f"{RECORD},P2,"),
    "a record twice": lambda t: t + f"{RECORD},P2,0\n",
    "a record unknown": lambda t: t + "nobody,P2,0\n",
    "control characters": lambda t: t.replace("P2,", "P\x1b[31m2,"),
    "no heading": lambda t: t.split("\n", 1)[1],
    "a column twice": lambda t: t.replace("record,patient,fast", "record,fast,fast"),
    "no rows": lambda t: t.split("\n")[0] + "\n",
    "one value": lambda t: t.replace(",1\n", ",0\n"),
    "a row too short": lambda t: t.replace(f"{RECORD},P2,1", RECORD),
}


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """What a person gives, and what an import has made of it."""
    place = bases["own"]
    for how in STRUCTURE:
        for kind, files in kinds(place.folder / "records").items():
            if how == "cut in half" and kind.endswith(".csv"):
                continue  # half as long is just another recording
            name = f"recording {kind}: {how}"
            act = partial(_fresh, files[1].relative_to(place.folder), how)
            yield Row("data", name, "own", act, of=files[1].stem)
        act = partial(_fresh, Path("labels.csv"), how)
        yield Row("data", f"labels.csv: {how}", "own", act)
    for how, edit in RECORDINGS.items():
        act = partial(_edited, Path("records", f"{RECORD}.csv"), edit)
        yield Row("data", f"recording: {how}", "own", act, of=RECORD)
    for how, edit in LABELS.items():
        act = partial(_edited, Path("labels.csv"), edit)
        # a blank label is unknown, which is counted
        of = "unknown of 1 record" if how == "no label" else RECORD
        yield Row("data", f"labels.csv: {how}", "own", act, of=of)
    yield from damaged("data", "own", place, place.out / "imported", ("run",), within="^[^/]*$")


def _fresh(file: Path, how: str, place: Place) -> None:
    """Damaged before anything was computed."""
    shutil.rmtree(place.out)
    harm(how, place, place.folder / file)
    follow("run", place)


def _edited(file: Path, edit: Edit, place: Place) -> None:
    shutil.rmtree(place.out)
    path = place.folder / file
    path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    follow("run", place)
