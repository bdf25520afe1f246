"""Receipts: what a finished job rested on, so that the next command sees without its network that
nothing has changed.

    receipts/<job>.json   {"rests_on": <hash>, "cells": {<identity>: <key, or "" if skipped>}}

A receipt is a shortcut and no proof: where it is gone, damaged or of anything else, the job runs,
and it says by its keys what is missing. Jobs that may run a plug-in from outside have none.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ecgbench.cards.cell import FEATURES, FITS, SCORES
from ecgbench.core import provenance
from ecgbench.core.files import put_proved, read_proved
from ecgbench.core.keys import key
from ecgbench.errors import EcgbenchError
from ecgbench.evaluate.device import choose
from ecgbench.study.jobs import Job
from ecgbench.study.store import Store, noted
from ecgbench.study.verify import Intact
from ecgbench.weights import chosen, released

FOLDER = "receipts"


def rests_on(job: Job, data: Iterable[str]) -> str:
    """The hash of all that a job's keys and numbers follow from; "" where it cannot be said.

    data: hashes of the used recordings and labels, one for each fold.
    """
    if job.foreign or job.plan.control:  # a plug-in or a collection of noise rests on more
        return ""
    try:
        weights = chosen.of(job.model, job.weights).settled()
        facts: dict[str, Any] = {
            "plan": job.plan.shared(),
            "fits": [asdict(fit) for fit in job.plan.fits],
            "weights": [weights.word, *map(released.sha256, weights.files())],
            "data": [job.dataset, *data],
            "device": choose(job.device),
            "code": [FEATURES, FITS, SCORES, provenance.files(), provenance.versions()],
        }
    except (EcgbenchError, OSError):  # the job says what is wrong
        return ""
    return key(facts)


def complete(job: Job, rests_on: str, store: Store) -> bool:
    """Whether a receipt says that nothing of a job is missing, and every file of it is intact;
    damaged ones are quarantined.
    """
    known = read_proved(store.path / FOLDER / _named(job)) or {}
    keys = _keys(job, store)
    if not rests_on or known.get("rests_on") != rests_on or len(keys) < len(job.cells):
        return False
    intact = Intact(store)
    return keys.items() <= known["cells"].items() and all(
        intact.cell_and_fit(cell) for cell in job.cells if keys[cell.identity]
    )


def keep(job: Job, rests_on: str, store: Store) -> None:
    """Keep the receipt of a job that has ended, where none of its cells failed."""
    keys = _keys(job, store)
    if rests_on and len(keys) == len(job.cells):
        put_proved(store.path / FOLDER / _named(job), {"rests_on": rests_on, "cells": keys})


def _keys(job: Job, store: Store) -> dict[str, str]:
    """Identity -> key of the cells that are finished, or "" for those that cannot run."""
    states = [(cell.identity, store.state(cell)[0], store.folder(cell)) for cell in job.cells]
    known = ("ok", "skipped")
    return {
        name: noted(folder).get("key", "") if folder else ""
        for name, s, folder in states
        if s in known
    }


def _named(job: Job) -> str:
    return f"{hashlib.sha256(job.name.encode()).hexdigest()[:32]}.json"
