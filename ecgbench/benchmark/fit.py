"""One fit: its head, trained now unless the store has it."""

import time

import numpy as np
from safetensors.numpy import load, save

from ecgbench.benchmark import keys
from ecgbench.benchmark.subject import Subject
from ecgbench.cards import Task
from ecgbench.cells import Fit, Training
from ecgbench.files import as_json, lines
from ecgbench.models._weights import digest
from ecgbench.results import store as stored
from ecgbench.results.store import Store
from ecgbench.training import gates, linear

Head = tuple[np.ndarray, np.ndarray]
"""Weight (label, dim) and bias (label,)."""


def head(subject: Subject, fit: Fit, task: Task, training: Training, store: Store) -> Head:
    """The head of a fit. GateError when the frozen encoder changed while its features were computed."""
    folder = store.fit_folder(fit, keys.fit_key(subject, fit, task, training))
    if not stored.finished(folder):
        learn, check = (subject.split(s, task.columns) for s in ("train", "val"))
        started = time.time()
        trained = linear.fit(training, fit.seed, learn, check)
        gates.unchanged(subject.network.card.title, subject.network.sha256, digest(subject.network.module))
        best = trained.log[trained.best]
        log = lines([("epoch", "loss", "val_macro_auroc"), *((e.epoch, e.loss, e.validation) for e in trained.log)])
        note = {
            "protocol": "linear", "best_epoch": best.epoch, "val_macro_auroc": None if np.isnan(best.validation) else best.validation,
            "batch": min(training.batch, len(learn.records)), "records": len(learn.records),
            "encoder_sha256": subject.network.sha256, "seconds": round(time.time() - started, 2),
        }  # fmt: skip
        stored.finish(
            folder, {"head.safetensors": save({k: v.numpy() for k, v in trained.state.items()}), "log.csv": log, "fit.json": as_json(note)}
        )
        subject.watcher.note(f"fitted {fit.task} · {fit.model} · seed {fit.seed}: epoch {best.epoch}, val {best.validation:.4f}")
    found = load(stored.read_bytes(folder, "head.safetensors"))
    return found["weight"], found["bias"]
