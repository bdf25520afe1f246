"""Headlines of a run again without the models that met the source of what they are tested on."""

from collections.abc import Mapping

import pandas as pd

from ecgbench.core.cells import NONE
from ecgbench.data import contamination as corpora
from ecgbench.reports._facts import columns, titles_of
from ecgbench.reports._means import at_setting, settings
from ecgbench.reports._scores import ranked
from ecgbench.reports._text import points, signed, signed_bracket
from ecgbench.results.study import Study

MET = ("equal", "contains", "part", "overlaps")


def met_by(study: Study) -> dict[str, set[str]]:
    """Task -> the models that met a source of its records. Weights of which nothing is said count
    as not met; the notes of the page name them.
    """
    data = {d.name: d for d in study.datasets}
    found: dict[str, set[str]] = {}
    for task in study.tasks:
        source = data.get(task.dataset)
        found[task.name] = {
            m.name
            for m in study.models
            if source
            and m.weights not in ("random", NONE)
            and corpora.met(m.corpora, source.name, source.title)[0] in MET
        }
    return found


def again(study: Study) -> list[dict[str, str]]:
    """The best of each task and lead setting, and the differences of means over datasets, of all
    models and again without those that met the source; only where a model that met it has a part.

    about: a task, or the mean over datasets; leads; all_models and without: the statement of all
    models, and of the others; changes: what becomes of it, or ""; left_out: models or datasets.
    """
    met = met_by(study)
    return [*_best(study, met), *_across(study, met)]


def _best(study: Study, met: Mapping[str, set[str]]) -> list[dict[str, str]]:
    rows, made, titles = ranked(study)[study.metric], [], titles_of(study)
    rows = rows[rows["value"].notna() & ~rows["untrained"]]
    rows = rows.sort_values("value", ascending=study.sign < 0, kind="stable")
    for _, mine in rows.groupby(["place", "setting"]):
        task, leads = mine[["task", "leads"]].iloc[0]
        gone = mine["model"].isin(met.get(task, set()))
        if not gone.any():
            continue
        rest, changes = mine[~gone], ""
        if rest.empty:
            changes = "no model is left"
        elif rest["head"].iloc[0] != mine["head"].iloc[0]:
            changes = "another model is the best"
        made.append(
            {
                "about": titles[task],
                "leads": leads,
                "all_models": _first(study, mine),
                "without": _first(study, rest) if len(rest) else "",
                "changes": changes,
                "left_out": ", ".join(columns(study)[at].label for at in mine.loc[gone, "head"]),
            }
        )
    return made


def _first(study: Study, order: pd.DataFrame) -> str:
    best, *others = (columns(study)[at].label for at in order["head"])
    values = list(order["value"])
    text = f"{best} is the best, {points(values[0])}"
    return text + f", {signed(abs(values[0] - values[1]))} to {others[0]}" if others else text


def _across(study: Study, met: Mapping[str, set[str]]) -> list[dict[str, str]]:
    """Every difference of two means over datasets, over those that neither of the two has met."""
    made, dataset = [], {t.name: t.dataset for t in study.tasks}
    for leads in settings(study):
        whole = at_setting(study, leads)
        if whole is None or len(whole.tasks) < 2:
            continue
        for pair in whole.pairs:
            two = {pair.better.model, pair.other.model}
            left = [t for t in whole.tasks if not two & met.get(t, set())]
            if len(left) == len(whole.tasks):
                continue
            gone = dict.fromkeys(dataset[t] for t in whole.tasks if t not in left)
            part = at_setting(study, leads, left) if left else None
            without, changes = "", "no dataset is left"
            if part and {pair.better, pair.other} <= set(part.heads):
                rest = part.pair(pair.better, pair.other)
                way = 1 if rest.better == pair.better else -1
                ends = [way * rest.bounds.low, way * rest.bounds.high]
                value = way * rest.estimate.value
                without = f"{signed(value)} {signed_bracket(*sorted(ends))}"
                changes = "the sign changes" if value * pair.estimate.value < 0 else ""
            both = f"{signed(pair.estimate.value)} {signed_bracket(*pair.bounds)}"
            made.append(
                {
                    "about": "Mean over datasets",
                    "leads": leads,
                    "all_models": f"{pair.better.label} less {pair.other.label}: {both}",
                    "without": without,
                    "changes": changes,
                    "left_out": ", ".join(gone),
                }
            )
    return made


def words(study: Study) -> str:
    """Of runs in which no model met a source."""
    known = [m for m in study.models if m.weights not in ("random", NONE)]
    if not known:
        return "No model of this run was pre-trained, so none met the source of a task."
    return "No model of this run is known to have met the source of a task."
