"""What a page opens with, and what a run prints at its end: the answer to what was asked, in one of
three forms; what voids its numbers stands before it.

Own recordings, or named leads and one trained model: a line for each diagnosis. Several trained
models: which is best. One model and several lead settings: what fewer leads keep. All numbers are
those of the verdicts (results/verdicts.py) and of the comparison with the second best.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from ecgbench.cards.dataset import PATIENTS_UNKNOWN
from ecgbench.core.text import counted, enumerated
from ecgbench.data import contamination
from ecgbench.reports._best import CHANCE, CLEAR, EQUAL, UNTESTED, best_of
from ecgbench.reports._facts import OWN_WEIGHTS, PENDING, gaps, heads_of, setting_words, tasks
from ecgbench.reports._scores import ranked
from ecgbench.reports._section import Figure, Opening, records
from ecgbench.reports._text import points, signed, signed_bracket, sure
from ecgbench.reports.labels import full_names
from ecgbench.reports.lead_curve import UNDEFINED, curve, draw
from ecgbench.reports.robustness import title_of
from ecgbench.results.compare import LEAST_PATIENTS
from ecgbench.results.facts import DatasetFacts
from ecgbench.results.robustness import robustness
from ecgbench.results.study import FULL, Run, by_auroc
from ecgbench.results.verdicts import ABOVE, BELOW, LEAST_EACH, MACRO, NOT_KNOWN, TOO_FEW, verdicts

MOST = 5
"""Diagnoses that have a line; the others are counted."""
UNSURE = "Not shown to be better than a coin"
Row = Mapping[str, Any]
Line = tuple[str, str]
"""What is said, and what supports it."""


def opening(study: Run) -> Opening:
    """Of a study; its figure is the lead curve of the task that it speaks of."""
    study = by_auroc(study)
    rows = verdicts(study)
    if rows.empty:
        return Opening(lines=[(_nothing(study), "")])
    real = rows[rows["task"].isin(study.real_tasks)]
    rows = real if len(real) else rows
    rows = rows[rows["task"] == rows["task"].iloc[0]]
    lines, shown = _answer(study, rows)
    lines += _worst(study, shown)
    together = ""
    if (several := shown["selected_of"] or 1) > 1:
        together = f", which hold for all {several} compared at once; in the tables each by itself"
    about = [_about(shown), f"In brackets: 95 % intervals{together}."]
    if any(UNSURE in rest for _, rest in lines):
        about.append(f"Half the ± takes about four times as many {shown['counted']}.")
    drawn, several = curve(study, task=shown["task"]), len(tasks(study)) > 1
    figure = Figure(
        name="opening_curve" if several else "lead_curve",
        draw=partial(draw, drawn),
        size=(5.6, 3.8) if several else drawn.size,
        caption=f"{_titled(study, shown['task'])}: macro {drawn.metric.title} × 100 by leads. "
        f"Bars: 95 % intervals over {shown['counted']}.",
    )
    return Opening(
        before=" ".join(_before(study, shown)),
        lines=lines,
        about=" ".join(about),
        figure=figure if drawn.rows["leads"].nunique() > 1 else None,
        more="lead_curve" if several else "",
    )


def spoken(study: Run) -> list[str]:
    """The same as lines of text."""
    made = opening(study)
    lines = [f"{head}{rest}" for head, rest in made.lines]
    return [*filter(None, [made.before]), *lines, *filter(None, [made.about])]


def _answer(study: Run, rows: pd.DataFrame) -> tuple[list[Line], Row]:
    """The lines, and the row that they speak of. rows: verdicts of one task."""
    macro = rows[rows["label"] == MACRO]
    leads = min(records(macro), key=lambda row: (not row["named"], row["n_leads"]))["leads"]
    heads = heads_of(study)
    trained = [not heads[names].untrained for names in zip(macro["model"], macro["policy"])]
    macro = macro[trained] if any(trained) else macro
    there = macro[macro["leads"] == leads]
    chosen = there if len(there) else macro[macro["leads"] == macro["leads"].iloc[0]]
    shown = records(chosen.loc[[chosen["auroc"].idxmax()]])[0]
    # what is compared with none is not spoken of beside what is
    best = best_of(study).set_index(["task", "leads"])[["best_model", "best_policy"]]
    if (here := (shown["task"], shown["leads"])) in best.index:
        own = chosen[["model", "policy"]] == best.loc[here].tolist()
        shown = records(chosen[own.all(axis=1)])[0]
    learned = {
        names for names in zip(macro["model"], macro["policy"]) if heads[names].parameters != 0
    }
    labels = _of(rows, shown)
    labels = labels[labels["label"] != MACRO]
    enough = labels[~labels["chance"].isin([TOO_FEW, NOT_KNOWN])]
    data = _data(study, shown)
    own = data is not None and data.licence == "own recordings"
    if len(enough) and (own or (shown["named"] and len(learned) < 2)):
        return list(_by_diagnosis(study, shown, (enough, labels), rows)), shown
    if len(learned) > 1:
        return [_best(study, shown)], shown
    return [_kept(study, shown, macro)], shown


def _of(rows: pd.DataFrame, shown: Row) -> pd.DataFrame:
    """The verdicts of the same model, policy and lead setting."""
    names = ["model", "policy", "leads"]
    return rows[(rows[names] == [shown[n] for n in names]).all(axis=1)]


def _data(study: Run, shown: Row) -> DatasetFacts | None:
    of = {task.name: task.dataset for task in study.tasks}.get(shown["task"])
    return next((d for d in study.datasets if d.name == of), None)


def _titled(study: Run, task: str) -> str:
    return next(t.title for t in tasks(study) if t.task == task)


def _where(typed: str) -> str:
    """`lead I`, `leads I+II`, `one random lead`, `twelve leads`."""
    words = {FULL: "twelve leads", "1": "one random lead"}
    return words.get(typed) or setting_words(typed)


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]


def _who(study: Run, row: Row) -> str:
    """A column; whose weights are random says so, of own ones stands before it."""
    head = heads_of(study)[row["model"], row["policy"]]
    random = " (random weights)" if row["weights"] == "random" else ""
    return f"{head.label.removesuffix(OWN_WEIGHTS)}{random}"


# a line for each diagnosis


def _by_diagnosis(
    study: Run, shown: Row, labels: tuple[pd.DataFrame, pd.DataFrame], rows: pd.DataFrame
) -> Iterator[Line]:
    """labels: those with enough patients, and all."""
    several = len(set(zip(rows["model"], rows["policy"]))) > 1
    by = f" by {_who(study, shown)}" if several else ""
    names, (enough, every) = full_names(shown["task"]), labels
    for row in records(enough)[:MOST]:
        simple = rows[(rows["model"] == row["simple"]) & (rows["leads"] == row["leads"])]
        simple = simple[simple["label"] == row["label"]]
        against = f"; {_simple(study, simple)}" if len(simple) else ""
        score = f"AUROC {sure(row['auroc'], row['low'], row['high'])}{against}."
        head = f"{names.get(row['label'], row['label'])} from {_where(row['leads'])}{by}: "
        yield head, " ".join(filter(None, [_found(row), score, _doubt(row)]))
    unknown = int((every["chance"] == NOT_KNOWN).sum())
    more, few = max(len(enough) - MOST, 0), len(every) - len(enough) - unknown
    rest = [f"{more} further in verdicts.csv"] if more else []
    rest += [f"{few} with too few {shown['counted']} to say anything"] if few else []
    to = " or to the classifier" * (study.classes(shown["task"], shown["model"]) is not None)
    rest += [f"{unknown} not known of any of the {shown['counted']}{to}"] if unknown else []
    if rest:
        yield "", f"Diagnoses: {'; '.join(rest)}."


def _simple(study: Run, row: pd.DataFrame) -> str:
    one = records(row)[0]
    title = heads_of(study)[one["model"], one["policy"]].title
    return f"{title}, in which nothing is learned, has {points(one['auroc'])}"


def _found(row: Row) -> str:
    """What is found at a threshold that is set for 5 false alarms in 100, and what one that is set
    to find 95 in 100 costs.
    """
    said = []
    if (found := row["found_at_95_specificity"]) is not None:
        number, once = row["records_with"], row["records_with"] == row["patients_with"]
        of = f"{number} {row['counted']}" if once else f"{number} recordings"
        low, high = (points(row[f"found_{end}"], 0) for end in ("low", "high"))
        reach = f"at most {high} in 100" if found == 0 else f"{low} to {high} in 100"
        said.append(
            f"with a threshold set for 5 false alarms in 100 it finds {round(found * number)} of "
            f"{of} with it ({reach})"
        )
    if (alarms := row["false_alarms_at_95_sensitivity"]) is not None:
        said.append(f"set to find 95 in 100 it also flags {points(alarms, 0)} of 100 others")
    if not said:
        return "no threshold can be set, as there are too few records."
    return f"{'; '.join(said)}."


def _doubt(row: Row) -> str:
    """What an interval does not show."""
    if row["chance"] == BELOW:
        return "That is worse than a coin: it misleads at these leads."
    if row["chance"] == ABOVE or row["low"] is None:
        return ""
    if row["chance"] == TOO_FEW:
        why = f"fewer than {LEAST_PATIENTS}, or than {LEAST_EACH} with or without it"
        return f"Too few {row['counted']} for a verdict ({why})."
    half = points((row["high"] - row["low"]) / 2, 0)
    return f"{UNSURE} (±{half} points)."


# which is best


def _best(study: Run, shown: Row) -> Line:
    """Of several trained models: with these leads, and with twelve."""
    found = {row["leads"]: row for row in records(best_of(study)) if row["task"] == shown["task"]}
    on = f" on {_titled(study, shown['task'])}" if len(tasks(study)) > 1 else ""
    where, who = _where(shown["leads"]), _who(study, shown)
    score = sure(shown["auroc"], shown["low"], shown["high"])
    here = found.get(shown["leads"])
    if here is None:
        return f"With {where}{on}, {who} has AUROC {score}. ", _doubt(shown)
    head = f"With {where}{on}, no model is shown to be best: "
    if here["verdict"] == CLEAR:
        head, who = f"With {where}{on}, {who} {_is_best(study, here)}: ", "it"
    full = found.get(FULL) if shown["leads"] != FULL else None
    rest = f"{who} has AUROC {score}, {_ahead(study, here)}"
    if full is not None:
        rest += f"; with twelve leads {_at_twelve(study, full)}"
    return head, " ".join(filter(None, [f"{rest}.", _doubt(shown)]))


def _is_best(study: Run, row: Row) -> str:
    rows = ranked(study)[study.metric]
    there = (rows["task"] == row["task"]) & (rows["leads"] == row["leads"])
    return "is best" + " of those compared" * bool(rows.loc[there, "alone"].any())


def _ahead(study: Run, row: Row) -> str:
    """How far the best is ahead of the second."""
    second = heads_of(study)[row["second_model"], row["second_policy"]].label
    second = second.removesuffix(OWN_WEIGHTS)
    if row["verdict"] == EQUAL:
        return f"the same as {second}"
    ahead = f"{points(row['difference'])} {signed_bracket(row['low'], row['high'])}".strip()
    doubt = {CHANCE: ", which could be chance", UNTESTED: ", which was not tested"}
    return f"{ahead} above {second}{doubt.get(row['verdict'], '')}"


def _at_twelve(study: Run, row: Row) -> str:
    if row["verdict"] == CLEAR:
        head = heads_of(study)[row["best_model"], row["best_policy"]]
        who = head.label.removesuffix(OWN_WEIGHTS)
        return f"{who} {_is_best(study, row)}, {_ahead(study, row)}"
    return f"no difference {'was tested' if row['verdict'] == UNTESTED else 'can be shown'}"


# what fewer leads keep


def _kept(study: Run, shown: Row, macro: pd.DataFrame) -> Line:
    """Of one model: the skill that it keeps of its twelve leads."""
    on = f" on {_titled(study, shown['task'])}" if len(tasks(study)) > 1 else ""
    where, who, score = _where(shown["leads"]), _who(study, shown), points(shown["auroc"])
    own = _of(macro.assign(leads=shown["leads"]), shown).index
    full = next((r for r in records(macro.loc[own]) if r["leads"] == FULL), None)
    kept = [shown["kept"], shown["kept_low"], shown["kept_high"]]
    if full is None or shown["leads"] == FULL or any(k is None or abs(k) > 10 for k in kept):
        ends = (shown[name] for name in ("auroc", "low", "high"))
        return f"With {where}{on}, {who} has AUROC {sure(*ends)}. ", _doubt(shown)
    share, low, high = (points(k, 0) for k in kept)
    keep = "keeps" if shown["n_leads"] == 1 else "keep"
    return (
        f"{_first(where)} {keep} {share} % [{low}, {high}] of what twelve leads give{on}: ",
        f"{who} has AUROC {score} of {points(full['auroc'])}. {_kept_words(shown)}",
    )


def _kept_words(row: Row) -> str:
    """By the rule of the margin."""
    if row["margin"] is None:
        return ""
    margin = f"{100 * row['margin']:g} points"
    words = {
        "keeps": f"It is shown to lose less than {margin}",
        "loses": f"It is shown to lose more than {margin}",
    }
    return f"{words.get(row['verdict'], f'Whether it loses less than {margin} cannot be told')}."


# what a device costs


def _worst(study: Run, shown: Row) -> Iterator[Line]:
    """The perturbation that surely costs most at the leads and of the model that are spoken of,
    beside what fewer leads cost.
    """
    rows = robustness(study)
    rows = rows[(rows["label"] == MACRO) & (rows["task"] == shown["task"])]
    own = rows[(rows["reason"] == "") & (rows["difference_high"] < 0)]
    own = _of(own, shown).sort_values("difference", kind="stable")
    if own.empty:
        return
    row = own.iloc[0]
    cost = f"{points(-row['difference'])} [{points(-row['difference_high'])}, "
    cost += f"{points(-row['difference_low'])}]"
    where, title = _where(shown["leads"]), title_of(row["perturbation"])
    rest = "simulated on test recordings; heads saw no such recording"
    if shown["against_twelve"] is not None:
        ends = signed_bracket(shown["against_twelve_low"], shown["against_twelve_high"])
        rest += f"; these leads less twelve: {signed(shown['against_twelve'])} {ends}"
    yield f"{_first(title)} costs {_who(study, shown)} {cost} points with {where}", f" ({rest})."


# what stands before and after


def _about(row: Row) -> str:
    """AUROC in words, with the number shown."""
    times = points(row["auroc"], 0)
    return (
        f"AUROC × 100: of a patient with a diagnosis and one without, the right one is ranked "
        f"higher {times} times in 100; 50 is a coin."
    )


def _before(study: Run, row: Row) -> Iterator[str]:
    """What voids a number."""
    data = _data(study, row)
    model = next((m for m in study.models if m.name == row["model"]), None)
    if data and data.synthetic:
        yield "Synthetic recordings: no number here says anything about a patient."
    if row["weights"] == "random":
        yield "Random weights: no number here says anything about a published model."
    if model and model.weights_source.get("own"):
        yield f"{model.title} has ecgbench's own weights, not its authors'."
    met = contamination.met(model.corpora, data.name, data.title) if data and model else [""]
    if model and met[0] in ("equal", "contains"):
        yield f"{model.title} met these recordings in its pre-training: numbers may be too high."
    if model and study.provenance.protocol == "shipped":
        yield f"{model.title}: the classifier in its file of weights is scored, without a fit."
    if row["counted"] == "recordings":
        yield f"{PATIENTS_UNKNOWN[0].upper()}{PATIENTS_UNKNOWN[1:].rstrip('.')}."


def _nothing(study: Run) -> str:
    """Why no cell has a number of the study's metric."""
    counts: Counter[str] = Counter()
    for gap in gaps(study):
        counts[gap.word] += sum(count for count, _ in gap.leads.values())
    if set(counts) == {PENDING}:
        return f"Nothing is computed yet: {counted(counts[PENDING], 'cell')} to go."
    parts = [f"{count:,} {word}" for word, count in counts.items()]
    if scored := int((study.cells["status"] == "ok").sum()):
        title = study.metrics[study.metric].title
        parts.append(f"{scored:,} scored without {title}, since {UNDEFINED}")
    return f"No cell of this run has a number: {enumerated(parts) or 'none was asked for'}."
