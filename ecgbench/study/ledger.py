"""How often a test split was scored on this machine, and with what.

    <prepared>/<dataset>/tested.jsonl   of all runs that use this folder of prepared copies
    <run>/tested.jsonl                  the run's own lines, and what the other said before them

A line is one model scored on one task: it is written before the first prediction, so that a run
that is killed or deleted stays counted. Lines are only ever added, by one write each job, about
400 bytes for each task and fold; a line that a killed writer cut short is skipped. No line holds a
path. What other machines, other folders of prepared copies and other programs scored is not known
here.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ecgbench import __version__
from ecgbench.core.files import append
from ecgbench.errors import WriteError

FILE = "tested.jsonl"


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """One model that is scored on one task in one test split."""

    test: str
    """Which records: a digest of the test records and their signals."""
    dataset: str
    records: int
    fold: str
    task: str
    model: str
    weights: str
    """A digest of what the network holds."""
    contract: str
    protocol: str
    run: str
    """Name of the run's folder, without where it lies."""
    date: str
    """As `provenance.date` gives it."""
    version: str = __version__
    frozen: str = ""
    """Hash of the plan that was frozen then; "": none."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What scorings come to."""

    times: int
    models: int
    weights: int
    settings: int
    """Different ways to feed and to train: contract and protocol."""

    @classmethod
    def of(cls, scorings: Iterable[Scoring]) -> "Counts":
        """Of these."""
        own = list(scorings)
        return cls(
            times=len(own),
            models=len({s.model for s in own}),
            weights=len({s.weights for s in own}),
            settings=len({(s.contract, s.protocol) for s in own}),
        )


@dataclass(frozen=True, kw_only=True)
class Before:
    """What the machine's ledger said of a test split before a run first scored it."""

    test: str
    counts: Counts
    late: bool
    """Whether the run had scores already: they were computed before there was a ledger."""


def note(scorings: Sequence[Scoring], run: Path, machine: Path) -> None:
    """Add lines to the ledger of the run folder `run` and to that in the folder `machine`.
    WriteError where the run's own cannot be written; the machine's may be read-only.
    """
    lines = [json.dumps(asdict(s), separators=(",", ":")) for s in scorings]
    append(run / FILE, lines)
    with suppress(WriteError):
        append(machine / FILE, lines)


def begin(test: str, run: Path, machine: Path, late: bool) -> None:
    """Note in a run, once, what the machine's ledger says of a test split. `late`: see `Before`."""
    if any(b.test == test for b in before(run)):
        return
    counts = Counts.of(s for s in scorings(machine, test) if s.test == test)
    told = {"before": asdict(Before(test=test, counts=counts, late=late))}
    append(run / FILE, [json.dumps(told, separators=(",", ":"))])


def joined(run: Path, to: Path) -> None:
    """Add the lines of a run's ledger that another run's has not."""
    known = _lines(to)
    lines = [line for line in _lines(run) if line not in known] if run != to else []
    if lines:
        append(to / FILE, [json.dumps(line, separators=(",", ":")) for line in lines])


def scorings(folder: Path, test: str = "") -> list[Scoring]:
    """Those that a folder's ledger names, the first first; none where there is no ledger. test:
    only lines that name it.
    """
    known = {f.name for f in fields(Scoring)}
    found = []
    for line in _lines(folder, test):
        with suppress(TypeError):
            found.append(Scoring(**{k: v for k, v in line.items() if k in known}))
    return found


def unread(folder: Path) -> int:
    """How many lines of a folder's ledger are none: cut short by a kill, or damaged."""
    try:
        lines = (folder / FILE).read_bytes().splitlines()
    except OSError:
        return int((folder / FILE).exists())
    return sum(1 for line in lines if line.strip() and _line(line) is None)


def before(run: Path) -> list[Before]:
    """What was noted when a run first scored each test split."""
    found = []
    for line in _lines(run):
        with suppress(KeyError, TypeError):
            told = line["before"]
            counts = Counts(**told["counts"])
            found.append(Before(test=told["test"], counts=counts, late=told["late"]))
    return found


def _lines(folder: Path, naming: str = "") -> list[dict[str, Any]]:
    """The whole lines of a ledger, those alone that hold a word; what is no line is skipped."""
    found = []
    with suppress(OSError):
        for line in (folder / FILE).read_bytes().splitlines():
            if naming.encode() in line and (entry := _line(line)) is not None:
                found.append(entry)
    return found


def _line(line: bytes) -> dict[str, Any] | None:
    """What a line says; None where it is none."""
    with suppress(ValueError, RecursionError):
        entry = json.loads(line)
        if isinstance(entry, dict):
            return entry
    return None
