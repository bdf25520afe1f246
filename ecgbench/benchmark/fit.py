"""One fit: trained now unless the store has it. `linear`: a head on features; `finetune`: the whole network."""

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from ecgbench import gates
from ecgbench.benchmark import keys
from ecgbench.benchmark.subject import Subject
from ecgbench.cards import Task
from ecgbench.cells import Fit, Training
from ecgbench.errors import BadSetting
from ecgbench.files import as_json, lines
from ecgbench.results import store as stored
from ecgbench.results.store import Store
from ecgbench.training import finetune, linear
from ecgbench.training.loop import Epoch
from ecgbench.weights.load import assign, digest

Head = tuple[np.ndarray, np.ndarray]
"""Weight (label, dim) and bias (label,)."""
CHECKPOINT = "checkpoint.safetensors"


def features(subject: Subject, fit: Fit, training: Training) -> None:
    """The features that a linear fit needs, with progress."""
    needed = subject.training_rows(fit, training)
    subject.compute(
        fit.policy or subject.contract.policy,
        np.concatenate([*needed["train"], *needed["val"]]),
        "training windows",
        training.leads == "random",
    )


def head(subject: Subject, fit: Fit, task: Task, training: Training, store: Store) -> Head:
    """The head of a fit. GateError when the frozen encoder of a linear one changed while its features were computed."""
    folder = _folder(subject, fit, task, training, store)
    if not stored.finished(folder):
        _probe(subject, fit, task, training, folder)
    found = load(stored.read_bytes(folder, "head.safetensors"))
    return found["weight"], found["bias"]


def _folder(subject: Subject, fit: Fit, task: Task, training: Training, store: Store) -> Path:
    before = subject.before_tuning or subject
    return store.fit_folder(fit, keys.fit_key(before, fit, task, training))


def _probe(subject: Subject, fit: Fit, task: Task, training: Training, folder: Path) -> None:
    started = time.time()
    learn, check = subject.splits(fit, task.columns, training)
    trained = linear.fit(training, fit.seed, learn, check)
    gates.unchanged(subject.network.card.title, subject.network.sha256, digest(subject.network.module))
    note = {
        "protocol": "linear", "batch": min(training.batch, len(learn.target)), "encoder_sha256": subject.network.sha256,
        **_outcome(trained.log, trained.best, len(learn.target), started),
    }  # fmt: skip
    parts = {k: v.numpy() for k, v in trained.state.items()}
    stored.finish(folder, {"head.safetensors": save(parts), "log.csv": _log(trained.log), "fit.json": as_json(note)})
    _tell(subject, fit, trained.log[trained.best])


def tuned(subject: Subject, fit: Fit, task: Task, training: Training, where: tuple[Store, Callable[[], None]]) -> Subject:
    """The subject with the network that a fit has fine-tuned; trained now, or from its last checkpoint on, unless the store has it.

    `where`: the store, and what is called before training begins, so that other processes take their part.
    """
    store, call = where
    folder = _folder(subject, fit, task, training, store)
    if not stored.finished(folder):
        started = time.time()
        call()
        trained = train(subject, fit, task, training, store)
        _keep(subject, fit, training, trained, folder, started)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    module = copy.deepcopy(subject.network.module)
    assign(module, stored.read_bytes(folder, "encoder.safetensors"), f"{folder}/encoder.safetensors")
    network = replace(subject.network, module=module, sha256=digest(module))
    if network.sha256 != (said := stored.read_json(folder, "fit.json")["encoder_sha256"]):
        raise BadSetting(f"{folder}/encoder.safetensors gives {network.sha256[:12]} where {said[:12]} was trained; remove {folder}")
    return subject.tuned(network)


def train(subject: Subject, fit: Fit, task: Task, training: Training, store: Store) -> finetune.Tuned:
    """Fine-tune; under torchrun every process calls this alike."""
    policy = subject.policy(fit.policy or subject.contract.policy)
    fed = finetune.Feeding(card=subject.network.card, contract=subject.contract, policy=policy)
    learn, check = (_examples(subject, split, task) for split in ("train", "val"))
    seen = max(1, len(learn.records) // training.batch) * min(training.batch, len(learn.records))
    total = training.epochs * (seen + len(check.records))
    checkpoint = _folder(subject, fit, task, training, store) / CHECKPOINT
    with subject.watcher.stage(f"{subject.name}: fine-tune {fit.task}, seed {fit.seed}", total, "records") as advance:
        place = finetune.Place(checkpoint=checkpoint, device=subject.network.device, advance=advance)
        return finetune.fit(copy.deepcopy(subject.network.module), fed, training, fit.seed, (learn, check), place)


def _keep(subject: Subject, fit: Fit, training: Training, trained: finetune.Tuned, folder: Path, started: float) -> None:
    for said in trained.notes:
        subject.watcher.note(f"{subject.name}: {said}")
    module = copy.deepcopy(subject.network.module)
    module.load_state_dict(trained.encoder)
    records = len(subject.records["train"])
    note: dict[str, Any] = {
        "protocol": "finetune", "batch": min(training.batch, records), "micro_batch": trained.micro_batch,
        "devices": trained.devices, "device": subject.network.device, "precision": training.precision, "groups": trained.groups,
        "frozen": trained.frozen, "notes": trained.notes, "epoch_seconds": trained.seconds,
        "encoder_sha256": digest(module), "from_sha256": subject.network.sha256,
        **_outcome(trained.log, trained.best, records, started),
    }  # fmt: skip
    stored.finish(folder, {
        "encoder.safetensors": save({k: v.numpy() for k, v in trained.encoder.items()}),
        "head.safetensors": save({k: v.numpy() for k, v in trained.head.items()}),
        "log.csv": _log(trained.log), "fit.json": as_json(note),
    })  # fmt: skip
    _tell(subject, fit, trained.log[trained.best])


def _examples(subject: Subject, split: str, task: Task) -> finetune.Examples:
    records = subject.records[split]
    return finetune.Examples(
        records=[r for _, r, _ in records],
        windows=[w for _, _, w in records],
        target=subject.target(split, task.columns),
        view=subject.view.get,
    )


def _outcome(log: list[Epoch], best: int, records: int, started: float) -> dict[str, Any]:
    score = log[best].validation
    return {
        "best_epoch": log[best].epoch, "val_macro_auroc": None if np.isnan(score) else score, "records": records,
        "seconds": round(time.time() - started, 2),
    }  # fmt: skip


def _log(log: list[Epoch]) -> str:
    return lines([("epoch", "loss", "val_macro_auroc"), *((e.epoch, e.loss, e.validation) for e in log)])


def _tell(subject: Subject, fit: Fit, best: Epoch) -> None:
    subject.watcher.note(f"fitted {fit.task} · {fit.model} · seed {fit.seed}: epoch {best.epoch}, val {best.validation:.4f}")
