"""Which cells of a study are finished and still as they would be computed now. No torch."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ecgbench import datasets, models
from ecgbench.cards.cell import Cell, Fit
from ecgbench.cards.plan import Folders, Plan
from ecgbench.core.keys import grouped
from ecgbench.data.prepare import changed, find
from ecgbench.data.select import Selection
from ecgbench.errors import BadRecord, Damaged, EcgbenchError, MissingData
from ecgbench.study.store import Store
from ecgbench.study.stored import CELL, document_of
from ecgbench.weights.chosen import of as weights_by


def as_now(plan: Plan, folders: Folders) -> Iterator[Cell]:
    """The finished cells whose recordings, labels, model and file of weights are as they are now.
    Of released data that are not prepared all count, since those do not change.
    """
    tasks, store = datasets.tasks(), Store(folders.out)
    networks = store.facts("models")
    of = {(fit.model, fit.weights): _code_and_file(fit) for fit in plan.fits}
    for name, cells in grouped(plan.cells, lambda c: tasks[c.task][0]).items():
        there = [(cell, folder) for cell in cells if (folder := store.folder(cell))]
        done = []
        for cell, folder in there:
            with suppress(Damaged):  # the run names it and computes it again
                document, now_of = document_of(folder, CELL), of[cell.fit.model, cell.fit.weights]
                if _stored_code_and_file(document, networks) == now_of:
                    done.append((cell, document))
        try:
            where = name, folders.data, folders.prepared, plan.limit
            copy = find(*where, fix=plan.fix, division=plan.division)
            if copy.card.any_leads and changed(copy):
                continue
        except (MissingData, BadRecord):
            yield from (cell for cell, _ in done if not datasets.get(name).CARD.any_leads)
            continue
        chosen = Selection(copy, plan.limit, plan.exclude)
        crossed = chosen.crossed(list(dict.fromkeys(cell.fit.fold for cell, _ in done)))
        now: dict[tuple[str, str], tuple[str, str]] = {}
        for cell, document in done:
            which, own = (cell.fit.fold, cell.task), crossed[cell.fit.fold]
            if which not in now:
                now[which] = own.signals, own.labelled(tasks[cell.task][2].columns)
            known = document["key_facts"]
            if (known.get("data"), known.get("records")) == now[which]:
                yield cell


def _code_and_file(fit: Fit) -> tuple[str | None, str | None]:
    """sha256 of the files of a model from outside, and of the file of its weights, if any; of
    weights that are not here the run says what is wrong.
    """
    source, file = None, None
    with suppress(EcgbenchError):
        source = models.ROOM.source_hash(fit.model)
        file = weights_by(fit.model, fit.weights).settled().origin()["sha256"]
    return source, file


def _stored_code_and_file(
    document: Mapping[str, Any], networks: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, str | None]:
    """The same of a stored cell; networks: facts of the models of its run."""
    facts, network = document.get("key_facts", {}), networks.get(str(document.get("model")), {})
    return facts.get("source"), network.get("weights_source", {}).get("sha256")
