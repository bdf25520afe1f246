"""The weights of one model, as `--weights` chooses them: which of the words it is, where the file
lies, where it comes from. No tensor is read, and torch is not imported.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from ecgbench.cards.cell import EITHER, RANDOM, RELEASED
from ecgbench.cards.model import OURS, ModelCard, Weights
from ecgbench.errors import BadSetting
from ecgbench.models import ROOM
from ecgbench.weights import released, shipped
from ecgbench.weights.endings import INDEX, SAFE, TORCH, demand_ending

Kind = Literal["random", "released_or_random", "card", "own", "file"]
_NOWHERE: dict[str, Any] = dict.fromkeys(("file", "sha256", "licence", "url"))
"""The origin of weights that come from no file."""


@dataclass(frozen=True)
class ModelWeights:
    """The weights of one model."""

    card: ModelCard
    kind: Kind
    """`card`: published, and on the card by this name; `own`: a word that only the `build` of a
    plug-in knows.
    """
    word: str
    """As typed: random, released_or_random, a name, or a path."""

    @classmethod
    def of(cls, card: ModelCard, word: str | Path) -> Self:
        """What a word of `--weights` means to the model with this card; no file is looked for."""
        text, path = str(word), Path(word)
        if isinstance(word, Path):
            return cls(card, "file", text)
        if text in (RANDOM, EITHER):
            return cls(card, "random" if text == RANDOM else "released_or_random", text)
        if text in {layout.name for layout in card.weights}:
            return cls(card, "card", text)
        named = text == RELEASED or not (path.suffix or os.sep in text or path.exists())
        return cls(card, "own" if named else "file", text)

    def settled(self) -> Self:
        """With random ones where nothing else is meant: of a model without parameters, and of
        `released_or_random` where the card's are not here.
        """
        without = self.card.parameters == 0 and self.word in (RELEASED, EITHER)
        if without or (self.kind == "released_or_random" and not self._released_here):
            return type(self)(self.card, "random", RANDOM)
        return self if self.kind != "released_or_random" else self.of(self.card, RELEASED)

    @property
    def _released_here(self) -> bool:
        layout = next((w for w in self.card.weights if w.name == RELEASED), None)
        return layout is not None and released.is_here(released.name_of(self.card), layout)

    def located(self) -> Weights | Path:
        """An entry of the card whose file is here, or the path of a file. BadSetting where it is
        not here, or its ending does not say how it is read; UnknownName for a word that is none.
        """
        card = self.card
        if self.kind == "card":
            layout = released.layout_of(card, released.name_of(card), self.word)
            if not released.is_here(released.name_of(card), layout):
                raise released.not_here(card, released.name_of(card), layout.name)
            return layout
        if self.kind != "file":
            names = [RELEASED, *(w.name for w in card.weights if w.name != RELEASED), RANDOM]
            ending = f"Or the path of a file ending in {', '.join((*SAFE, *TORCH, INDEX))}"
            raise released.unknown(card, self.word, names, ending)
        path = self.path
        if not path.is_file():
            raise BadSetting(f"no file {path} (given as weights of {card.title}); {where(card)}")
        demand_ending(path, f"weights {path}", archive=bool(released.member_of(card)))
        return path

    def files(self) -> list[Path]:
        """The files that hold them; BadSetting as of `located`."""
        if self.kind == "random":
            return []
        found = self.located()
        if isinstance(found, Path):
            return [found]
        return [shipped.path(found) or released.converted(released.name_of(self.card), found.name)]

    @property
    def path(self) -> Path:
        """Of a file."""
        return Path(self.word).expanduser()

    def origin(self) -> dict[str, Any]:
        """Where they come from, for provenance: name, file, sha256 (of the authors' or the user's
        file), licence, url, tensors_sha256.

        BadSetting for a name whose conversion is not here. Of a path, licence and url are known
        where its hash is a card's; its folder is left out. tensors_sha256 is that of a conversion,
        own: True of weights that this project trained and ships.
        """
        card, model = self.card, released.name_of(self.card)
        if self.kind == "card":
            notes = released.record(model, released.layout_of(card, model, self.word))
            if notes is None:
                raise released.not_here(card, model, self.word)
            known = ("file", "licence", "url", "terms", "tensors_sha256")
            own = {"own": True} if card.origin == OURS else {}
            found = {k: notes[k] for k in known if k in notes}
            return {"name": self.word, "sha256": notes["source_sha256"], **found, **own}
        if self.kind == "random" or not self.path.exists():  # or a plug-in's own word
            return {"name": self.word, **_NOWHERE}
        from ecgbench.weights import read  # with torch

        with read.unpacked(self.path, released.member_of(card)) as file:
            digest = released.sha256(file)
        same = next((w for w in card.weights if w.sha256 == digest), None)
        terms = dict.fromkeys(("licence", "url"))
        if same is not None:
            terms = {name: getattr(same, name) for name in ("licence", "url", "terms")}
        name = self.path.name if same is None else same.name
        return {"name": name, "file": self.path.name, "sha256": digest, **terms}


def of(model: str, word: str | Path) -> ModelWeights:
    """Of the model called so; BadSetting where it cannot be imported."""
    return ModelWeights.of(ROOM.card(model), word)


def where(card: ModelCard) -> str:
    """Where weights of a model can be had, in words."""
    first = card.weights[0] if card.weights else None
    if first is not None and shipped.is_shipped(first.url):
        return (
            f"the {first.name} weights come with ecgbench (--weights {first.name}); --weights "
            f"random needs no file"
        )
    source = (
        "no weights are released"
        if first is None
        else f"the authors' file is {first.file} at {first.url}"
    )
    return f"{source}; --weights random needs no file"
