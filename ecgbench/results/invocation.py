"""The commands that worked on a run: one small file each, written when a command begins and again
when it ends.
"""

import secrets
import time
from typing import Any

from ecgbench import provenance
from ecgbench.files import as_json, put
from ecgbench.results.store import FORMAT, Store


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
            "seconds": None,
            "computed": None,
            "device": device,
            **provenance.here(),
        }
        put(self.file, as_json(self.facts))

    def end(self, computed: int) -> None:
        """Note that it ended, and how many cells it computed."""
        seconds = round(time.time() - self.facts["started"], 1)
        put(self.file, as_json({**self.facts, "seconds": seconds, "computed": computed}))


def latest(store: Store) -> dict[str, Any] | None:
    """Facts of the last command that computed a cell, else of the first; None where there was
    none.
    """
    invocations = sorted(
        store.facts("invocations").values(), key=lambda facts: float(facts["started"])
    )
    computed = [facts for facts in invocations if facts["computed"]]
    return computed[-1] if computed else next(iter(invocations), None)
