"""One fit of one model on one task: trained now, as its protocol says, unless it is stored."""

import copy
import shutil
import time
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors.numpy import load, save
from safetensors.torch import save as save_state

from ecgbench.cards.cell import FITS, FORMAT, Fit
from ecgbench.cards.dataset import Task
from ecgbench.core import provenance
from ecgbench.core.division import OFFICIAL
from ecgbench.core.files import as_json, put
from ecgbench.core.folders import document, finished, publish, read_bytes
from ecgbench.core.keys import key
from ecgbench.evaluate import gates, protocols, rows
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.features import NOT_OF_THE_RECORDING
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.protocols import Trained
from ecgbench.weights.load import assign, digest

ENCODER, HEAD, VALIDATION = "encoder.safetensors", "head.safetensors", "validation.parquet"
PARTS = ("weight", "bias", "softmax")
"""Of a head, as `predict.probabilities` takes them."""


class FitFolders(Protocol):
    """The folders of a run's fits."""

    path: Path

    def fit_folder(self, fit: Fit, fit_key: str) -> Path:
        """Folder of a stored fit."""

    def checkpoint_folder(self, fit_key: str) -> Path:
        """Folder of a fit in training."""


@dataclass(frozen=True, eq=False)
class Fitting:
    """One fit of one model on one task."""

    evaluation: Evaluation
    """With the network before training, on which keys are based."""
    fit: Fit
    folders: FitFolders

    @property
    def task(self) -> Task:
        """The learned task."""
        return self.evaluation.task(self.fit)

    @cached_property
    def key_facts(self) -> dict[str, Any]:
        """Everything that can change the fit: features at the leads of its training, records,
        labels, training, its seed and fold.
        """
        evaluation, fit = self.evaluation, self.fit
        return {
            "fits": FITS,
            "fit": self.task.name,
            "labels": list(self.task.labels),
            "fold": fit.fold,
            "records": evaluation.selection.labelled(self.task.columns),
            "training": protocols.facts(evaluation.training),
            "seed": fit.seed,
            **getattr(self._protocol, "of_the_fit", lambda *_: {})(evaluation, fit),
            **({"shown": fit.shown, "validation": "shown leads"} if fit.shown else {}),
            **evaluation.facts(evaluation.trained(fit)),
        }

    @cached_property
    def key(self) -> str:
        """The hash of these facts."""
        return key(self.key_facts)

    @property
    def folder(self) -> Path:
        """Folder of the stored fit."""
        return self.folders.fit_folder(self.fit, self.key)

    @property
    def _checkpoint(self) -> Path:
        return self.folders.checkpoint_folder(self.key)

    @property
    def _policy(self) -> str:
        return self.evaluation.trained(self.fit)

    @cached_property
    def _protocol(self) -> Any:
        return protocols.get(self.evaluation.training.protocol)

    def features(self) -> None:
        """Compute the features that a fit on a frozen encoder needs, with progress."""
        needed = self._protocol.needs(self.evaluation, self.fit)
        singly, wanted = self.evaluation.training.leads == "random", np.concatenate(needed.drawn)
        self.evaluation.compute(self._policy, wanted, "training windows", singly)
        self.evaluation.compute(self._policy, needed.complete, "windows of held-out records")

    def head(self) -> dict[str, np.ndarray]:
        """Its PARTS. GateError when a frozen encoder changed while its
        features were computed.
        """
        if not finished(self.folder):
            self._store()
        return dict(load(read_bytes(self.folder, HEAD)))

    def tuned(self) -> Evaluation:
        """The evaluation with the fine-tuned network."""
        if not finished(self.folder):
            self._store()
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        return self._with(read_bytes(self.folder, ENCODER))

    def _train(self) -> Trained:
        needed = self._protocol.needs(self.evaluation, self.fit)
        trained: Trained = self._protocol.fit(self.evaluation, self.fit, needed, self._checkpoint)
        return trained

    def _store(self) -> None:
        """Train and store the fit."""
        started, evaluation, fit = time.time(), self.evaluation, self.fit
        # beside the checkpoint: what another commit began goes on from there
        code = provenance.code()
        put(self._checkpoint / f"code-{key(code)[:16]}.json", as_json(code))
        trained = self._train()
        for text in trained.note.get("notes", []):
            evaluation.progress.note(f"{evaluation.name}: {text}")
        made, files = evaluation, dict(trained.files)
        if trained.encoder is None:
            network = evaluation.network
            gates.unchanged(network.card.title, network.sha256, digest(network.module))
        else:
            files[ENCODER] = weights = save_state(trained.encoder)
            made = self._with(weights)
        head = dict(zip(PARTS, trained.head))
        files[HEAD] = save(head)
        if VALIDATION not in files:
            files[VALIDATION] = self._validation(made, head)
        files["fit.json"] = as_json(self._note(made, trained, time.time() - started))
        publish(self.folder, files)
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        fold = "" if fit.fold == OFFICIAL else f" · fold {fit.fold}"
        named = f"{fit.task} · {fit.model} · seed {fit.seed}{fold}"
        evaluation.progress.note(f"fitted {named}: {trained.summary}")
        if made is not evaluation:
            made.forget()

    def _note(self, made: Evaluation, trained: Trained, seconds: float) -> dict[str, Any]:
        """What fit.json says; `made`: with the features that the fit rests on."""
        begun = [document(file) for file in sorted(self._checkpoint.glob("code-*.json"))]
        network, cache = made.network, made.cache(self._policy)
        tuned = {} if trained.encoder is None else {"from_sha256": self.evaluation.network.sha256}
        return {
            "records": len(self.evaluation.showing(self.fit).records["train"]),
            **trained.note,
            **tuned,
            "format": FORMAT,
            "fit": asdict(self.fit),
            "key": self.key,
            "key_facts": self.key_facts,
            "protocol": self.evaluation.training.protocol,
            "marks": [NOT_OF_THE_RECORDING] if cache.constant else trained.warnings,
            "encoder_sha256": network.sha256,
            "environments": sorted({network.environment} | cache.environments),
            "code": begun,
            "features_code": cache.code,
            "seconds": round(seconds, 2),
        }

    def _validation(self, made: Evaluation, head: dict[str, np.ndarray]) -> bytes:
        """What the fit predicts for the validation records, with the leads that they have."""
        records = made.showing(self.fit).records["val"]
        wanted = rows.complete(records)
        made.compute(self._policy, wanted, "validation windows")
        features = made.cache(self._policy).take(wanted)
        probability = probabilities(features, rows.records_of_windows(records), **head)
        return made.predicted(records, self.task, probability)

    def _with(self, weights: bytes) -> Evaluation:
        """The evaluation of a copy of the network with fine-tuned weights."""
        network = self.evaluation.network
        module = copy.deepcopy(network.module)
        assign(module, weights, f"{self.folder}/{ENCODER}")
        return self.evaluation.tuned(replace(network, module=module, sha256=digest(module)))
