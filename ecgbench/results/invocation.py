"""The commands that worked on a run: one small file each, written when a command begins, from time
to time, and when it ends.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ecgbench import provenance
from ecgbench.files import as_json, put
from ecgbench.results.store import FORMAT, Store

EVERY = 10.0
"""Seconds between two notes: what a command did after its last one is not counted if it is killed.
"""


class Invocation:
    """One `ecgbench run`."""

    def __init__(self, store: Store, device: str) -> None:
        """Note that it begins."""
        started = time.time()
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
        self.file = store.path / "invocations" / f"{moment}-{secrets.token_hex(4)}.json"
        self.facts: dict[str, Any] = {
            "format": FORMAT,
            "command": provenance.command(),
            "started": round(started, 1),
            "seconds": 0.0,
            "computed": 0,
            "reused": 0,
            "ended": False,
            "device": device,
            **provenance.here(),
        }
        put(self.file, as_json(self.facts))

    def note(self, computed: int, reused: int, ended: bool = False) -> None:
        """Note how many cells it computed and how many were there already, if it ended or the last
        note is old.
        """
        seconds = round(time.time() - self.facts["started"], 1)
        if ended or seconds - self.facts["seconds"] >= EVERY:
            now = {"seconds": seconds, "computed": computed, "reused": reused, "ended": ended}
            self.facts |= now
            put(self.file, as_json(self.facts))


def stored(store: Store) -> list[dict[str, Any]]:
    """Facts of all commands, the first first."""
    facts = sorted(store.facts("invocations").values(), key=lambda one: float(one["started"]))
    # of an earlier version: only the end was noted
    return [{"ended": one["seconds"] is not None, **one} for one in facts]


def latest(commands: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last command that computed a cell, else the first; None where there was none."""
    computed = [facts for facts in commands if facts["computed"]]
    return computed[-1] if computed else next(iter(commands), None)
