"""What a study needs and this machine lacks, told at once and before anything is loaded."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ecgbench import datasets, models
from ecgbench.core.cells import EITHER, RANDOM, Folders, Request, grouped
from ecgbench.core.text import quoted
from ecgbench.data.source import root_of
from ecgbench.errors import BadSetting, Lacking, MissingData
from ecgbench.study.plan import all_tasks
from ecgbench.study.store import free
from ecgbench.weights import shipped
from ecgbench.weights.load import located
from ecgbench.weights.released import fetching


def writable(out: Path) -> None:
    """BadSetting for a run folder that is a file or cannot be written."""
    there = next(p for p in (out, *out.absolute().parents) if p.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    which = "" if there == out else f"cannot be made, for {there} "
    why = "cannot be written" if there.is_dir() else "is a file"
    raise BadSetting(
        f"--out {out} {which}{why}; choose another folder, for example "
        f"--out {quoted(free(Path(out.name)))}"
    )


def locate(model: str, weights: str) -> dict[str, Any]:
    """{"lacks": why weights cannot be had on this machine, or "", "fetch": whether `ecgbench models
    fetch` gets them}.

    Left to the model's first job: a model that cannot be imported, and a plug-in's own words for
    its weights.
    """
    with suppress(BadSetting):
        card = models.get(model).CARD
        layout = next((w for w in card.weights if w.name == weights), None)
        if card.parameters and (layout or models.ROOM.built_in(model)):
            try:
                located(weights, card)
            except BadSetting as error:
                fetch = layout is not None and not shipped.comes_along(layout.url)
                return {"lacks": str(error), "fetch": fetch}
    return {"lacks": ""}


def demand(request: Request, folders: Folders, data: bool = True) -> None:
    """BadSetting where a checked study lacks one thing, Lacking where it lacks more: weights of its
    models, and (`data`) its datasets.
    """
    lines, fetched = [], []
    for model, word in request.weights_of().items():
        answer = {} if word in (RANDOM, EITHER) else locate(model, word)
        if answer.get("lacks"):
            lines.append(answer["lacks"])
            fetched += [(word, model)] if answer["fetch"] else []
    tasks = all_tasks()
    for name in dict.fromkeys(tasks[t][0] for t in request.tasks) if data else ():
        try:
            root_of(name, datasets.get(name).CARD, folders.data)
        except MissingData as error:
            lines.append(str(error))
    if len(lines) == 1:
        raise BadSetting(lines[0])
    if lines:
        words = grouped(fetched, lambda pair: pair[0]).items()
        commands = [fetching(word, *(model for _, model in pairs)) for word, pairs in words]
        commands += [then for text in lines if (then := text.partition(", then: ")[2])]
        # the last line has the commands of all
        short = [text.partition("; run: ")[0].partition(", then: ")[0] for text in lines]
        get = [f"to get them: {' && '.join(commands)}"] if commands else []
        raise Lacking(f"{len(lines)} things that this run needs are not here:", *short, *get)
