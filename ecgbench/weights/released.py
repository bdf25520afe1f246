"""Authors' weights on this machine: where their conversions lie, what is known of their origin, and
what they must hash to.

`<cache>/<model>/<name>.safetensors` holds the network's tensors as converted from the authors'
file, the JSON beside it where they come from; our own are shipped, see `shipped`.
"""

import functools
import hashlib
import json
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from ecgbench.cards.cell import RELEASED
from ecgbench.cards.model import ModelCard, Weights
from ecgbench.core.registry import folder_name, plain
from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting, BadWeights, EcgbenchError, UnknownName
from ecgbench.models import ROOM
from ecgbench.weights import shipped

CACHE = "ECGBENCH_WEIGHTS"
"""Environment variable that moves the cache folder."""
DOWNLOAD = "download"
"""Folder of a model's folder that holds its download until that is converted."""
Json = dict[str, Any]


def cache() -> Path:
    """The folder of converted weights: ECGBENCH_WEIGHTS, or `weights` in the user's cache folder of
    ecgbench.
    """
    named = os.environ.get(CACHE) or Path(platformdirs.user_cache_dir("ecgbench")) / "weights"
    return Path(named).expanduser()


def name_of(card: ModelCard) -> str:
    """What the model with this card is called on the command line; of one that came through no
    room, what its title says.
    """
    return card.name or plain(card.title)


def model_folder(model: str) -> Path:
    """The folder of one model in the cache; a file of its authors that a person puts there is found
    by `ecgbench models fetch`.
    """
    return cache() / folder_name(model)


def converted(model: str, name: str) -> Path:
    """Where the conversion of the weights called `name` lies, or would."""
    return model_folder(model) / f"{folder_name(name)}.safetensors"


def is_here(model: str, layout: Weights) -> bool:
    """Whether weights on the card of a model are on this machine: a conversion with its record, or
    a file that is shipped.
    """
    if shipped.is_shipped(layout.url):
        return shipped.path(layout) is not None
    path = converted(model, layout.name)
    return path.is_file() and path.with_suffix(".json").is_file()


def record(model: str, layout: Weights) -> Json | None:
    """What is known of weights that are here: file, url, sha256, licence, and of a conversion its
    own hash and date; else None.
    """
    if not is_here(model, layout):
        return None
    if shipped.is_shipped(layout.url) and (own := shipped.path(layout)):
        facts = {k: getattr(layout, k) for k in ("file", "url", "licence", "terms")}
        return {**facts, "source_sha256": sha256(own), "bytes": own.stat().st_size}
    path = converted(model, layout.name)
    notes = path.with_suffix(".json")
    conversion = _json(notes, f"remove its folder and run: {fetching(RELEASED, model)}")
    kinds = {"file": str, "source_sha256": str, "tensors_sha256": str, "bytes": int}
    if not all(isinstance(conversion.get(k), kind) for k, kind in kinds.items()):
        raise BadWeights(
            f"{notes} does not say where {path.name} comes from; run: "
            f"{fetching(RELEASED, model)} --force"
        )
    return conversion


def layout_of(card: ModelCard, model: str, name: str) -> Weights:
    """The weights called `name` on the card; BadSetting where it has none at all, UnknownName where
    it has others.
    """
    for weights in card.weights:
        if weights.name == name:
            return weights
    raise unknown(card, name, [w.name for w in card.weights])


def unknown(card: ModelCard, name: str, known: Sequence[str], hint: str = "") -> EcgbenchError:
    """What is raised for a name of weights that is not on a card: of a model without weights that
    it has none, else the nearest ones.
    """
    model = name_of(card)
    if not card.weights and (name == RELEASED or not known):
        return BadSetting(
            f"no weights of {card.title} are released; pass --weights {model}=PATH or "
            f"--weights {model}=random"
        )
    return UnknownName("weights", name, known, hint)


def member_of(card: ModelCard) -> str:
    """The file of weights inside the archive that the authors publish, or "" where it is none."""
    return next((w.member for w in card.weights if w.member), "")


def fetching(name: str, *chosen: str) -> str:
    """The command that gets the weights called `name` of the models `chosen`."""
    option = "" if name == RELEASED else f" --weights {name}"
    return f"ecgbench models fetch {shlex.join(map(ROOM.argument, chosen))}{option}"


def not_here(card: ModelCard, model: str, name: str) -> BadSetting:
    """The one message for weights that are not on this machine: the command, the file, where to get
    it, where to put it.
    """
    layout = layout_of(card, model, name)
    if shipped.is_shipped(layout.url):
        return shipped.missing(layout)
    return BadSetting(
        f"the {name} weights of {card.title} are not on this machine; run: "
        f"{fetching(name, model)}. It gets "
        f"{layout.file} from {layout.url}; "
        f"where that fails, put the file into {model_folder(model)} and run it again. Or pass "
        f"--weights {model}=PATH, or --weights {model}=random"
    )


@functools.lru_cache(maxsize=64)
def _hashed(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256(path: Path) -> str:
    """sha256 (hex) of a file, remembered while its size and time of change stay; or of all files
    in a folder and their names.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = (f"{file.relative_to(path)}\n{sha256(file)}\n" for file in files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    state = path.stat()
    return _hashed(path.resolve(), state.st_size, state.st_mtime_ns)


def prove(digest: str, source: str, layout: Weights, model: str) -> None:
    """BadWeights where the card knows the hash of the authors' file, and it is another."""
    if layout.sha256 not in (None, digest):
        raise BadWeights(
            f"{source} is not the authors' {layout.member or layout.file}: its sha256 is {digest}, "
            f"theirs is {layout.sha256}. Get it again from {layout.url}; to use another file all "
            f"the same, pass --weights {model}=PATH"
        )


def show_terms(layout: Weights, show: Callable[[str], None]) -> None:
    """Say what the licence forbids."""
    if layout.terms:
        show(f"{layout.member or layout.file} ({layout.licence}): {layout.terms}")


def _json(path: Path, remedy: str) -> Json:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadSetting(
            f"{path} cannot be read ({shortened(str(error), 120)}); {remedy}"
        ) from None
    if not isinstance(content, dict):
        raise BadSetting(f"{path} holds no JSON object; {remedy}")
    return content
