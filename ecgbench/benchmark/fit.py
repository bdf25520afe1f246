"""One fit: trained now unless the store has it. `probe`, `linear`: a head on features; `finetune`:
the whole network.
"""

import copy
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from ecgbench import gates
from ecgbench.benchmark import keys, probing
from ecgbench.benchmark.evaluation import Evaluation, owners
from ecgbench.cards import Task
from ecgbench.cells import Fit, Training, key
from ecgbench.errors import BadSetting
from ecgbench.files import as_json, lines
from ecgbench.inference import rows
from ecgbench.inference.predict import probabilities
from ecgbench.results.folders import finished, publish, read_bytes, read_json
from ecgbench.results.store import FORMAT, Store
from ecgbench.training import finetune, linear
from ecgbench.training.loop import Epoch, marks_of
from ecgbench.weights.load import assign, digest

Head = tuple[np.ndarray, np.ndarray]
"""Weight (label, dim) and bias (label,)."""
CHECKPOINT = "checkpoint.safetensors"


def features(evaluation: Evaluation, fit: Fit, training: Training) -> None:
    """The features that a fit on a frozen encoder needs, with progress."""
    if training.protocol == "probe":
        probing.features(evaluation, fit, training)
        return
    needed, policy = evaluation.training_rows(fit, training), evaluation.trained(fit)
    wanted = np.concatenate([*needed["train"], *needed["val"]])
    evaluation.compute(policy, wanted, "training windows", training.leads == "random")
    evaluation.compute(policy, rows.complete(evaluation.records["val"]), "validation windows")


def head(evaluation: Evaluation, fit: Fit, task: Task, training: Training, store: Store) -> Head:
    """The head of a fit. GateError when an encoder that is to be frozen changed while its features
    were computed.
    """
    key_facts = _facts(evaluation, fit, task, training)
    folder = store.fit_folder(fit, key(key_facts))
    if not finished(folder):
        fitted = _probe if training.protocol == "probe" else _linear
        fitted(evaluation, fit, task, training, (store, folder, key_facts))
    tensors = load(read_bytes(folder, "head.safetensors"))
    return tensors["weight"], tensors["bias"]


def _facts(evaluation: Evaluation, fit: Fit, task: Task, training: Training) -> dict[str, Any]:
    return keys.fit_facts(evaluation.before_tuning or evaluation, fit, task, training)


Where = tuple[Store, Path, dict[str, Any]]
"""Store, folder of the fit, and what its key is made of."""


def _probe(evaluation: Evaluation, fit: Fit, task: Task, training: Training, where: Where) -> None:
    started, (store, folder, key_facts) = time.time(), where
    checkpoint = store.checkpoint_folder(key(key_facts))
    files, note, said = probing.fitted(evaluation, fit, task, training, checkpoint)
    note = {**_of_a_head(evaluation, fit, key_facts), **note, "seconds": _seconds(started)}
    publish(folder, {**files, "fit.json": as_json(note)})
    shutil.rmtree(checkpoint, ignore_errors=True)
    evaluation.watcher.note(f"fitted {fit.task} · {fit.model} · seed {fit.seed}: {said}")


def _linear(evaluation: Evaluation, fit: Fit, task: Task, training: Training, where: Where) -> None:
    started, (_, folder, key_facts) = time.time(), where
    learn, check = evaluation.splits(fit, task.columns, training)
    trained = linear.fit(training, fit.seed, learn, check)
    note = {
        **_of_a_head(evaluation, fit, key_facts),
        "protocol": "linear",
        "batch": min(training.batch, len(learn.target)),
        **_outcome(trained.log, trained.best, len(learn.target), started),
    }
    parts = {k: v.numpy() for k, v in trained.state.items()}
    publish(
        folder,
        {
            "head.safetensors": save(parts),
            "log.csv": _log(trained.log),
            "fit.json": as_json(note),
            "validation.parquet": _validation(
                evaluation, fit, task, (parts["weight"], parts["bias"])
            ),
        },
    )
    _note(evaluation, fit, trained.log[trained.best])


def tuned(
    evaluation: Evaluation,
    fit: Fit,
    task: Task,
    training: Training,
    where: tuple[Store, Callable[[], None]],
) -> Evaluation:
    """The evaluation with the network that a fit has fine-tuned; trained now unless the store has
    it.

    `where`: the store, and what is called before training begins, so that other processes do their
    share.
    """
    store, call = where
    key_facts = _facts(evaluation, fit, task, training)
    folder = store.fit_folder(fit, key(key_facts))
    if not finished(folder):
        started = time.time()
        call()
        trained = train(evaluation, fit, task, training, store)
        _keep(evaluation, fit, task, training, (trained, folder, key_facts, started))
    shutil.rmtree(store.checkpoint_folder(key(key_facts)), ignore_errors=True)
    weights = read_bytes(folder, "encoder.safetensors")
    tuned = _with(evaluation, weights, f"{folder}/encoder.safetensors")
    expected = read_json(folder, "fit.json")["encoder_sha256"]
    if tuned.network.sha256 != expected:
        raise BadSetting(
            f"{folder}/encoder.safetensors is not the network that was trained; remove {folder}"
        )
    return tuned


def _with(evaluation: Evaluation, weights: bytes, where: str) -> Evaluation:
    """The evaluation of a copy of its network with fine-tuned weights."""
    module = copy.deepcopy(evaluation.network.module)
    assign(module, weights, where)
    return evaluation.tuned(replace(evaluation.network, module=module, sha256=digest(module)))


def train(
    evaluation: Evaluation, fit: Fit, task: Task, training: Training, store: Store
) -> finetune.Tuned:
    """Fine-tune; under torchrun every process calls this alike."""
    policy = evaluation.policy(evaluation.trained(fit))
    fed = finetune.Feeding(
        card=evaluation.network.card, contract=evaluation.contract, policy=policy
    )
    learn, check = (_examples(evaluation, split, task) for split in ("train", "val"))
    seen = max(1, len(learn.records) // training.batch) * min(training.batch, len(learn.records))
    total = training.epochs * (seen + len(check.records))
    checkpoint = store.checkpoint_folder(key(_facts(evaluation, fit, task, training))) / CHECKPOINT
    with evaluation.watcher.stage(
        f"{evaluation.name}: fine-tune {fit.task}, seed {fit.seed}", total, "records"
    ) as advance:
        place = finetune.Place(
            checkpoint=checkpoint, device=evaluation.network.device, advance=advance
        )
        return finetune.fit(
            copy.deepcopy(evaluation.network.module), fed, training, fit.seed, (learn, check), place
        )


def _keep(
    evaluation: Evaluation,
    fit: Fit,
    task: Task,
    training: Training,
    result: tuple[finetune.Tuned, Path, dict[str, Any], float],
) -> None:
    trained, folder, key_facts, started = result
    for text in trained.notes:
        evaluation.watcher.note(f"{evaluation.name}: {text}")
    weights = save({k: v.numpy() for k, v in trained.encoder.items()})
    head = {k: v.numpy() for k, v in trained.head.items()}
    tuned, records = (
        _with(evaluation, weights, f"{folder}/encoder.safetensors"),
        len(evaluation.records["train"]),
    )
    note: dict[str, Any] = {
        **_identity(fit, key_facts),
        "protocol": "finetune",
        "batch": min(training.batch, records),
        "micro_batch": trained.micro_batch,
        "devices": trained.devices,
        "device": evaluation.network.device,
        "precision": training.precision,
        "groups": trained.groups,
        "frozen": trained.frozen,
        "notes": trained.notes,
        "epoch_seconds": trained.seconds,
        "encoder_sha256": tuned.network.sha256,
        "from_sha256": evaluation.network.sha256,
        **_outcome(trained.log, trained.best, records, started),
    }
    tuned.compute(
        evaluation.trained(fit), rows.complete(tuned.records["val"]), "validation windows"
    )
    publish(
        folder,
        {
            "encoder.safetensors": weights,
            "head.safetensors": save(head),
            "log.csv": _log(trained.log),
            "fit.json": as_json(note),
            "validation.parquet": _validation(tuned, fit, task, (head["weight"], head["bias"])),
        },
    )
    tuned.forget()
    _note(evaluation, fit, trained.log[trained.best])


def _validation(evaluation: Evaluation, fit: Fit, task: Task, head: Head) -> bytes:
    """What a fit predicts for the validation records with all leads; their features are there."""
    records = evaluation.records["val"]
    features = evaluation.cache(evaluation.trained(fit)).take(rows.complete(records))
    return evaluation.predicted(records, task, probabilities(features, owners(records), *head))


def _identity(fit: Fit, key_facts: dict[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, "fit": asdict(fit), "key": key(key_facts), "key_facts": key_facts}


def _of_a_head(evaluation: Evaluation, fit: Fit, key_facts: dict[str, Any]) -> dict[str, Any]:
    """What fit.json says of any head, once its encoder is known to have stayed as it was."""
    network = evaluation.network
    gates.unchanged(network.card.title, network.sha256, digest(network.module))
    return {**_identity(fit, key_facts), "encoder_sha256": network.sha256}


def _examples(evaluation: Evaluation, split: str, task: Task) -> finetune.Examples:
    records = evaluation.records[split]
    return finetune.Examples(
        records=[r for _, r, _ in records],
        windows=[w for _, _, w in records],
        target=evaluation.target(split, task.columns),
        view=evaluation.recordings().get,
    )


def _outcome(log: list[Epoch], best: int, records: int, started: float) -> dict[str, Any]:
    score = log[best].validation
    return {
        "best_epoch": log[best].epoch,
        "validation": None if np.isnan(score) else score,
        "records": records,
        "seconds": _seconds(started),
        "marks": marks_of(log, best),
    }


def _seconds(started: float) -> float:
    return round(time.time() - started, 2)


def _log(log: list[Epoch]) -> str:
    return lines([("epoch", "loss", "validation"), *((e.epoch, e.loss, e.validation) for e in log)])


def _note(evaluation: Evaluation, fit: Fit, best: Epoch) -> None:
    evaluation.watcher.note(
        f"fitted {fit.task} · {fit.model} · seed {fit.seed}: epoch {best.epoch}, val "
        f"{best.validation:.4f}"
    )
