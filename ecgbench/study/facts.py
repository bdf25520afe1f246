"""Facts of a network and of the used records, as the store keeps them."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import datasets
from ecgbench.cards.cell import RANDOM, RELEASED
from ecgbench.cards.checked import facts
from ecgbench.cards.plan import EXCLUDABLE
from ecgbench.core.division import DEVICE, OFFICIAL, fold_number
from ecgbench.data.contamination import NOT_STATED
from ecgbench.data.copy import is_counted
from ecgbench.data.people import people
from ecgbench.data.reading import by_kind
from ecgbench.data.select import Selection
from ecgbench.data.splits import as_imported, by_recorder
from ecgbench.ecg.leads import ALL, LeadSubset

if TYPE_CHECKING:  # it needs torch, a second that a run itself need not spend
    from ecgbench.evaluate.evaluation import Evaluation

_CARD = (
    *("title", "summary", "paper", "licence", "parameters", "origin", "objective"),
    *("corpora", "choices"),
)
"""Facts of a model's card that reports read."""
_DATASET = ("title", "version", "doi", "licence", "synthetic", "patients_known", "verified")


def network_facts(evaluation: "Evaluation") -> dict[str, Any]:
    """Facts of a network, its weights and its contract."""
    network = evaluation.network
    card = facts(network.card)
    published = {RELEASED, *(w.name for w in network.card.weights)}
    # a card that describes no published weights is the user's own, and speaks of the user's file
    spoken_for = card["corpora"] and not network.card.weights and network.weights != RANDOM
    if network.source.get("name") not in published and not spoken_for:
        card["corpora"] = [NOT_STATED]  # a file of the user
    return {
        "name": network.name,
        **{k: card[k] for k in _CARD},
        "weights": network.weights,
        "weights_sha256": network.sha256,
        "weights_source": dict(network.source),
        "contract": facts(evaluation.contract),
        "precision": network.precision,
    }


def dataset_facts(selection: Selection) -> dict[str, Any]:
    """Facts of the used records of a dataset and of its tasks."""
    prepared, index, test = selection.prepared, selection.index, selection.of("test")
    card = facts(prepared.card)
    divided: dict[str, Any] = {"division": prepared.division} if prepared.division else {}
    tested = test
    if selection.fold != OFFICIAL:
        _, folds = fold_number(selection.fold)
        divided = {"folds": folds, "division": _crossed(selection, index)}
        tested = index
    codes = dict(datasets.codes(prepared.name))
    tasks = {
        task.name: {
            "title": task.title,
            "dataset": prepared.name,
            "evaluation_only": task.parent is not None,
            "n_labels": len(task.labels),
            "rule": task.rule,
            "paper": task.paper,
            "absent": task.absent,
            "counted": is_counted(task, prepared.published),
            **({"codes": codes} if codes else {}),
        }
        for task in prepared.tasks
    }
    patients = sorted(set(test["patient"]))
    return {
        "name": prepared.name,
        **{k: card[k] for k in _DATASET},
        "records": len(index),
        "records_prepared": len(prepared.published) - len(prepared.left_out),
        "records_release": prepared.card.records,
        "limit": selection.limit,
        "digest": selection.digest,
        "flat": int((index["flat"] != "").sum()),
        "fewer_leads": int((index["available"] != ALL.bits).sum()),
        "leads": _leads_of_all(index),
        "suspect": int((index["found"] != "").sum()),
        "found": by_kind(index["found"]),
        "repaired": int((index["fixed"] != "").sum()),
        "fixed": by_kind(index["fixed"]),
        "fix": prepared.fix,
        "test_records": len(tested),
        "test_patients": len(set(tested["patient"])),
        **divided,
        "tasks": tasks,
        "excluded": prepared.excluded["reason"].value_counts().sort_index().to_dict(),
        "left_out": {EXCLUDABLE[kind]: n for kind, n in selection.left_out.items()},
        "cautions": list(prepared.card.cautions),
        "unit": prepared.unit,
        "quarantined": prepared.quarantined[["record", "reason"]].to_dict("records"),
        "patients": patients,
    }


def _leads_of_all(index: pd.DataFrame) -> str:
    """The leads that each record has, where all have the same; else nothing."""
    known = index["available"].unique()
    return str(LeadSubset.from_bits(int(known[0]))) if len(known) == 1 else ""


def _crossed(selection: Selection, index: pd.DataFrame) -> str:
    copy, (_, folds) = selection.prepared, fold_number(selection.fold)
    card = copy.card
    if selection.fold.startswith(DEVICE):
        _, recorders = by_recorder(copy.name, people(copy, index), folds)
        return (
            f"{folds} folds by recorder, of whole patients: {', '.join(recorders)}, then all other "
            f"patients; its own split ({card.splits}) is set aside"
        )
    whole = "patients" if card.patients_known else "recordings"
    if as_imported(index, folds) is not None:
        return f"cross-validation in the {folds} folds of the import, of whole {whole}"
    return (
        f"cross-validation in {folds} folds of whole {whole}, stratified on the labels of its "
        f"tasks; its own split ({card.splits}) is set aside"
    )
