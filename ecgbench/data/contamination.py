"""What a model has met: which collections that networks are pre-trained on hold recordings of which
datasets.

A collection is named on a model's card by its title, "PTB-XL", or "PTB-XL (folds 1-8)" where only a
part was used. Sources: the pages of the collections and the papers of the models. Of a collection
that is not listed here it is unknown what it holds, which is not "none".
"""

from collections.abc import Sequence
from typing import Literal

Relation = Literal["equal", "part", "contains", "overlaps", "none", "unknown"]
"""What a model's collections are to a dataset: the dataset itself, a part of it, a larger one that
holds it, one that shares recordings with it, one that holds none of it, or nobody says.
"""
NOT_STATED = "not stated"
"""Collection of weights of which nothing says what they were trained on."""
ORDER: tuple[Relation, ...] = ("equal", "contains", "part", "overlaps", "unknown", "none")
"""The gravest first."""

NAMES = {
    "PTB-XL": "ptbxl",
    "PTB": "ptb",
    "CPSC2018": "cpsc2018",
    "CPSC-Extra": "cpsc_extra",
    "Georgia": "georgia",
    "Chapman": "chapman",
    "Chapman-Shaoxing": "chapman",
    "Ningbo": "ningbo",
    "Hefei": "hefei",
    "SPH": "sph",
    "CODE": "code",
    "CODE-15": "code15",
    "CODE-15%": "code15",
    "Ribeiro-dev": "ribeiro_dev",
    "EchoNext": "echonext",
    "ZZU pECG": "zzu",
    "Brugada-HUCA": "brugada",
    "MIMIC-IV-ECG": "mimic_iv_ecg",
    "IKEM": "ikem",
    "HEEDB": "heedb",
    "Challenge 2021": "challenge2021",
    "Cardio-Learning": "cardio_learning",
}
"""Title of a collection -> its identity: the name of a dataset where there is one."""

_CHALLENGE = ("ptbxl", "ptb", "cpsc2018", "cpsc_extra", "georgia", "chapman", "ningbo")
_UNION = (*_CHALLENGE, "hefei", "sph", "code", "code15")
RELATIONS: dict[tuple[str, str], Relation] = {
    ("code", "code15"): "contains",
    ("code15", "code"): "overlaps",
    ("code", "ribeiro_dev"): "contains",
    ("ribeiro_dev", "code"): "part",
    ("code15", "ribeiro_dev"): "overlaps",
    ("ribeiro_dev", "code15"): "overlaps",
    ("cardio_learning", "ribeiro_dev"): "contains",
    ("chapman", "ningbo"): "overlaps",
    ("ningbo", "chapman"): "overlaps",
    **{("challenge2021", name): "contains" for name in _CHALLENGE},
    **{("cardio_learning", name): "contains" for name in _UNION},
    **{(name, "cardio_learning"): "overlaps" for name in _UNION},
}
"""(collection, dataset) -> what is known; "none" of any other two in NAMES."""


def relation(title: str, dataset: str, called: str = "") -> Relation:
    """What a collection on a card is to a dataset: its name, and what it is `called` in tables.

    >>> relation("PTB-XL (folds 1-8)", "ptbxl"), relation("CODE", "code15")
    ('part', 'contains')
    >>> relation("HEEDB", "georgia"), relation("a hospital's archive", "georgia")
    ('none', 'unknown')
    """
    whole, _, part = title.partition(" (")
    collection = NAMES.get(whole)
    if (collection or whole) in (dataset, called):
        return "part" if part else "equal"
    if collection is None:
        return "unknown"
    # the recordings of a plug-in's dataset are taken for its own, unless its title says otherwise
    known = RELATIONS.get((collection, dataset), "none")
    # which part of a larger collection was used is not said by its name
    return "overlaps" if part and known == "contains" else known


def met(titles: Sequence[str], dataset: str, called: str = "") -> tuple[Relation, list[str]]:
    """The gravest relation of a model's collections to a dataset, and those that have it; unknown
    where it names none.
    """
    every = {title: relation(title, dataset, called) for title in titles}
    worst: Relation = min(every.values(), key=ORDER.index, default="unknown")
    return worst, [title for title, own in every.items() if own == worst]
