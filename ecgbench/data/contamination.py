"""Which datasets the pre-training collections of a model overlap with, and which datasets have
patients in common.

A collection is named on a model's card by its title, "PTB-XL", or "PTB-XL (folds 1-8)" where only a
part was used. Sources: the pages of the collections and the papers of the models. The content of a
collection that is not listed here is unknown, which is not "none".
"""

import re
from collections.abc import Sequence
from typing import Literal

Relation = Literal["equal", "part", "contains", "overlaps", "none", "unknown"]
"""The collection is the dataset, a part of it, or contains it; they overlap; they do not; or it is
not known.
"""
NOT_STATED = "not stated"
"""Collection of weights whose training data are not known."""
ORDER: tuple[Relation, ...] = ("equal", "contains", "part", "overlaps", "unknown", "none")
"""The most serious first."""

_PLAIN = (
    *("PTB-XL", "PTB", "CPSC2018", "Georgia", "Chapman", "Ningbo", "Hefei", "SPH", "CODE"),
    *("CODE-15", "CODE-15%", "EchoNext", "CPSC2021", "NSTDB", "IKEM", "HEEDB", "Challenge 2021"),
)
"""Titles whose letters and digits are their identity."""
NAMES = {title: re.sub(r"\W", "", title).lower() for title in _PLAIN} | {
    "CPSC-Extra": "cpsc_extra",
    "Chapman-Shaoxing": "chapman",
    "Ribeiro-dev": "ribeiro_dev",
    "ZZU pECG": "zzu",
    "Brugada-HUCA": "brugada",
    "Challenge 2017": "cinc2017",
    "MIMIC-IV-ECG": "mimic_iv_ecg",
    "Cardio-Learning": "cardio_learning",
}
"""Title of a collection -> its identity: the name of a dataset if it is one."""

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

EXAMS = {"code": "exam", "code15": "record", "ribeiro_dev": "exam"}
"""Datasets that are made of one archive, CODE, whose numbers of patients and exams they keep -> the
column of the index that has the number of the exam.
"""


def relation(title: str, dataset: str, called: str = "") -> Relation:
    """The relation of a collection on a card to a dataset; called: its name in tables.

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
    """The most serious relation of a model's collections to a dataset, and the collections that
    have it; unknown where the model names none.
    """
    every = {title: relation(title, dataset, called) for title in titles}
    worst: Relation = min(every.values(), key=ORDER.index, default="unknown")
    return worst, [title for title, own in every.items() if own == worst]


def told_by(one: tuple[str, str], other: tuple[str, str]) -> Literal["", "number", "signal", "?"]:
    """How to tell the patients that two datasets, each a name and a title, have in common: by their
    numbers, or only by their signals; "" where they have none, "?" where a title is not known.

    >>> told_by(("code", "CODE"), ("code15", "CODE-15%")), told_by(("a", "PTB"), ("b", "SPH"))
    ('number', '')
    >>> told_by(("chapman", "Chapman"), ("ningbo", "Ningbo")), told_by(("a", "A"), ("ptb", "PTB"))
    ('signal', '?')
    """
    pairs = (one, other), (other, one)
    known = {relation(a[1], NAMES.get(b[1].partition(" (")[0], b[0]), b[1]) for a, b in pairs}
    if one[0] == other[0] or known == {"none"}:
        return ""
    if known <= {"none", "unknown"}:
        return "?"
    return "number" if {one[0], other[0]} <= EXAMS.keys() else "signal"
