"""Some features of few leads, computed again where no other recording was seen.

A plug-in's model or policy may keep recordings of all leads and know them again when it gets one
lead of them. In a process of its own, which sees windows of few leads alone and in another order,
it cannot. `python -m ecgbench.study.recomputed` is that process.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgbench import adapters, models
from ecgbench.adapters.hide import NATIVE
from ecgbench.core.files import as_json
from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import LeadSubset
from ecgbench.errors import LeakError, PolicyError
from ecgbench.evaluate import gates, protocols, rows
from ecgbench.evaluate.encode import SHARED_TOLERANCE, Encoder
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.fits import Fitting
from ecgbench.processes import DiedError, answer, ask
from ecgbench.study.job import Compute, Job, enter
from ecgbench.study.open_evaluation import open_evaluation
from ecgbench.study.reporter import Reporter
from ecgbench.study.store import Store

ROWS = 16
"""Windows that are computed again, or a few more: all windows of a record with the same leads."""
EXACT = 1e-6
"""Of max(1, largest feature): how far features on a CPU may differ between two processes. Nothing
but the last bits, which may depend on where in memory an array lies."""
SECONDS = 600.0
"""That the process may take."""


def wanted(evaluation: Evaluation, job: Compute, policy: str) -> bool | None:
    """Whether features are to be computed again; None where nothing of a plug-in made them."""
    ours = policy == NATIVE or adapters.ROOM.built_in(policy)
    return None if ours and models.ROOM.built_in(evaluation.network.name) else job.recompute


def check(evaluation: Evaluation, job: Compute, policy: str, there: np.ndarray) -> None:
    """LeakError where features of a plug-in are others in a fresh process; GateError where it gives
    none.

    there: rows of test windows whose features are there.
    """
    chosen = _of_few_leads(evaluation, there)
    if not wanted(evaluation, job, policy) or not len(chosen):
        return
    model = evaluation.network.name
    what = f"{evaluation.name}: a few windows again, in a process of its own"
    with (
        tempfile.TemporaryDirectory() as folder,
        evaluation.progress.stage(what, len(chosen), "windows") as advance,
    ):
        passed, given = Path(folder, "rows.npy"), Path(folder, "features.npy")
        Path(folder, "job.json").write_text(as_json(job.to_json()))
        np.save(passed, chosen)
        try:
            words = [folder, policy, str(torch.get_num_threads()), evaluation.selection.fold]
            said = ask(__name__, words, SECONDS)
        except DiedError as error:
            said = {"reason": str(error)}
        if "reason" in said:
            raise gates.GateError(
                f"{evaluation.name}: no features in a process of its own: {said['reason']}"
            )
        again = np.load(given, allow_pickle=False)
        advance(len(chosen))
    before = evaluation.cache(policy).take(chosen)
    apart = float(np.abs(again - before).max() / max(1.0, float(np.abs(before).max())))
    shared = _encoder(evaluation, policy).shares_embeddings
    exact = evaluation.network.device == "cpu" and not shared
    # NaN is no agreement
    if not apart <= (EXACT if exact else SHARED_TOLERANCE):
        where = "in a process that has seen no other recordings"
        why = "it keeps something of recordings that it has seen, or is random"
        if models.ROOM.built_in(model):
            raise PolicyError(f"policy {policy!r}: features differ by {apart:.2g} {where}; {why}")
        raise LeakError(f"{model}: features of few leads differ by {apart:.2g} {where}; {why}")


def _of_few_leads(evaluation: Evaluation, there: np.ndarray) -> np.ndarray:
    """Rows of the records and leads to compute again, those of fewest leads first; none with all
    leads of the contract.
    """
    every = LeadSubset.of(*evaluation.contract.leads).bits
    there = np.unique(there)
    position, _, masks = rows.decode(there)
    few = masks & every != every
    if not few.any():
        return there[few]
    there, group = there[few], np.stack([position[few], masks[few]])
    groups, which = np.unique(group, axis=1, return_inverse=True)
    order = rng("recomputed", evaluation.name).permutation(groups.shape[1])
    order = order[np.argsort(np.bitwise_count(groups[1, order]), kind="stable")]
    counts = np.bincount(which, minlength=len(order))[order]
    taken = order[: int(np.searchsorted(np.cumsum(counts), ROWS)) + 1]
    return there[np.isin(which, taken)]


def _encoder(evaluation: Evaluation, policy: str, singly: bool = False) -> Encoder:
    network = evaluation.network
    return Encoder(
        network.encoder, evaluation.contract, evaluation.policy(policy), singly, network.card.dim
    )


def _again(arguments: list[str]) -> dict[str, Any]:
    """In the process of its own: the features of the rows, last record first."""
    folder, (policy, threads, fold) = Path(arguments[0]), arguments[1:]
    torch.set_num_threads(int(threads))
    job = Job.from_json(json.loads((folder / "job.json").read_text()))
    assert isinstance(job, Compute)
    enter(job)
    opened = open_evaluation(job, Reporter(job.id, lambda event: None))
    evaluation = opened.by_fold([fold])[fold]
    evaluation.choose_path()
    if not protocols.get(job.plan.training.protocol).frozen:
        fit = job.plan.fits[0]
        fitting = Fitting(evaluation, fit, Store(job.folders.out))
        evaluation = fitting.tuned(lambda: None)
    chosen = np.load(folder / "rows.npy", allow_pickle=False)
    encoder = _encoder(evaluation, policy, job.plan.scoring.draw == "window")
    position, window, masks = rows.decode(chosen)
    parts = []
    for record in reversed(np.unique(position).tolist()):
        signal = evaluation.view.get(str(evaluation.table["record"][record]))
        for mask in reversed(np.unique(masks[position == record]).tolist()):
            mine = (position == record) & (masks == mask)
            # each set of leads by itself: what all leads would share could be recognised
            given = encoder.each(signal, {mask: window[mine]})[mask]
            parts.append((np.flatnonzero(mine), given))
    places, features = (np.concatenate(part) for part in zip(*parts))
    np.save(folder / "features.npy", features[np.argsort(places)])
    return {}


if __name__ == "__main__":
    answer(_again)
