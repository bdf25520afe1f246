"""Label tables shipped with the package (labels/SOURCE.md says where they come from), and multi-hot
columns.
"""

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd


@cache
def table(name: str) -> tuple[dict[str, str], ...]:
    """The rows of labels/`name`.csv as text; codes are never taken for numbers or missing
    values.
    """
    text = (files("ecgbench.datasets") / "labels" / f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def codes(name: str) -> tuple[str, ...]:
    """The labels of a task in the order of the head's outputs.

    >>> codes("ptbxl_super")
    ('CD', 'HYP', 'MI', 'NORM', 'STTC')
    """
    rows = table(name)
    assert [int(r["index"]) for r in rows] == list(range(len(rows))), (
        f"labels/{name}.csv is not in the order of its index"
    )
    return tuple(r["code"] for r in rows)


def multi_hot(
    present: Sequence[Iterable[str]], task: str, labels: Sequence[str] | None = None
) -> pd.DataFrame:
    """Columns `task:label` (int8, 0 or 1), one row per entry of `present`, of `labels` or those of
    labels/`task`.csv. A label that is not among them: KeyError.
    """
    labels = codes(task) if labels is None else labels
    column = {label: i for i, label in enumerate(labels)}
    hot = np.zeros((len(present), len(labels)), np.int8)
    for row, labels_present in zip(hot, present):
        row[[column[label] for label in labels_present]] = 1
    return pd.DataFrame(hot, columns=[f"{task}:{label}" for label in labels])


@cache
def vocabulary(task: str) -> dict[str, frozenset[str]]:
    """Label of a task -> its codes, "SCP AFIB" or "SNOMED 164889003"; only labels that have one.

    >>> vocabulary("ptbxl_all")["AFIB"], vocabulary("georgia")["atrial flutter"]
    (frozenset({'SCP AFIB'}), frozenset({'SNOMED 164890007'}))
    """
    if task == "ptbxl_all":
        return {code: frozenset({f"SCP {code}"}) for code in codes(task)}
    if not (files("ecgbench.datasets") / "labels" / f"{task}.csv").is_file():
        return {}
    known = {row["code"]: row.get("snomed_code", "").split("|") for row in table(task)}
    return {label: frozenset(f"SNOMED {c}" for c in own if c) for label, own in known.items()}


@cache
def categories() -> dict[str, str]:
    """Label -> the category of its condition ("conduction disorder"), ours: of the PTB-XL codes and
    classes, and of the Cardio-Learning labels by their abbreviation or name. Normal has none.

    >>> categories()["ASMI"], categories()["atrial fibrillation"], "NORM" in categories()
    ('ischaemia & infarction', 'rhythm & ectopy', False)
    """
    known: dict[str, str] = {}
    for row in table("cardio_learning"):
        for names in (row["code"], row["name"]):
            known |= {name.strip(): row["category"] for name in names.split("|")}
    known |= {row["code"]: row["category"] for row in table("ptbxl_categories")}
    return {label: category for label, category in known.items() if category}
