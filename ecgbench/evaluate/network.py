"""A network for evaluation: built, with loaded or seeded weights, frozen, and hashed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ecgbench import models
from ecgbench.cards.cell import EITHER, NONE, RANDOM, RELEASED, Precision
from ecgbench.cards.model import InputContract, ModelCard, Weights
from ecgbench.core.files import warn_once
from ecgbench.core.restored import restored
from ecgbench.core.seeds import seed_of
from ecgbench.core.text import counted as number_of
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate.encode import Encoder
from ecgbench.layers.features import Features, pooled_of
from ecgbench.policies.hide import Policy
from ecgbench.weights.chosen import ModelWeights
from ecgbench.weights.load import FileRead, digest, noting
from ecgbench.weights.state import same_values, tensors_of


@dataclass(frozen=True, eq=False)
class Network:
    """One model with one set of weights."""

    name: str
    card: ModelCard
    """With the numbers that its file leaves out, see `counted`."""
    module: nn.Module
    weights: str
    """As tables show them: "random", a name on the card, or a file's name."""
    sha256: str
    """Of the state dict."""
    device: str = "cpu"
    precision: Precision = "float32"
    """Of what `encoder` computes."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Origin of the weights: see `ModelWeights.origin`."""
    files: tuple[FileRead, ...] = ()
    """How files of weights of one's own were read."""

    @property
    def file_sha256(self) -> str | None:
        """Of the file of weights of a model from outside, which may keep some of them elsewhere
        than in its state dict; of built-in models the state dict has all.
        """
        return None if models.ROOM.built_in(self.name) else self.source.get("sha256")

    @property
    def environment(self) -> str:
        """See the function of that name."""
        return environment(self.device)

    @property
    def encoder(self) -> nn.Module:
        """The module for float32 arrays that are on the CPU."""
        if self.device == "cpu" and self.precision == "float32":
            return self.module
        return Placed(self.module, torch.device(self.device), self.precision)

    @property
    def licensed(self) -> list[Weights]:
        """Entries of the card that name the weights, or the given file."""
        used = self.source["name"], self.source["file"]
        return [w for w in self.card.weights if w.name in used or w.file in used]


class Placed(nn.Module):
    """An encoder on its device and in its precision, for float32 arrays that are on the CPU.

    It offers no `embed_leads`: every set of leads is a pass.
    """

    def __init__(
        self, encoder: nn.Module, device: torch.device, precision: Precision = "float32"
    ) -> None:
        super().__init__()
        self.encoder, self.device, self.rough = encoder, device, precision == "bf16"

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """As the encoder's; the features are on the CPU, float32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.rough):
            features = self.encoder(signal.to(self.device), measured.to(self.device))
        pooled = pooled_of(features).float().cpu()
        return Features(getattr(features, "sequence", pooled), pooled)


def build(
    name: str, weights: str, device: str = "cpu", precision: Precision = "float32"
) -> Network:
    """The model called `name` with `weights`: random, released, released_or_random, a name on its
    card, or a path; on `device`, computing in `precision`.

    Random weights have a fixed seed and are the same in every run. BadWeights for weights that do
    not match. A model without parameters has no weights, whichever of these words is given.
    """
    module, chosen = models.get(name), _settled(name, weights)
    # float32 means float32: by default torch lets convolutions round to 10 bits there
    if device != "cpu":
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    given = chosen.path if chosen.kind == "file" else None  # its hash is known
    with _seeded(name, given=given):
        with noting() as read:
            word = os.path.expanduser(chosen.word) if chosen.kind == "file" else chosen.word
            network = module.build(**({} if chosen.kind == RANDOM else {"weights": word}))
        if not isinstance(network, nn.Module):
            kind = type(network).__name__
            raise BadSetting(f"build of model {name} must return a torch.nn.Module, not {kind}")
        with models.ROOM.calling(name):
            card = counted(module.CARD, _ready(network, module.CARD))
        if not models.ROOM.built_in(name):
            with suppress(Exception):  # what it opens in a pass is noted; its cells say what fails
                _features(network, name, card)
    own_reader = chosen.kind == "file" and not models.ROOM.built_in(name)
    if (
        own_reader
        and card.parameters
        and sum(one.tensors for one in read) < len(tensors_of(network))
    ):
        _demand_reached(name, chosen.path, network)
    network.to(device)
    called = Path(chosen.word).name if card.parameters or own_reader else NONE
    source = replace(chosen, card=card).origin()
    source = {**source, "name": source["name"] and called}
    told = tuple(one for one in read if one.is_told)
    for one in told:
        warn_once(one.path, f"{name}: {one}")
    if told:  # what of its file a network does without
        source["read"] = "; ".join(map(str, told))
    made = Network(name, card, network, called, digest(network), device, precision, source)
    return replace(made, files=told)


@contextmanager
def _seeded(*words: str, given: Path | None = None) -> Iterator[None]:
    """Inside, the network whose name is first gets the same random weights in every process, by
    these words; what is opened is its, but for a file that it is given.
    """
    seeds, reading = ("weights", *words), models.ROOM.reading(words[0], given)
    with torch.random.fork_rng(devices=[]), restored(*seeds), reading:
        torch.manual_seed(seed_of(*seeds) % 2**63)
        yield


def _demand_reached(name: str, file: Path, network: nn.Module) -> None:
    """BadWeights where a network is the same without its file of weights, as after `strict=False`
    with other names, or its features depend on tensors that stay as they were drawn. Of a `build`
    that needs the file nothing is said.
    """
    same, module, drawn = False, models.get(name), list[str]()
    with suppress(Exception):
        made = []
        for words in ([name], [name, "anew"]):
            with _seeded(*words):
                made.append(_ready(module.build(), module.CARD))
        now, (once, anew) = tensors_of(network), map(tensors_of, made)
        others = [_features(one, name, module.CARD) for one in (network, made[0])]
        # what a file holds may stand elsewhere than in the state dict
        same = digest(made[0]) == digest(network) and torch.equal(*others)
        random = [n for n, tensor in once.items() if not same_values(tensor, anew[n])]
        left = [n for n in random if same_values(now[n], once[n])]
        changed = deepcopy(network)
        for tensor in left:
            tensors_of(changed)[tensor].copy_(anew[tensor])
        needed = not torch.equal(others[0], _features(changed, name, module.CARD))
        drawn = left if needed and len(left) < len(random) else []
    if same:
        why = "its tensors are the same without the file; ecgbench.load_checkpoint refuses that"
        raise BadWeights(f"{file} does not reach the network of {name}: {why}")
    if drawn:
        raise BadWeights(
            f"{file} does not reach {number_of(len(drawn), 'tensor')} of {name} that its features "
            f"depend on, such as {drawn[0]}: random as without the file; load all of them, or draw "
            f"what is meant to be random with a seed of its own"
        )


@torch.inference_mode()
def _features(network: nn.Module, name: str, card: ModelCard) -> Tensor:
    """Of one fixed window."""
    contract = card.contracts[0]
    with _seeded(name):
        signal = torch.randn(1, len(contract.leads), contract.received)
        pooled: Tensor = pooled_of(network(signal, torch.ones(signal.shape[:2]).bool()))
    return pooled


def _ready(network: nn.Module, card: ModelCard) -> nn.Module:
    """The network, frozen, with the weights that it makes when it first sees its input, and fed in
    its own type, such as float64.
    """
    kinds = {p.dtype for p in network.eval().parameters() if p.is_floating_point()}
    if len(kinds) == 1 and kinds != {torch.float32}:
        network.register_forward_pre_hook(partial(_in_type, kinds.pop()))
    if any(map(is_lazy, [*network.parameters(), *network.buffers()])):
        with torch.no_grad():
            network(*_zeros(card.contracts[0]))
    return network.requires_grad_(False)


def _in_type(kind: torch.dtype, _: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (given[0].to(kind), *given[1:])


def _zeros(contract: InputContract) -> tuple[Tensor, Tensor]:
    """A window of zeros in which all leads are measured."""
    signal = torch.zeros(1, len(contract.leads), contract.received)
    return signal, torch.ones_like(signal[..., 0]).bool()


@torch.inference_mode()
def counted(card: ModelCard, network: nn.Module) -> ModelCard:
    """The card with the network's number of parameters, whatever it says, and where it leaves that
    out the width of the feature of a window of zeros. EcgbenchError where a pass gives no features.
    """
    card = replace(card, parameters=sum(p.numel() for p in network.parameters()))
    if not card.dim:
        contract = card.contracts[0]
        encoder = Encoder(network, contract, Policy(contract.policy, None))
        card = replace(card, dim=encoder.pooled(network(*_zeros(contract)), 1).shape[1])
    return card


def environment(device: str) -> str:
    """What may change the last bits of a number: the version of torch and the kind of device, as in
    "torch 2.13.0, cpu".
    """
    kind = "cpu" if device == "cpu" else torch.cuda.get_device_name(device)
    return f"torch {torch.__version__}, {kind}"


def _settled(name: str, weights: str) -> ModelWeights:
    """The weights that are loaded. Files that are there but cannot be read or do not match stop the
    run.
    """
    module = models.get(name)
    chosen = ModelWeights.of(module.CARD, weights)
    known = models.ROOM.built_in(name) or any(w.name == RELEASED for w in module.CARD.weights)
    if chosen.kind == EITHER and module.CARD.parameters != 0 and not known:
        with suppress(BadSetting):  # a plug-in may keep its weights in its own way
            module.build(weights=RELEASED)
            return ModelWeights.of(module.CARD, RELEASED)
    return chosen.settled()
