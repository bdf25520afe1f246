"""One fit: trained now unless the store has it. `probe` and `linear`: a head on features;
`finetune`: the whole network.
"""

import copy
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from ecgbench.core import provenance
from ecgbench.core.cards import Task
from ecgbench.core.cells import OFFICIAL, Fit, Training, key
from ecgbench.core.files import as_json, lines, put
from ecgbench.core.seeds import rng
from ecgbench.ecg.draw import training_leads
from ecgbench.errors import BadSetting
from ecgbench.evaluate import finetune, gates, linear, probing, rows
from ecgbench.evaluate.evaluation import Evaluation, Record, owners, windows_of
from ecgbench.evaluate.loop import Trained, marks_of
from ecgbench.evaluate.predict import probabilities
from ecgbench.study import keys
from ecgbench.study.folders import document, finished, publish, read_bytes, read_json
from ecgbench.study.store import FORMAT
from ecgbench.weights.load import assign, digest

Head = tuple[np.ndarray, np.ndarray]
"""Weight (label, dim) and bias (label,)."""
CHECKPOINT, ENCODER, HEAD = "checkpoint.safetensors", "encoder.safetensors", "head.safetensors"


@dataclass(frozen=True, eq=False)
class Fitting:
    """One fit of one model on one task."""

    evaluation: Evaluation
    """Of the network from which training starts. Keys are made of it, for it is known before."""
    fit: Fit
    task: Task
    training: Training

    @cached_property
    def key_facts(self) -> dict[str, Any]:
        """Everything that can change the fit."""
        return keys.fit_facts(self.evaluation, self.fit, self.task, self.training)

    @cached_property
    def key(self) -> str:
        """The hash of these facts."""
        return key(self.key_facts)

    @property
    def folder(self) -> Path:
        """Where it is stored."""
        return self.evaluation.store.fit_folder(self.fit, self.key)

    @property
    def policy(self) -> str:
        """What fills the absent leads of training."""
        return self.evaluation.trained(self.fit)

    def features(self) -> None:
        """Compute the features that a fit on a frozen encoder needs, with progress."""
        if self.training.protocol == "probe":
            probing.features(self.evaluation, self.fit, self.training)
            return
        learn, check = self._rows()
        wanted = np.concatenate([*learn, check])
        singly = self.training.leads == "random"
        self.evaluation.compute(self.policy, wanted, "training windows", singly)
        self._validation_features(self.evaluation)

    def head(self) -> Head:
        """The head. GateError when an encoder that is to be frozen changed while its features were
        computed.
        """
        if not finished(self.folder):
            (self._probe if self.training.protocol == "probe" else self._linear)()
        tensors = load(read_bytes(self.folder, HEAD))
        return tensors["weight"], tensors["bias"]

    def tuned(self, call: Callable[[], None]) -> Evaluation:
        """The evaluation with the network that was fine-tuned.

        `call` is called before training begins, so that other processes do their share.
        """
        if not finished(self.folder):
            started = time.time()
            self._begin()
            call()
            self._keep(self.train(), started)
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        tuned = self._with(read_bytes(self.folder, ENCODER))
        if tuned.network.sha256 != read_json(self.folder, "fit.json")["encoder_sha256"]:
            raise BadSetting(
                f"{self.folder}/{ENCODER} is not the network that was trained; remove {self.folder}"
            )
        return tuned

    def train(self) -> finetune.Tuned:
        """Fine-tune; under torchrun every process calls this alike."""
        evaluation, network = self.evaluation, self.evaluation.network
        fed = finetune.Feeding(
            card=network.card,
            contract=evaluation.contract,
            policy=evaluation.policy(self.policy),
        )
        learn, check = (self._examples(split) for split in ("train", "val"))
        batch, n = self.training.batch, len(learn.records)
        seen = max(1, n // batch) * min(batch, n)
        total = self.training.epochs * (seen + len(check.records))
        what = f"{evaluation.name}: fine-tune {self.fit.task}, seed {self.fit.seed}"
        with evaluation.progress.stage(what, total, "records") as advance:
            place = finetune.Place(
                checkpoint=self._checkpoint / CHECKPOINT, device=network.device, advance=advance
            )
            module = copy.deepcopy(network.module)
            return finetune.fit(module, fed, self.training, self.fit.seed, (learn, check), place)

    @property
    def _checkpoint(self) -> Path:
        return self.evaluation.store.checkpoint_folder(self.key)

    def _begin(self) -> None:
        """Note the code beside the checkpoint: what another commit began goes on from there."""
        code = provenance.code()
        put(self._checkpoint / f"code-{key(code)[:16]}.json", as_json(code))

    def _probe(self) -> None:
        started, evaluation = time.time(), self.evaluation
        self._begin()
        files, note, said = probing.fitted(
            evaluation, self.fit, self.task, self.training, self._checkpoint
        )
        self._frozen()
        seconds = round(time.time() - started, 2)
        note |= self._identity(evaluation) | {"seconds": seconds}
        note["encoder_sha256"] = evaluation.network.sha256
        publish(self.folder, {**files, "fit.json": as_json(note)}, evaluation.store.path)
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        evaluation.progress.note(f"{self._fitted} {said}")

    def _frozen(self) -> None:
        network = self.evaluation.network
        gates.unchanged(network.card.title, network.sha256, digest(network.module))

    def _linear(self) -> None:
        started = time.time()
        trained = linear.fit(self.training, self.fit.seed, *self._splits())
        self._frozen()
        seconds = round(time.time() - started, 2)
        self._publish(self.evaluation, trained, _arrays(trained.state), {"seconds": seconds}, {})

    def _keep(self, trained: finetune.Tuned, started: float) -> None:
        network = self.evaluation.network
        for text in trained.notes:
            self.evaluation.progress.note(f"{self.evaluation.name}: {text}")
        weights = save(_arrays(trained.encoder))
        tuned = self._with(weights)
        note = {
            "micro_batch": trained.micro_batch,
            "devices": trained.devices,
            "device": network.device,
            "precision": self.training.precision,
            "groups": trained.groups,
            "frozen": trained.frozen,
            "notes": trained.notes,
            "epoch_seconds": trained.seconds,
            "from_sha256": network.sha256,
            "seconds": round(time.time() - started, 2),
        }
        self._validation_features(tuned)
        self._publish(tuned, trained, _arrays(trained.head), note, {ENCODER: weights})
        tuned.forget()

    def _publish(
        self,
        evaluation: Evaluation,
        trained: Trained | finetune.Tuned,
        head: dict[str, np.ndarray],
        note: dict[str, Any],
        files: dict[str, bytes],
    ) -> None:
        """Store the fit: what both protocols say of it, and `note` and `files` besides."""
        best, records = trained.log[trained.best], len(evaluation.records["train"])
        note |= self._identity(evaluation) | {
            "batch": min(self.training.batch, records),
            "encoder_sha256": evaluation.network.sha256,
            "best_epoch": best.epoch,
            "validation": None if np.isnan(best.validation) else best.validation,
            "records": records,
            "marks": marks_of(trained.log, trained.best),
        }
        publish(
            self.folder,
            {
                **files,
                HEAD: save(head),
                "log.csv": lines([("epoch", "loss", "validation"), *map(astuple, trained.log)]),
                "fit.json": as_json(note),
                "validation.parquet": self._validation(evaluation, head["weight"], head["bias"]),
            },
            evaluation.store.path,
        )
        evaluation.progress.note(f"{self._fitted} epoch {best.epoch}, val {best.validation:.4f}")

    @property
    def _fitted(self) -> str:
        fold = "" if self.fit.fold == OFFICIAL else f" · fold {self.fit.fold}"
        return f"fitted {self.fit.task} · {self.fit.model} · seed {self.fit.seed}{fold}:"

    def _identity(self, evaluation: Evaluation) -> dict[str, Any]:
        """What fit.json says under every protocol; `evaluation`: with the features it rests on."""
        begun = [document(file) for file in sorted(self._checkpoint.glob("code-*.json"))]
        environment, cache = evaluation.network.environment, evaluation.cache(self.policy)
        return {
            "format": FORMAT,
            "fit": asdict(self.fit),
            "key": self.key,
            "key_facts": self.key_facts,
            "protocol": self.training.protocol,
            "environments": sorted({environment} | cache.environments),
            "code": begun or [provenance.code()],
            "features_code": cache.code,
        }

    def _with(self, weights: bytes) -> Evaluation:
        """The evaluation of a copy of the network with fine-tuned weights."""
        network = self.evaluation.network
        module = copy.deepcopy(network.module)
        assign(module, weights, f"{self.folder}/{ENCODER}")
        return self.evaluation.tuned(replace(network, module=module, sha256=digest(module)))

    def _validation_features(self, evaluation: Evaluation) -> None:
        wanted = rows.complete(evaluation.records["val"])
        evaluation.compute(self.policy, wanted, "validation windows")

    def _validation(self, evaluation: Evaluation, *head: np.ndarray) -> bytes:
        """What the fit predicts for the validation records with all leads."""
        records = evaluation.records["val"]
        features = evaluation.cache(self.policy).take(rows.complete(records))
        probability = probabilities(features, owners(records), *head)
        return evaluation.predicted(records, self.task, probability)

    def _rows(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Rows of work that a linear fit is trained on, one array per epoch or one of everything,
        and validated on.
        """
        seen, seed = self.evaluation.contract.leads, self.fit.seed
        learn, check = (self.evaluation.records[split] for split in ("train", "val"))
        if self.training.leads == "all":
            return [rows.complete(learn)], rows.complete(check)

        def drawn(record: Record, *words: str | int) -> int:
            return training_leads(seen, *words, record.name, available=record.available)

        def shown(record: Record, epoch: int) -> np.ndarray:
            window = rng("window", seed, epoch, record.name).integers(record.windows, size=1)
            leads = drawn(record, "train leads", seed, epoch)
            return rows.encode(record.position, window, np.array([leads]))

        epochs = [
            np.concatenate([shown(record, epoch) for record in learn])
            for epoch in range(self.training.epochs)
        ]
        fixed = [
            rows.encode(
                r.position, np.arange(r.windows), np.full(r.windows, drawn(r, "validation leads"))
            )
            for r in check
        ]
        return epochs, np.concatenate(fixed)

    def _splits(self) -> tuple[linear.Split, linear.Split]:
        """Features and targets that a linear fit is trained and validated on."""
        (epochs, check), cache = self._rows(), self.evaluation.cache(self.policy)
        learn = self._split("train", cache.take(epochs[0]))
        if self.training.leads == "random":
            whole = np.unique(np.concatenate(epochs))
            places = [np.searchsorted(whole, epoch) for epoch in epochs]
            learn = replace(
                learn,
                features=cache.take(whole),
                owner=np.zeros(0, np.int64),
                chosen=places.__getitem__,
            )
        return learn, self._split("val", cache.take(check))

    def _split(self, name: str, features: np.ndarray) -> linear.Split:
        records = self.evaluation.records[name]
        return linear.Split(
            records=[r.name for r in records],
            features=features,
            owner=owners(records),
            target=self.evaluation.target(name, self.task.columns),
        )

    def _examples(self, split: str) -> finetune.Examples:
        records = self.evaluation.records[split]
        return finetune.Examples(
            records=[r.name for r in records],
            windows=windows_of(records),
            available=[r.available for r in records],
            target=self.evaluation.target(split, self.task.columns),
            view=self.evaluation.view.get,
        )


def _arrays(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
