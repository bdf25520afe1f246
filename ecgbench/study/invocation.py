"""The commands that worked on a run: one small file each, written when a command begins, at
intervals, and when it ends.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgbench.cards.cell import FORMAT
from ecgbench.core import provenance
from ecgbench.core.files import as_json, put
from ecgbench.core.folders import damaged, document
from ecgbench.core.keys import key
from ecgbench.study.store import Store

if TYPE_CHECKING:  # a report imports this file, and no model
    from ecgbench.study.jobs import Execution

_HASH = "sha256"
"""Of all other facts in a file."""
EVERY = 10.0
"""Seconds between two notes; work after the last one is not counted if the command is killed."""


class Invocation:
    """One `ecgbench run`."""

    def __init__(self, store: Store, execution: "Execution") -> None:
        """Note that it begins."""
        started = time.time()
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
        self.file = store.path / "invocations" / f"{moment}-{secrets.token_hex(4)}.json"
        self.facts: dict[str, Any] = {
            "format": FORMAT,
            "command": execution.command or provenance.command(),
            "started": round(started, 1),
            "seconds": 0.0,
            "computed": 0,
            "reused": 0,
            "ended": False,
            "device": execution.device,
            **provenance.here(),
        }
        self._put()

    def note(self, computed: int, reused: int, ended: bool = False) -> None:
        """Note the numbers of computed and reused cells, if the command ended or the last note is
        old.
        """
        seconds = round(time.time() - self.facts["started"], 1)
        if ended or seconds - self.facts["seconds"] >= EVERY:
            now = {"seconds": seconds, "computed": computed, "reused": reused, "ended": ended}
            self.facts |= now
            self._put()

    def _put(self) -> None:
        put(self.file, as_json({**self.facts, _HASH: key(self.facts)}))


def stored(store: Store) -> list[dict[str, Any]]:
    """Facts of all commands, oldest first; Damaged where a file is not what a command wrote."""
    facts = [_read(file) for file in store.files_of("invocations")]
    return sorted(facts, key=lambda one: float(one["started"]))


def _read(file: Path) -> dict[str, Any]:
    facts = document(file)
    if facts.pop(_HASH, "") != key(facts):
        raise damaged(file)
    return facts


def latest(commands: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last command that computed a cell, else the first; None where there was none."""
    computed = [facts for facts in commands if facts["computed"]]
    return computed[-1] if computed else next(iter(commands), None)
