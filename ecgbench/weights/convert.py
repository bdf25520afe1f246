"""An authors' file into the cache: obtained, proved, read, matched, stored as safetensors with a
record of where it comes from.
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save

import ecgbench
from ecgbench.cards.model import ModelCard, Weights
from ecgbench.core.files import as_json, locked, put, quarantine, writing
from ecgbench.data.fetch.fetch import download
from ecgbench.data.fetch.resumed import DownloadError
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.models import ROOM
from ecgbench.weights import classifier, hub, load, read, released, shipped
from ecgbench.weights.endings import demand_ending
from ecgbench.weights.state import fill


class Listener(Protocol):
    """Receives the progress."""

    def note(self, text: str) -> None:
        """One line."""

    def progress(self, done: int, total: int | None) -> None:
        """Bytes that are here, of how many."""


def fetch(model: str, name: str, given: Path | None, force: bool, listener: Listener) -> Path:
    """The conversion of the weights of `model` called `name` ("released"), made where it is not
    here yet.

    given: the authors' file, where a person has it already; else the one they put into the model's
    folder of the cache, else it is downloaded. force: convert again. BadSetting says what to
    do where the file cannot be downloaded; BadWeights refuses one that is not the authors' or does
    not fit, and leaves an earlier conversion as it is. Weights that are shipped are only proved.
    """
    model = ROOM.resolve(model)
    card = ROOM.card(model)
    layout = released.layout_of(card, model, name)
    if shipped.is_shipped(layout.url):
        return _proved(model, layout, given, listener)
    busy = f"another command is fetching weights of {model}; wait for it, then run this one again"
    # two of them would write into one download
    with locked(released.model_folder(model), otherwise=busy):
        path = released.converted(model, name)
        known = None if force or given else released.record(model, layout)
        if known is not None and not load.as_converted(path, known):
            quarantine(path, then="it is converted again")
            known = None
        if (notes := known) is None:
            released.show_terms(layout, listener.note)
            notes = _made(card, layout, model, given, listener)
            listener.note(f"{model}, {name}: {path} (licence: {layout.licence})")
            if layout.sha256 is None:
                listener.note(
                    f"{notes['file']} has the sha256 {notes['source_sha256']}, which no card "
                    f"knows: compare it with that of whoever has these weights too"
                )
        else:
            released.prove(notes["source_sha256"], str(path), layout, model)
            listener.note(f"{model}, {name}: here already, {path}")
    return path


def _proved(model: str, layout: Weights, given: Path | None, listener: Listener) -> Path:
    """Where shipped weights lie, once they are proved."""
    if given is not None:
        raise BadSetting(
            f"--from {given}: the {layout.name} weights of {model} come with ecgbench; to use it, "
            f"--weights {model}=PATH"
        )
    shipped.content(layout)
    path = shipped.path(layout)
    assert path is not None
    listener.note(
        f"{model}, {layout.name}: shipped with ecgbench, there is nothing to fetch: {path} "
        f"(licence: {layout.licence})"
    )
    return path


def _made(
    card: ModelCard, layout: Weights, model: str, given: Path | None, listener: Listener
) -> dict[str, Any]:
    place = released.model_folder(model)
    passing = place / released.DOWNLOAD
    source = given or next(
        (place / n for n in (layout.file, layout.member) if n and (place / n).is_file()), None
    )
    if source is None:
        source = _downloaded(layout, model, passing, listener)
    else:
        _refuse(source, layout)
        listener.note(f"{model}, {layout.name}: converting {source}")
    try:
        notes = _stored(card, layout, model, source)
    except BadWeights:
        # or it would be the beginning of the next download
        shutil.rmtree(passing, ignore_errors=True)
        raise
    shutil.rmtree(passing, ignore_errors=True)
    return notes


def _downloaded(layout: Weights, model: str, passing: Path, listener: Listener) -> Path:
    listener.note(f"{model}, {layout.name}: downloading {layout.file} from {layout.url}")
    try:
        if layout.url.startswith(hub.HUB) and "/resolve/" not in layout.url:
            return hub.downloaded(layout.url.removeprefix(hub.HUB), layout.file)
        return download(
            layout.url, layout.file, passing, layout.sha256 is not None, listener.progress
        )
    except DownloadError as error:
        command = released.fetching(layout.name, model)
        raise BadSetting(
            f"{layout.file} could not be downloaded ({error}); get it from {layout.url} with a "
            f"browser, put it into "
            f"{released.model_folder(model)} and run again: {command} (or, from where it lies: "
            f"{command} --from FILE)"
        ) from None


def _refuse(source: Path, layout: Weights) -> None:
    if not source.is_file():
        raise BadSetting(
            f"--from {source}: no such file; give the path of {layout.file}, as you downloaded it "
            f"from {layout.url}"
        )
    demand_ending(source, f"--from {source}", archive=bool(layout.member))


def _stored(card: ModelCard, layout: Weights, model: str, source: Path) -> dict[str, Any]:
    """Convert one file; the record is removed first and written last, so what has a record is
    whole.
    """
    with torch.random.fork_rng(devices=[]):
        network = ROOM.get(model).build()
    with read.unpacked(source, layout.member) as file:
        digest, size = released.sha256(file), file.stat().st_size
        released.prove(digest, str(source), layout, model)
        fill(network, load.matched(network, file, card, (layout,)))
        classifier.keep(model, layout, card, file)
    path = released.converted(model, layout.name)
    notes = {
        "model": model,
        "weights": layout.name,
        "file": layout.member or layout.file,
        "url": layout.url,
        "bytes": size,
        "source_sha256": digest,
        "tensors_sha256": load.digest(network),
        "licence": layout.licence,
        "terms": layout.terms,
        "date": datetime.now(UTC).date().isoformat(),
        "ecgbench": ecgbench.__version__,
    }
    content = save({name: t.contiguous().clone() for name, t in network.state_dict().items()})
    with writing(path):
        path.with_suffix(".json").unlink(missing_ok=True)
    put(path, content)
    put(path.with_suffix(".json"), as_json(notes))
    return notes
