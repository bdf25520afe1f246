"""What may be said of each task, label, lead setting and model of a run: its verdicts.

Everything that the top of a page and the end of a run say is read from it, and nothing else
computes a verdict. All of it is by AUROC, since of it alone it is known what chance gives.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.keys import grouped
from ecgbench.results import controls, precompute
from ecgbench.results.compare import LEAST_PATIENTS
from ecgbench.results.joint import Entry, Joint, joint, why_missing
from ecgbench.results.non_inferiority import OWN, compared, within
from ecgbench.results.operating import FROZEN, KEPT, Operating, Way
from ecgbench.results.operating import OWN as CROSS_FITTED
from ecgbench.results.questions import answers
from ecgbench.results.study import AUROC, FULL, Run, by_auroc, once
from ecgbench.stats.components import Estimate
from ecgbench.stats.paired import holm

CHANCE, MACRO = 0.5, "macro"
LEAST_EACH = 5
"""Patients with a label, and without it, below which nothing is said of chance."""
ABOVE, BELOW, NOT_SHOWN, TOO_FEW = "above", "below", "not shown", "too few"
NOT_KNOWN = "not known"
"""Of a label that the test set or a classifier does not know."""
KEEPS, LOSES, CANNOT = "keeps", "loses", "cannot be told"
AGE_SEX = "age_sex"
"""The control that predicts from age and sex."""
VALIDATION = "validation records of these leads"
TESTED = "test records, by cross-fitting"
PAIRED = ("against_simple", "against_untrained")
KEPT_ENDS = ("kept", "kept_low", "kept_high")
COLUMNS = (
    *("task", "label", "leads", "model", "policy", "weights"),
    *("auroc", "low", "high", "selected_of", "chance"),
    *("patients", "patients_with", "patients_without", "records_with", "counted"),
    *("simple", *(f"against_simple{end}" for end in ("", "_low", "_high", "_p_holm"))),
    *("untrained", *(f"against_untrained{end}" for end in ("", "_low", "_high", "_p_holm"))),
    *("against_twelve", "against_twelve_low", "against_twelve_high"),
    *("kept", "kept_low", "kept_high", "margin", "verdict", "why"),
    *("found_at_95_specificity", "found_low", "found_high"),
    *("false_alarms_at_95_sensitivity", "false_alarms_low", "false_alarms_high"),
    *("threshold_from", "n_leads", "named"),
)
"""Of verdicts.csv; docs/reference/columns.md says what each is."""
COUNTS = ("selected_of", "patients", "patients_with", "patients_without", "records_with")
Values = dict[str, Any]
Key = tuple[str, ...]
"""Model, policy, leads as typed, label."""


@once
def verdicts(study: Run) -> pd.DataFrame:
    """COLUMNS: for each row of the main table that has a number the macro, then each label."""
    own = by_auroc(study)
    main = own.main[own.main["metric"] == AUROC]
    main = main[(main["status"] == "ok") & main["value"].notna()]
    if main.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    of_labels = own.by_label[own.by_label["metric"] == AUROC]
    labels = grouped(of_labels.to_dict("records"), lambda r: _names(r))
    found = _paired(own, main)
    flags = _thresholds(own)
    rows = []
    for row in main.to_dict("records"):
        for one in _labels(row, labels.get(_names(row), [])):
            names = (row["model"], row["policy"], row["leads"], one["label"])
            one |= found.get((row["task"], *names), {}) | flags.get((row["task"], *names), {})
            word = chance(one)
            if word == TOO_FEW and one.get("verdict"):
                one |= {"verdict": CANNOT, "why": one["why"] or "too few patients"}
            rows.append(one | {"chance": word, "counted": _counted(own, row["task"])})
    table = pd.DataFrame(_corrected(rows), columns=list(COLUMNS))
    return table.astype(dict.fromkeys(COUNTS, "Int64"))


def _names(row: Mapping[Any, Any]) -> Key:
    return tuple(row[n] for n in ("task", "model", "policy", "leads"))


def _labels(row: Mapping[Any, Any], labels: Sequence[Mapping[Any, Any]]) -> Iterator[Values]:
    """The macro of a row of the main table, then its labels, the most frequent first."""
    names = ("task", "leads", "model", "policy", "weights", "n_leads", "named")
    about = {n: row[n] for n in names}
    ends = {n: row[n] for n in ("low", "high")}
    yield about | {"label": MACRO, "auroc": row["value"], **ends, "patients": row["n_patients"]}
    for one in sorted(labels, key=lambda one: -one["patients_with"]):
        yield (
            about
            | {n: one[n] for n in ("label", "low", "high", "patients_with", "patients_without")}
            | {"auroc": one["value"], "records_with": one["positives"]}
            | {"patients": one["patients_with"] + one["patients_without"]}
        )


def chance(row: Mapping[str, Any]) -> str:
    """Whether the interval of a row lies above 0.5, below it, or neither; or that there are fewer
    than LEAST_PATIENTS patients, or than LEAST_EACH with or without the label, or none at all.
    """
    if row["patients"] == 0:
        return NOT_KNOWN
    least = min(row.get(name, LEAST_EACH) for name in ("patients_with", "patients_without"))
    if not row["patients"] >= LEAST_PATIENTS or least < LEAST_EACH:
        return TOO_FEW
    return ABOVE if row["low"] > CHANCE else BELOW if row["high"] < CHANCE else NOT_SHOWN


def _counted(study: Run, task: str) -> str:
    data = {t.name: t.dataset for t in study.tasks}.get(task)
    known = all(d.patients_known for d in study.datasets if d.name == data)
    return "patients" if known else "recordings"


def _corrected(rows: list[Values]) -> list[Values]:
    """p after Holm: of macros over the models of a task and lead setting, of labels over those of
    their row.
    """
    for name in PAIRED:
        p = f"{name}_p_holm"

        def family(row: Values) -> tuple[str, ...]:
            own = () if row["label"] == MACRO else (row["model"], row["policy"])
            return (row["task"], row["leads"], *own)

        for own in grouped([row for row in rows if p in row], family).values():
            for row, value in zip(own, holm([row[p] for row in own]).tolist()):
                row[p] = value
    return rows


# in pairs


def _paired(study: Run, main: pd.DataFrame) -> dict[Key, Values]:
    """Task, then `Key` -> what is said of it in comparison with others."""
    if study.scorer is None:
        return {}
    made: dict[Key, Values] = {}
    pieces = []
    for (task, _), own in main.groupby(["task", "leads"], sort=False):
        order = own.sort_values("value", ascending=False, kind="stable")
        names = [Entry(*row) for row in order[["model", "policy", "leads"]].itertuples(index=False)]
        pieces.append(partial(_at_setting, study, str(task), names))
    for (task, model, policy), own in main.groupby(["task", "model", "policy"], sort=False):
        settings = own["leads"].tolist()
        if FULL in settings and len(settings) > 1:
            fewer = [Entry(str(model), str(policy), s) for s in settings if s != FULL]
            pieces.append(partial(_against_twelve, study, str(task), fewer))
    called = "verdicts", "comparisons"
    for found in precompute.each(study.scorer, study.stage, called, pieces):
        for key, values in found.items():
            made.setdefault(key, {}).update(values)
    for row in compared(study).to_dict("records"):
        if row["against"] == OWN:
            key = (row["task"], row["model"], row["policy"], row["leads"], MACRO)
            made.setdefault(key, {}).update(_verdict(study, row))
    for row in controls.checked(study).to_dict("records"):
        if row["control"] == AGE_SEX:
            key = (row["task"], row["model"], row["policy"], row["leads"], MACRO)
            _against_age_and_sex(made.setdefault(key, {}), row)
    return made


def _together(study: Run, task: str, entries: Sequence[Entry]) -> Joint | None:
    """Those that can be compared with the first; None of one alone."""
    first = entries[0]
    able = [e for e in entries if not why_missing(study, [first, e], [task])]
    return joint(study, able, [task]) if able else None


def _at_setting(study: Run, task: str, entries: Sequence[Entry]) -> dict[Key, Values]:
    """Of one lead setting, the best first: which was chosen of how many, and differences to the
    best simple and the best untrained one.
    """
    parameters = {model.name: model.parameters for model in study.models}
    trained = [e for e in entries if (e.model, e.policy) not in study.untrained]
    competing = trained or list(entries)
    simple = next((e for e in entries if parameters.get(e.model) == 0), None)
    untrained = next((e for e in entries if e not in trained), None) if trained else None
    together = _together(study, task, [competing[0], *(e for e in entries if e != competing[0])])
    if together is None:
        return {}
    there = [e for e in competing if e in together.entries]
    made: dict[Key, Values] = {}
    for label, low, high in _simultaneous(together, there):
        made[task, *there[0], label] = {"low": low, "high": high, "selected_of": len(there)}
    for name, other in zip(PAIRED, (simple, untrained)):
        if other is None or other not in together.entries:
            continue
        columns = (name, f"{name}_low", f"{name}_high", f"{name}_p_holm")
        for e in (e for e in there if e != other):
            for label, *values in _differences(together, together.less(e, other)):
                known = made.setdefault((task, *e, label), {})
                known |= {name.removeprefix("against_"): other.model, **dict(zip(columns, values))}
    return made


def _simultaneous(together: Joint, competing: Sequence[Entry]) -> list[list[Any]]:
    """Of the best of several, its macro and each label: ends of the intervals that hold for all of
    them at once (max-t); nothing of one.
    """
    if len(competing) < 2:
        return []
    entries = together.entries
    each = np.eye(len(entries))[[entries.index(e) for e in competing]]
    drawn = together.studentised(each)
    t = float(np.quantile(np.abs(drawn).max(axis=1), 0.95))
    (group,) = together.groups
    found = together.contrast(each[0])
    ends = [[MACRO, *found.as_share(max(t, found.t))]]
    if group.drawn is None:
        at, placed = entries.index(competing[0]), group.placed
        labels = enumerate(group.label_names)
        intervals = [[name, *placed.label_interval(at, k, t)] for k, name in labels]
        of_one = len(placed.names) == 1 and not group.offset
        ends = [[MACRO, *intervals[0][1:]] if of_one else ends[0], *intervals]
    return ends


def _differences(together: Joint, weights: np.ndarray) -> Iterator[list[Any]]:
    """Label, difference, ends of its interval and p: of the macro, then of each label."""
    (group,) = together.groups
    for label, e in {MACRO: together.contrast(weights), **group.by_label(weights)}.items():
        yield [label, e.value, *e.as_difference(), e.p]


def _against_age_and_sex(known: Values, row: Mapping[Any, Any]) -> None:
    """The control stands for the simple models where it scores higher than they do."""
    nearer = known.get("against_simple", np.inf)
    if np.isfinite(row["difference"]) and row["difference"] < nearer:
        ends = {f"against_simple{end}": row[f"difference{end}"] for end in ("_low", "_high")}
        known |= {"simple": "age and sex", "against_simple": row["difference"], **ends}
        known["against_simple_p_holm"] = np.nan


# fewer leads against twelve


def _against_twelve(study: Run, task: str, fewer: Sequence[Entry]) -> dict[Key, Values]:
    """Of one model, each setting against its own twelve leads: what skill is kept, and differences
    of labels.
    """
    full = fewer[0]._replace(leads=FULL)
    together = _together(study, task, [full, *fewer])
    if together is None:
        return {}
    made: dict[Key, Values] = {}
    (group,) = together.groups
    one = np.eye(len(together.entries))
    b = group.by_label(one[together.entries.index(full)])
    for e in together.entries[1:]:
        made[task, *e, MACRO] = dict(zip(KEPT_ENDS, together.share(e, full, CHANCE)))
        a = group.by_label(one[together.entries.index(e)])
        for label, less in group.by_label(together.less(e, full)).items():
            ends = [less.value, *less.as_difference(), b[label].as_share().low]
            row: Values = {"note": "", "lost_label": ""}
            row |= zip(("difference", "low", "high", "low_full"), ends)
            kept = dict(zip(KEPT_ENDS, _kept(a[label], b[label], less)))
            made[task, *e, label] = kept | _verdict(study, row)
    return made


def _kept(a: Estimate, b: Estimate, less: Estimate) -> tuple[float, float, float]:
    """Skill above chance of a as a share of that of b with Fieller's interval, from their variances
    and that of their difference; NaN where b's own interval reaches chance, or there is no end.
    """
    t, x, y = less.t, a.value - CHANCE, b.value - CHANCE
    both = (a.variance + b.variance - less.variance) / 2
    square = y * y - t * t * b.variance
    middle = x * y - t * t * both
    rest = middle**2 - square * (x * x - t * t * a.variance)
    if not (y > 0 and square > 0 and rest >= 0):
        return float("nan"), float("nan"), float("nan")
    half = float(np.sqrt(rest))
    return x / y, (middle - half) / square, (middle + half) / square


def _verdict(study: Run, row: Mapping[Any, Any]) -> Values:
    """By the middle margin, or the only one: a row of `compared`, or one like it of a label."""
    margin = study.options.margins[:2][-1]
    word = within(dict(row), margin, row["low_full"] - CHANCE)
    why = {
        "not tested": row["note"] or "no interval",
        "no verdict": "not surely well above chance at twelve leads",
        "cancelled": f"the label {row['lost_label']} has surely lost much",
    }
    return {
        "against_twelve": row["difference"],
        "against_twelve_low": row["low"],
        "against_twelve_high": row["high"],
        "margin": margin,
        "verdict": {"yes": KEEPS, "no": LOSES}.get(word, CANNOT),
        "why": why.get(word, ""),
    }


# at thresholds


def _thresholds(study: Run) -> dict[Key, Values]:
    """Task, then `Key` -> what is found at a stated rate of false alarms, and the reverse."""
    if study.scorer is None or not study.results:
        return {}
    made: dict[Key, Values] = {}
    for names, of_row in answers(study, Operating).items():
        for source, words in _sources(study, names):
            found = [of_row.numbers[Way(kept, source).key] for kept in KEPT]
            for place, label in enumerate([MACRO, *of_row.labels["label"]]):
                values = _rates(found, place)
                if (*names, label) not in made and values:
                    made[*names, label] = values | {"threshold_from": words}
    return made


def _sources(study: Run, names: tuple[str, str, str, str]) -> Sequence[tuple[str, str]]:
    """Where thresholds are taken from, the most wanted first: never from the scored records, nor at
    other leads, where they have other false alarms than the sentence says.
    """
    shown = any(r.cell.fit.shown for r in study.finished[names])
    few = all(data.fewer_leads == data.records for data in study.datasets)
    if shown or few or names[-1] == FULL:
        return [(FROZEN, VALIDATION), (CROSS_FITTED, TESTED)]
    return [(CROSS_FITTED, TESTED)]


def _rates(found: Sequence[Mapping[str, Sequence[float | None]]], place: int) -> Values:
    """Of the two ways that a threshold is set; nothing where neither has a number."""
    at_specificity, at_sensitivity = found

    def of(columns: Mapping[str, Sequence[float | None]], name: str) -> list[float]:
        ends = [columns.get(f"{name}{end}") for end in ("", "_low", "_high")]
        return np.array([one and one[place] for one in ends], np.float64).tolist()

    value, low, high = of(at_specificity, "sensitivity")
    clear, clear_low, clear_high = of(at_sensitivity, "specificity")
    if np.isnan(value) and np.isnan(clear):
        return {}
    return {
        "found_at_95_specificity": value,
        "found_low": low,
        "found_high": high,
        "false_alarms_at_95_sensitivity": 1 - clear,
        "false_alarms_low": 1 - clear_high,
        "false_alarms_high": 1 - clear_low,
    }
