"""What the store of a run knows of the subjects of reporting checklists: a sentence each, and the
file beside the page that holds the evidence. Nothing is said that is not in the store.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ecgbench.cells import RANDOM
from ecgbench.reports._facts import FULL, columns, gaps, grave, marked, setting_words
from ecgbench.reports._standing import settings
from ecgbench.reports._text import moment
from ecgbench.results import frozen
from ecgbench.results.facts import ModelFacts
from ecgbench.results.people import people
from ecgbench.results.score import ranks_records
from ecgbench.results.study import Study
from ecgbench.text import counted, enumerated


class Answer(NamedTuple):
    """What is known, and which file says it."""

    text: str
    file: str
    whole: bool = False
    """Whether nothing of the subject is left to the authors."""


def _plan(study: Study) -> Answer | None:
    kept = frozen.read(study.path)
    if kept is None:
        return Answer(frozen.NONE, "provenance.csv")
    sound = "" if kept.intact else " It does NOT hold what its hash was made of."
    return Answer(
        f"A plan was frozen on {kept.plan.date.replace('T', ' ').replace('Z', ' UTC')} by this "
        f"machine's clock, with {counted(len(kept.plan.hypotheses), 'planned comparison')}, sha256 "
        f"{kept.stated}.{sound} Where the hash is registered is the authors' to say.",
        "confirmatory.csv",
    )


def _data(study: Study) -> Answer | None:
    said = [
        f"{marked(d.title, d.synthetic)}, version {d.version}"
        + (f", doi {d.doi}" if d.doi else "")
        + f", licence {d.licence}, digest {d.digest[:16]}"
        for d in study.datasets
    ]
    return Answer("; ".join(said) + ".", "datasets.csv") if said else None


def _participants(study: Study) -> Answer | None:
    said = [
        f"{d.title}: {counted(d.records, 'record')} used of {d.records_release:,} in the release"
        + (f", limited to {d.limit}" if d.limit is not None else "")
        + "".join(f"; {n:,} left out by rule: {why}" for why, n in d.excluded.items())
        for d in study.datasets
    ]
    return Answer("; ".join(said) + ".", "datasets.csv") if said else None


def _preparation(study: Study) -> Answer | None:
    said = [
        f"{d.title}: {counted(len(d.quarantined), 'record')} quarantined with a reason, "
        f"{d.suspect:,} with a finding, {d.repaired:,} repaired"
        for d in study.datasets
    ]
    return Answer("; ".join(said) + ".", "index.html") if said else None


def _outcome(study: Study) -> Answer | None:
    said = [
        f"{t.title}: {counted(t.n_labels, 'label')}"
        + (f", chosen by: {t.rule}" if t.rule else "")
        + (f"; 0 means: {t.absent}" if t.absent else "")
        for t in study.tasks
    ]
    return Answer("; ".join(said) + ".", "labels.csv") if said else None


def _predictors(study: Study) -> Answer | None:
    there = [setting_words(typed) for typed in settings(study)]
    policies = dict.fromkeys(study.main["policy"])
    return Answer(
        f"An ECG with {enumerated(there)}; leads that are absent are filled by: "
        f"{enumerated(list(policies))}.",
        "models.csv",
        True,
    )


def _size(study: Study) -> Answer | None:
    said = [
        f"{d.title}: {counted(d.test_records, 'test record')} of "
        f"{counted(d.test_patients, 'patient')}"
        for d in study.datasets
    ]
    return Answer("; ".join(said) + ". Why that is enough is not in the store.", "datasets.csv")


def _missing(study: Study) -> Answer | None:
    said = [
        f"{d.title}: {d.fewer_leads:,} used records without all twelve leads, {d.flat:,} with a "
        f"flat lead"
        for d in study.datasets
    ]
    for d in study.datasets:
        table = people(study.path, d.name)
        if len(table):
            age, sex = int(table["age"].isna().sum()), int((table["sex"] == "").sum())
            said.append(f"{d.title}: age unknown of {age:,} and sex of {sex:,} of its used records")
    return Answer("; ".join(said) + ".", "index.html") if said else None


def _methods(study: Study) -> Answer | None:
    p = study.provenance
    metrics = enumerated([card.title for card in study.metrics.values()])
    return Answer(
        f"Protocol {p.protocol}, training seeds {', '.join(map(str, p.fit_seeds))}, "
        f"{counted(len(p.seeds), 'seed')} for random leads; {metrics} with 95 % intervals over "
        f"patients (method: {p.bootstrap}), differences of the same patients, p after Holm.",
        "provenance.md",
        True,
    )


def _imbalance(study: Study) -> Answer | None:
    return Answer(
        "Positives of each label are counted; every label counts alike in a macro mean.",
        "labels.csv",
    )


def _subgroups(study: Study) -> Answer | None:
    known = [d.title for d in study.datasets if len(people(study.path, d.name))]
    trained = any(not head.untrained for head in columns(study))
    if not known or not trained or not ranks_records(study.metric):
        return None
    return Answer(
        f"Groups by sex, age, pacing, device and site, as far as {enumerated(known)} say it and "
        f"the groups are large enough; all of it is exploratory unless a frozen plan asks it.",
        "subgroups.csv",
    )


def _output(study: Study) -> Answer | None:
    return Answer(
        "A probability for each label. Operating points are set on validation records or on the "
        "other half of the test patients, as their table says; clinical thresholds are the "
        "authors' to give.",
        "operating_points.csv",
    )


def _training(study: Study) -> Answer | None:
    said = [
        f"{m.title}: pre-trained on {enumerated(list(m.corpora)) or 'nothing that is stated'}"
        for m in study.models
    ]
    text = "; ".join(said) + ". Heads or networks are trained by protocol "
    return Answer(f"{text}{study.provenance.protocol} on the training split.", "models.csv")


def _partition(study: Study) -> Answer | None:
    said = [
        f"{d.title}: {d.division or 'the split of its card'}"
        + (f", cross-validation in {d.folds} folds" if d.folds and not d.division else "")
        for d in study.datasets
    ]
    return Answer("; ".join(said) + ". A patient is in one split.", "datasets.csv")


def _code(study: Study) -> Answer | None:
    p, commits = study.provenance, {o.code.commit for o in study.provenance.origins}
    known = enumerated(sorted(filter(None, commits)))
    more = ", of some of it not known" if known and None in commits else ""
    said = [f"ecgbench {p.version}, commit {known or 'not known'}{more}"]
    said += [f"{m.title}: weights {m.weights}, {_weights(m)}" for m in study.models]
    return Answer("; ".join(said) + ".", "commits.csv")


def _weights(model: ModelFacts) -> str:
    sha = f"sha256 {model.weights_sha256[:16]}" if model.weights_sha256 else "no hash"
    return sha + (" (random: untrained)" if model.weights == RANDOM else "")


def _characteristics(study: Study) -> Answer | None:
    said = []
    for d in study.datasets:
        table = people(study.path, d.name).drop_duplicates("patient")
        if not len(table):
            continue
        age = table["age"].dropna().to_numpy(np.float64)
        sexes = table["sex"].value_counts()
        told = [f"{counted(len(table), 'patient')} among the used records"]
        told += [f"median age {np.median(age):.0f} (known of {len(age):,})"] if len(age) else []
        told += [f"{int(sexes[s]):,} {s}" for s in ("female", "male") if s in sexes]
        said.append(f"{d.title}: {', '.join(told)}")
    return Answer("; ".join(said) + ".", "datasets.csv") if said else None


def _events(study: Study) -> Answer | None:
    rows = study.labels
    rows = rows[(rows["metric"] == study.metric) & rows["value"].notna()]
    if not len(rows):
        return None
    said = []
    for task in study.tasks:
        mine = rows[rows["task"] == task.name].drop_duplicates("label")
        if len(mine):
            least, most = int(mine["positives"].min()), int(mine["positives"].max())
            said.append(f"{task.title}: {least:,} to {most:,} positives in a label with a value")
    return Answer("; ".join(said) + ".", "labels.csv", True)


def _model(study: Study) -> Answer | None:
    said = [
        f"{m.title}: {m.parameters:,} parameters, weights {m.weights}, {_weights(m)}"
        if m.parameters
        else f"{m.title}: weights {m.weights}, {_weights(m)}"
        for m in study.models
    ]
    return Answer("; ".join(said) + ".", "models.csv", True) if said else None


def _performance(study: Study) -> Answer | None:
    main = study.main[(study.main["metric"] == study.metric) & (study.main["status"] == "ok")]
    if not len(main):
        return None
    full = main[main["leads"] == FULL]
    lost = gaps(study)
    text = (
        f"{counted(len(main), 'row')} with {study.metrics[study.metric].title} and its 95 % "
        f"interval, {len(full)} of them with twelve leads"
    )
    text += f"; {len(lost)} gaps are listed with their reason" if lost else ""
    return Answer(
        f"{text}. Calibration has a section of its own, where it could be computed.",
        "main_table.csv",
        True,
    )


def _updating(study: Study) -> Answer | None:
    word = {"finetune": "Whole networks were trained further"}.get(
        study.provenance.protocol, "Networks stay as released; a head is trained on their features"
    )
    return Answer(f"{word} (protocol {study.provenance.protocol}).", "provenance.md")


def _failed(study: Study) -> Answer | None:
    lost = gaps(study)
    words = [f"{gap.model} on {gap.task}: {gap.word}" for gap in lost[:3]]
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    return Answer(
        f"Cells without a number: {enumerated(words) + more if lost else 'none'}. Every record "
        f"with a prediction is counted; a model cannot abstain.",
        "cells.csv",
    )


def _limitations(study: Study) -> Answer | None:
    words = [note.partition(": ")[0].lower() for note in study.notes if grave(note)]
    said = [f"Said before any number on the page: {enumerated(words)}."] if words else []
    said += [f"{d.title}: {caution}" for d in study.datasets for caution in d.cautions]
    return Answer(" ".join(said), "main_table.md") if said else None


def dates(study: Study) -> str:
    """When the run's commands began, first and last; "" where none is noted."""
    began = [c.started for c in study.provenance.commands if c.started]
    return f"{moment(min(began))} to {moment(max(began))}" if began else ""


ANSWERS: dict[str, Callable[[Study], Answer | None]] = {
    "plan": _plan,
    "data": _data,
    "participants": _participants,
    "preparation": _preparation,
    "outcome": _outcome,
    "predictors": _predictors,
    "size": _size,
    "missing": _missing,
    "methods": _methods,
    "imbalance": _imbalance,
    "subgroups": _subgroups,
    "output": _output,
    "training": _training,
    "partition": _partition,
    "code": _code,
    "characteristics": _characteristics,
    "events": _events,
    "model": _model,
    "performance": _performance,
    "updating": _updating,
    "failed": _failed,
    "limitations": _limitations,
}
"""Topic of an item -> what is known of it."""
