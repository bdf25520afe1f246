"""Rows of cells beside one another over the same patients: scores and differences, of the macro and
of every label. What robustness, the gap budget and the curve over labelled patients are made of.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cards.cell import Absent
from ecgbench.results.compare import few, weak
from ecgbench.results.evidence import Contrasts, Rows, by_fold, over
from ecgbench.results.study import Run
from ecgbench.stats.components import Interval
from ecgbench.study.scores import MACRO

Values = dict[str, Any]


def with_leads(own: Run, rows: pd.DataFrame) -> pd.DataFrame:
    """With n_leads and named, of the lead settings of a run."""
    known = own.main.drop_duplicates("leads").set_index("leads")
    for name in ("n_leads", "named"):
        rows[name] = rows["leads"].map(known[name])
    return rows


def paired(
    rows: Rows, absent: Absent, values: Sequence[str], differences: Mapping[str, np.ndarray]
) -> dict[str, Values]:
    """The macro, then each label -> NAME, NAME_low and NAME_high of each value and difference, and
    n_patients and n_records of the last row, and p of a difference where there are enough patients;
    the macro also a reason to doubt the first difference.

    values: a name for each row. differences: name -> weights (row,).
    """
    of = over(by_fold(rows, absent))
    found = Contrasts({"": rows}, {"": 1.0}, of.components, of.offset)
    labels = list(map(str, of.components.names))
    made: dict[str, Values] = {label: {"label": label} for label in (MACRO, *labels)}
    for at, (name, weights) in enumerate(zip(values, np.eye(len(rows)))):
        made[MACRO] |= _ends(name, found.of(weights).value, found.interval(at))
        for label, (value, ends) in zip(labels, found.labels(at)):
            made[label] |= _ends(name, value, ends)
    for name, weights in differences.items():
        every = [found.of(weights), *found.by_label(weights)]
        for row, change in zip(made.values(), every):
            row |= _ends(name, change.value, change.as_difference()) | {"p": change.p}
    for label in labels:
        with_it, without, _, known = of.counts[label]
        made[label] |= {"n_patients": with_it + without, "n_records": known}
        if differences and few(with_it + without):
            made[label]["p"] = np.nan
    for name in ("n_patients", "n_records"):
        made[MACRO][name] = sum({c.cell.fit.fold: getattr(c, name) for c in rows[-1]}.values())
    why = few(made[MACRO]["n_patients"])
    if differences:
        first = found.of(next(iter(differences.values())))
        carrier = f"the label {labels[first.label]}" if len(labels) > 2 else ""
        why = why or weak(first.df, first.share if carrier else np.nan, carrier)
        made[MACRO]["p"] = np.nan if why else first.p
    made[MACRO]["reason"] = why
    return made


def _ends(name: str, value: float, ends: Interval | tuple[float, float]) -> Values:
    return {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
