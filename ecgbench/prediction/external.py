"""An external test: what the fits of a run predict for labelled recordings of another collection.

Nothing of the tested recordings is seen: heads, and the thresholds of flags, are those of the run.
The one exception says so: the intercept is the shift that would make the probabilities right here.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.text import enumerated, shortened
from ecgbench.data.imported import labels as tables
from ecgbench.data.imported import matching
from ecgbench.errors import BadSetting
from ecgbench.results.by_label import LEAST
from ecgbench.stats import calibration, operating
from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.clustered import Floats, Influence, Patients, share
from ecgbench.stats.components import Components
from ecgbench.stats.known import UNKNOWN

COLUMNS = [
    *("label", "here", "auroc", "auroc_low", "auroc_high"),
    *("sensitivity", "sensitivity_low", "sensitivity_high"),
    *("specificity", "specificity_low", "specificity_high"),
    *("brier", "brier_shifted", "intercept", "intercept_low", "intercept_high"),
    *("slope", "slope_low", "slope_high", "prevalence", "mean_probability"),
    *("records", "with_it", "patients", "note"),
]
UNDECIDED = "no threshold in the run for these leads"
Values = dict[str, Any]


def mapping(text: str | None) -> dict[str, str]:
    """Label of the run -> label of the table, of AFIB=A,SR=N.

    >>> mapping("AFIB=A, SR=N")
    {'AFIB': 'A', 'SR': 'N'}
    """
    pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    if odd := [one for one, sign, other in pairs if not (sign and one.strip() and other.strip())]:
        raise BadSetting(f"--map {text}: {odd[0]!r} is no pair; for example --map AFIB=A,SR=N")
    named = [one.strip() for one, _, _ in pairs]
    if twice := next((one for one in named if named.count(one) > 1), ""):
        raise BadSetting(f"--map {text}: {twice!r} stands there twice")
    return {one: other.strip() for one, (_, _, other) in zip(named, pairs)}


def labelled(file: Path, pairs: Mapping[str, str]) -> tables.Labels:
    """The table of labels in a file. BadSetting in one line where it is none, or has no label that
    `pairs` name.
    """
    with _options_of_an_import():
        known = tables.checked(file)
    if absent := [other for other in pairs.values() if other not in known.labels]:
        raise BadSetting(
            f"--map: {file.name} has no label {absent[0]!r}; it has {enumerated(known.labels)}"
        )
    return known


@contextmanager
def _options_of_an_import() -> Iterator[None]:
    """A BadSetting that advises an option of `ecgbench data import` says how to use it here."""
    try:
        yield
    except BadSetting as error:
        how = " (an option of ecgbench data import: import the recordings, then give --records "
        how += "NAME/card.toml --labels NAME/records.csv)"
        raise BadSetting(f"{error}{how if ' --' in str(error) else ''}") from None


def scored(predicted: pd.DataFrame, known: tables.Labels, pairs: Mapping[str, str]) -> pd.DataFrame:
    """COLUMNS, a row for each label of the run that the table has, under its own name or as `pairs`
    say. predicted: of `predict.predict`; known: of `labelled`. BadSetting in one line where table
    and recordings or labels do not meet.
    """
    labels = known.file
    columns = map(str, predicted)
    names = [c.removeprefix("probability:") for c in columns if c.startswith("probability:")]
    if lost := [label for label in pairs if label not in names]:
        there = shortened(enumerated(names), 200)
        raise BadSetting(f"--map {lost[0]}={pairs[lost[0]]}: the run predicts {there}")
    wanted = {n: pairs.get(n, n) for n in names if pairs.get(n, n) in known.labels}
    if not wanted:
        raise BadSetting(
            f"{labels.name} has {enumerated(known.labels)}, and the run predicts "
            f"{shortened(enumerated(names), 200)}; say which are the same: --map "
            f"{names[0]}={known.labels[0]}"
        )
    table = known.table
    lines = [f"{labels.name}, line {line}" for line in table.index]
    with _options_of_an_import():
        files = matching.matched(table["record"].tolist(), lines, predicted["file"].tolist(), True)
    found = predicted.set_index("file").reindex(files)
    usable = (found["reason"] == "").to_numpy()
    whose = table["patient"] if known.patients_known else table["record"]
    rows = [
        _row(name, other, found[usable], table[usable], whose[usable].to_numpy())
        for name, other in wanted.items()
    ]
    made = pd.DataFrame(rows, columns=COLUMNS)
    made.attrs["left_out"] = int(len(table) - usable.sum())
    made.attrs["patients_known"] = known.patients_known
    return made


def _row(
    name: str, other: str, there: pd.DataFrame, table: pd.DataFrame, whose: np.ndarray
) -> Values:
    target = table[other].to_numpy()
    known = target != UNKNOWN
    has, p = target[known] == 1, there[f"probability:{name}"].to_numpy(float)[known]
    patients = Patients.of(whose[known])
    made: Values = {"label": name, "here": other, "records": len(has), "note": ""}
    made |= {"with_it": int(has.sum()), "patients": patients.count}
    if has.all() or not has.any():
        return made | {"note": f"{'all' if has.all() else 'none'} of the records have it"}
    few = min(int(patients.number(one)) for one in (has, ~has))
    if few < LEAST:
        made["note"] = f"{few} patients of the smaller class: intervals are rough below {LEAST}"
    made |= _ranking(has, p, whose[known]) | _probabilities(has, p, patients)
    flags = there[f"flag:{name}"][known]
    if flags.isna().any():
        made["note"] = "; ".join(filter(None, [made["note"], UNDECIDED]))
        return made
    flagged = flags.to_numpy(float) > 0.5
    found = operating.rates(has, flagged, patients)
    return made | _ends("sensitivity", found[0], True) | _ends("specificity", found[1], True)


def _ranking(has: np.ndarray, p: Floats, whose: np.ndarray) -> Values:
    target = has.astype(np.int8)[:, None]
    placed = placements(target, wins(target, p[:, None]))
    made = Components(target, whose, placed[None])
    low, high = made.interval(0)
    return {"auroc": float(made.values[0]), "auroc_low": low, "auroc_high": high}


def _probabilities(has: np.ndarray, p: Floats, patients: Patients) -> Values:
    every = np.ones(len(has), bool)
    shift = calibration.intercept(has, p, patients)
    after = 1 / (1 + np.exp(-(calibration.logits(p) + float(shift.value))))
    return {
        "brier": float(share(calibration.squared_error(has, p), every, patients).value),
        "brier_shifted": float(calibration.squared_error(has, after).mean()),
        **_ends("intercept", shift),
        **_ends("slope", calibration.slope(has, p, patients)),
        "prevalence": float(has.mean()),
        "mean_probability": float(p.mean()),
    }


def _ends(name: str, found: Influence, is_share: bool = False) -> Values:
    low, high = found.share_interval() if is_share else found.interval()
    return {name: float(found.value), f"{name}_low": float(low), f"{name}_high": float(high)}


def lines(found: pd.DataFrame) -> list[str]:
    """What a terminal says of a test."""
    who = "patients" if found.attrs["patients_known"] else "recordings"
    made = []
    for row in found.to_dict("records"):
        label = row["label"] if row["label"] == row["here"] else f"{row['label']} ({row['here']})"
        counts = f"{row['with_it']:,} of {row['records']:,} recordings have it"
        if row["auroc"] != row["auroc"]:
            made.append(f"{label}: {row['note']}")
            continue
        text = f"{label}: AUROC {_points(row, 'auroc')}, {counts}"
        if row["sensitivity"] == row["sensitivity"]:
            text += f"; flags {_points(row, 'sensitivity')} of 100 with it, and "
            wrong = {e: 1 - row[f"specificity{o}"] for e, o in _OPPOSITE.items()}
            low, high = wrong["_low"], wrong["_high"]
            text += f"{100 * wrong['']:.0f} [{100 * low:.0f}, {100 * high:.0f}] of 100 without"
        text += f"; {row['note']}" if row["note"] else ""
        made.append(text)
    if who == "recordings":
        made.append("no patients are named: with several recordings of one, intervals are narrow")
    if left_out := found.attrs["left_out"]:
        made.append(f"{left_out:,} recordings of the table without a probability are left out")
    return made


_OPPOSITE = {"": "", "_low": "_high", "_high": "_low"}
"""End of an interval of a share -> that of the rest."""


def _points(row: Mapping[Any, Any], name: str) -> str:
    value, low, high = (100 * row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]" if low == low else f"{value:.1f}"
