"""The trainings of a study: each is made once, and what it leaves is its networks after none, half
and all of its steps.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ecgbench.ablation.budget import Budget, Training
from ecgbench.ablation.studies import Study
from ecgbench.core import provenance
from ecgbench.core.cells import key
from ecgbench.core.files import put_proved, read_proved
from ecgbench.core.seeds import seed_of
from ecgbench.errors import BadWeights
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining import checkpoint, codebook, descriptors
from ecgbench.pretraining.codebook import Codebook
from ecgbench.pretraining.kept_encoders import digests, read_encoder, write_encoder
from ecgbench.pretraining.labels import Codes, Describe, Nodes, codebooks
from ecgbench.pretraining.network import new_network
from ecgbench.pretraining.objective import MaskedNodes
from ecgbench.pretraining.pretrain import Data, Session
from ecgbench.pretraining.stage import Execution
from ecgbench.pretraining.stage import run as train
from ecgbench.profile.flop import FlopCounter
from ecgbench.results.ablation import TRAINING, is_of

NETWORKS = "encoders.json"
"""Of a training: step -> digests of the network that was kept, as it was in memory."""


class Trainings:
    """Those of one study on one corpus; work: `work_of` them, which stands in what they leave."""

    def __init__(
        self, study: Study, budget: Budget, data: Data, session: Session, work: str
    ) -> None:
        self.study, self.budget, self.data, self.session = study, budget, data, session
        self.out, self.work = session.out, work

    def folder(self, wanted: Training) -> Path:
        """Where a training is kept."""
        return self.out / "trainings" / wanted.key[:24]

    def networks(self, wanted: Training) -> dict[str, Any]:
        """As `made`, and its networks are there; those that were removed are trained again, to the
        same bits.
        """
        told, folder = self.made(wanted), self.folder(wanted)
        if not all(self._encoder(folder, step).is_file() for step in self.budget.measured):
            (folder / TRAINING).unlink()
            told = self.made(wanted)
        return told

    def _encoder(self, folder: Path, step: int) -> Path:
        return folder / f"encoder_{step:06d}.safetensors"

    def loaded(
        self, wanted: Training, told: dict[str, Any], step: int
    ) -> tuple[NodeEncoder, Tensor]:
        """The network of a finished training after a step, in evaluation mode, and its mask
        vector.
        """
        path = self._encoder(self.folder(wanted), step)
        network = new_network(wanted.recipe.model, wanted.recipe.shape)
        mask = read_encoder(path, network)
        if list(digests(network, mask)) != told["encoders"][str(step)]:
            raise BadWeights(
                f"{path} is not the network that was trained; remove {path.parent} and run the "
                f"same command again"
            )
        return network.eval(), mask

    def tidy(self, wanted: Training) -> None:
        """Remove what nothing of this study asks for any more: networks of megabytes."""
        folder, kinds = self.folder(wanted), {cell.probe for cell in self.study.cells}
        if self.study.stage != wanted.stage or len(kinds) > 1:
            return
        for path in [*folder.glob("encoder_*.safetensors"), folder / "checkpoint.safetensors"]:
            path.unlink(missing_ok=True)

    def made(self, wanted: Training) -> dict[str, Any]:
        """What training.json says; trains what is missing."""
        folder = self.folder(wanted)
        told = read_proved(folder / TRAINING)
        if told is not None and is_of(told, wanted.key, self.work):
            return told
        if told is not None:
            self.session.progress.note(f"{folder} is of another training or study: made again")
        recipe, settings = wanted.recipe, wanted.recipe.stages[wanted.stage - 1]
        model, labels = self._start(wanted)
        self._forget_half(wanted)

        def keep(step: int, model: MaskedNodes) -> None:
            if step in self.budget.measured:
                write_encoder(self._encoder(folder, step), model)
                made = [*digests(model.encoder, model.mask)]
                kept = {**self._kept(wanted), str(step): made}
                put_proved(folder / NETWORKS, {**self._named(wanted), "networks": kept})

        began = time.perf_counter()
        keep(0, model)
        points = train(
            settings,
            model,
            self.data.corpus,
            labels,
            Execution(
                folder=folder,
                device=self.session.device,
                listener=self.session.listener(wanted.title),
                probe=keep,
                # a cell that collapses is a result
                alarm=False,
            ),
        )
        network, kept = new_network(recipe.model, recipe.shape), self._kept(wanted)
        told = {
            **self._named(wanted),
            "title": wanted.title,
            "encoders": kept,
            **_size(network, self.data.corpus.samples),
            "loss": points[-1].loss,
            "accuracy": points[-1].accuracy,
            "seconds": sum(p.seconds for p in points),
            "whole_seconds": time.perf_counter() - began,
            "device": self.session.name,
            "made_with": provenance.here(),
        }
        put_proved(folder / TRAINING, told)
        return told

    def _named(self, wanted: Training) -> dict[str, Any]:
        """What every file of a training says first."""
        return {"training": wanted.key, "work": self.work}

    def _kept(self, wanted: Training) -> dict[str, Any]:
        """Step -> digests of the networks that were kept; none where they are of another one."""
        told = read_proved(self.folder(wanted) / NETWORKS) or {}
        kept: dict[str, Any] = told["networks"] if is_of(told, wanted.key, self.work) else {}
        return kept

    def _forget_half(self, wanted: Training) -> None:
        """Remove a checkpoint of another training or study, and one where networks of before it are
        gone: they are trained again.
        """
        folder, known = self.folder(wanted), self._kept(wanted)
        path = folder / checkpoint.FILE
        if not path.is_file():
            return
        done = checkpoint.header_of(path.read_bytes(), path)["step"]
        wanted_steps = [step for step in self.budget.measured if step <= done]
        if not all(
            str(step) in known and self._encoder(folder, step).is_file() for step in wanted_steps
        ):
            path.unlink()

    def _start(self, wanted: Training) -> tuple[MaskedNodes, Codes]:
        """A network with its first weights, and what it is to predict."""
        recipe, first = wanted.recipe, wanted.stage == 1
        sizes = recipe.codes if first else recipe.refined
        with torch.random.fork_rng(devices=[]):
            number = seed_of("pre-training weights", recipe.seed, wanted.stage - 1)
            torch.manual_seed(number % 2**63)
            model = MaskedNodes(new_network(recipe.model, recipe.shape), sizes)
        describe: Describe
        if first:
            describe = descriptors.preset(recipe.descriptor)
        else:
            before = wanted.first
            told = self.made(before)
            encoder, mask = self.loaded(before, told, self.budget.steps)
            if recipe.init == "previous":
                model.encoder.load_state_dict(encoder.state_dict())
                model.mask.data.copy_(mask)
            describe = Nodes(encoder.to(self.session.device), recipe.block)
        given = self.budget.recipe
        every = (
            self.study.sizes("codes", given.codes)
            if first
            else self.study.sizes("refined", given.refined)
        )
        books = self._codebooks(describe, every, recipe.seed)
        return model, Codes(describe, [books[size] for size in sizes])

    def _codebooks(
        self, describe: Describe, sizes: Iterable[int], seed: int
    ) -> dict[int, Codebook]:
        """One per size, the same for every cell of a seed; fitted once."""
        sizes, corpus = list(sizes), self.data.corpus
        of = key(
            {
                "description": dict(describe.facts),
                "sizes": sizes,
                "seed": seed,
                "work": self.work,
            }
        )
        folder = self.out / "codebooks" / of[:24]
        paths = {size: folder / f"codebook_{size}.npz" for size in sizes}
        if not all(path.is_file() for path in paths.values()):
            title = f"codebooks, seed {seed}"
            with self.session.progress.stage(title, len(corpus), "recordings") as advance:
                books = codebooks(
                    corpus,
                    describe,
                    sizes,
                    seed=seed,
                    device=self.session.device,
                    advance=advance,
                )
            for size, path in paths.items():
                books[size].save(path)
        found = {size: codebook.load(path) for size, path in paths.items()}
        for size, book in found.items():
            if (book.size, book.facts["fit"]["seed"]) != (size, seed):
                raise BadWeights(
                    f"{paths[size]} is of another seed or size; remove {folder} and run the same "
                    f"command again"
                )
        return found


@torch.no_grad()
def _size(network: NodeEncoder, samples: int) -> dict[str, Any]:
    """Parameters, those behind the embedder, and FLOP of one window of twelve leads."""
    every = sum(p.numel() for p in network.parameters())
    embedder: Any = getattr(network, "embedder", None)
    window, measured = torch.zeros(12, samples), torch.ones(1, 12, dtype=torch.bool)
    with FlopCounter() as counter:
        network.eval().outputs(network.embed_leads(window), measured, (network.depth,))
    own = sum(p.numel() for p in embedder.parameters()) if embedder is not None else 0
    return {"parameters": every, "encoder_parameters": every - own, "flop": counter.total}
