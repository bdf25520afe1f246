"""From a job to its model on its dataset."""

import numpy as np

from ecgbench import models
from ecgbench.data.people import people
from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.evaluate import network, protocols
from ecgbench.evaluate.device import choose
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.study import controls
from ecgbench.study.jobs import Job
from ecgbench.study.progress import Reporter
from ecgbench.study.store import Store
from ecgbench.weights import released


def open_evaluation(job: Job, reporter: Reporter) -> Evaluation:
    """The model on the dataset of the job."""
    precision = protocols.of_the_encoder(job.plan.training)
    built = network.build(job.model, job.weights, choose(job.device))
    contract = built.card.contract(job.plan.fits[0].contract)
    built = built.in_precision(precision, contract)
    for layout in built.licensed:
        released.show_terms(job.model, layout, reporter.note)
    if built.precision != precision:
        reporter.note(
            f"{built.card.title}: features in {precision} are off by more than 1 %; it "
            f"computes in {built.precision}"
        )
    folders, limit = job.folders, job.plan.limit
    prepared = prepare(
        job.dataset,
        folders.data,
        folders.prepared,
        limit=limit,
        fix=job.plan.fix,
        division=job.plan.division,
    )
    control = job.plan.control
    permutation = controls.permutation(control)
    selection = Selection(prepared, limit, job.plan.exclude, permutation=permutation)
    store = Store(job.folders.out, job.folders.shared)
    return Evaluation(
        network=built,
        contract=contract,
        selection=selection,
        training=job.plan.training,
        features=store.shared_features(built.name, prepared.name),
        own_features=store.features_folder(built.name, prepared.name),
        progress=reporter,
        keep_views=job.settings.views == "keep",
        change=control if control == controls.PHASES else "",
        tabular=_tabular(control, selection),
    )


def _tabular(control: str, selection: Selection) -> np.ndarray | str | None:
    """What a shortcut knows of the used records from the tables of the dataset."""
    if not control or not controls.of(control).tabular:
        return None
    known = people(selection.prepared).iloc[selection.index.index]
    features: np.ndarray | str = models.get(control).features(known)
    return features
