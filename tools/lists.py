"""Parts of the site that come from one list in the code each: what a card or a registry says stands
there alone.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ecgbench import models, perturbations, published
from ecgbench.pretrain.recipe import RECIPES
from ecgbench.pretrain.studies import STUDIES
from ecgbench.study.controls import CONTROLS
from ecgbench.study.plan_file import in_words, keys

EXPECTED = {
    "chance": "50, and p uniform; else label information leaks",
    "less": "well below the model",
    "shortcut": "below the model",
}
"""Kind of a control -> the macro AUROC × 100 that it should have."""


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |"
        for line in [head, ["---"] * len(head), *lines]
    )


def about(name: str) -> str:
    """The facts on the card of a network, and what an absent lead is to it."""
    card = models.ROOM.card(name)
    corpora = ", ".join(card.corpora)
    size = f"{card.parameters:,} parameters, {card.dim} features a window"
    absent: dict[str, list[str]] = {}
    for contract in card.contracts:
        absent.setdefault(contract.absent, []).append(f"`{contract.name}`")
    rows = [
        ("network", f"{card.summary}; {size}"),
        ("pre-training", f"{card.objective}; on {corpora}"),
        ("paper, code", f"{card.paper}; {card.origin}"),
        ("licence", card.licence),
        ("an absent lead", ". ".join(f"{', '.join(of)}: {what}" for what, of in absent.items())),
        ("reads any leads natively", "yes, `--policy native`" if card.native else "no"),
    ]
    return table(("", ""), rows)


def perturbation_table() -> str:
    """What a device does, as typed after --perturb."""
    cards = ((name, perturbations.ROOM.card(name)) for name in perturbations.ROOM.names())
    rows = [(f"`{name}`", card.level, ", ".join(card.levels), card.summary) for name, card in cards]
    return table(("name", "level", "levels, for example", "what is done"), rows)


def recipe_table() -> str:
    """Recipes of a pre-training."""
    return table(("recipe", "what it is"), [(f"`{r.name}`", r.summary) for r in RECIPES.values()])


def study_table() -> str:
    """Ablations."""
    rows = [
        (f"`{s.name}`".replace("_", "-"), s.summary, f"`{s.reference}`") for s in STUDIES.values()
    ]
    return table(("study", "cells", "compared with"), rows)


def control_table() -> str:
    """Controls, and what each should give."""
    rows = [(f"`{c.name}`", c.summary, EXPECTED[c.kind]) for c in CONTROLS.values()]
    return table(("name", "what is changed", "expected macro AUROC × 100"), rows)


def setting_table(prefix: str) -> str:
    """Settings of --set that begin alike."""
    rows = [
        (f"`{key.name}`", in_words(key), key.help)
        for key in keys().values()
        if key.name.startswith(prefix)
    ]
    return table(("setting", "default", "what it is"), rows)


def claims() -> str:
    """What the sources say and their own numbers do not give."""
    lines = [
        (published.source(name).title, claim.where, claim.says, claim.found, claim.agrees)
        for name in published.SOURCES
        for claim in published.claims(name)
        if claim.agrees != "yes"
    ]
    return table(("source", "where", "it says", "its tables give", "agrees"), lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "claims": claims,
    **{f"about {name}": partial(about, name) for name in models.names()},
    "perturbations": perturbation_table,
    "recipes": recipe_table,
    "studies": study_table,
    "controls": control_table,
    "training settings": partial(setting_table, "training."),
}
