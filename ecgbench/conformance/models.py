"""What every model keeps, tried through the whole path: recording in mV, view, hiding, policy,
normalisation, network.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from ecgbench import adapters, models
from ecgbench.adapt import NATIVE, Policy, TrainingSplit
from ecgbench.cards import InputContract, ModelCard
from ecgbench.conformance._properties import demand, tried
from ecgbench.datasets import demo
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.ecg.recording import Recording
from ecgbench.inference.encode import Encoder
from ecgbench.inference.network import Network, build
from ecgbench.seeds import rng

SUBSETS = (LeadSubset.of("II"), LeadSubset.of("I", "V2"), LeadSubset.of("III", "aVF", "V1", "V5"))
TOLERANCE = 1e-5
"""Of max(1, max|features|), where the order of sums may differ: batches, permutations."""


def check(name: str) -> list[dict[str, Any]]:
    """Try every property on the model called `name` with random weights: rows of name, ok,
    detail.
    """
    network = build(models.resolve(name), "random")
    return tried(properties(network))


def properties(network: Network) -> Iterator[tuple[str, Callable[[], str]]]:
    """The properties of one model, by name."""
    card, once = network.card, Once(network.module)
    yield "card", partial(card_is_true, network)
    for contract in card.contracts:
        for policy in [*adapters.names(), *([NATIVE] if card.native else [])]:
            encoder = Encoder(
                network.module, contract, Policy.of(policy, partial(_training, contract))
            )
            if not encoder.shares_embeddings:
                encoder = replace(encoder, network=once)
            where = f"contract {contract.name}, policy {policy}"
            yield (
                f"hidden leads do not matter ({where})",
                partial(hidden_leads_do_not_matter, encoder),
            )
            yield (
                f"file order of leads does not matter ({where})",
                partial(file_order_does_not_matter, encoder),
            )
        encoder = Encoder(
            network.module, contract, Policy.of(contract.policy, partial(_training, contract))
        )
        yield f"the same twice (contract {contract.name})", partial(deterministic, encoder)
        encoder = replace(encoder, network=once)
        yield (
            f"a batch of one equals a batch of n (contract {contract.name})",
            partial(batch_of_one, encoder),
        )
        if card.native:
            yield (
                f"rows not measured are not read (contract {contract.name})",
                partial(hidden_rows_are_not_read, encoder),
            )


class Once(nn.Module):
    """A network that computes each input once and answers an equal one from memory.

    Hidden leads that do not matter leave the network's input as it was, bit for bit, and contracts
    share some inputs, so most passes would be repetitions. That a repetition gives the same is
    tried by `deterministic`, which asks the network itself.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.given: dict[tuple[bytes, bytes], Any] = {}

    def forward(self, signal: torch.Tensor, measured: torch.Tensor) -> Any:
        """signal (batch, lead, time), measured (batch, lead) -> what the network gives."""
        key = signal.numpy().tobytes(), measured.numpy().tobytes()
        if key not in self.given:
            self.given[key] = self.network(signal, measured)
        return self.given[key]


def card_is_true(network: Network) -> str:
    """The card's counts are the network's, and every parameter is in exactly one group."""
    card: ModelCard = network.card
    count = sum(p.numel() for p in network.module.parameters())
    demand(
        count == card.parameters,
        f"the card says {card.parameters:,} parameters, the network has {count:,}",
    )
    for name, _ in network.module.named_parameters():
        groups = [g for g, prefixes in card.groups.items() if name.startswith(tuple(prefixes))]
        demand(
            len(groups) == 1,
            f"parameter {name} is in {len(groups)} of the groups {', '.join(card.groups)}",
        )
    encoder = Encoder(
        network.module, card.contracts[0], Policy.of("zero", partial(_training, card.contracts[0]))
    )
    width = _features(encoder, _recording(1, card.contracts[0]), ALL).shape[1]
    demand(width == card.dim, f"the card says {card.dim} features, the network gives {width}")
    return f"{count:,} parameters, {width} features"


def hidden_leads_do_not_matter(encoder: Encoder) -> str:
    """Other millivolts in the leads that are not measured leave the features bit-identical."""
    recording = _recording(1, encoder.contract)
    for subset in SUBSETS:
        before = _features(encoder, recording, subset)
        for kind, signal in _disturbed(recording, subset):
            after = _features(encoder, _with(recording, signal, LEADS), subset)
            demand(
                np.array_equal(before, after),
                (
                    f"{kind} in the leads hidden from {subset} moves a feature by "
                    f"{np.abs(before - after).max():.2g}"
                ),
            )
    return f"bit-identical at {', '.join(map(str, SUBSETS))}"


def file_order_does_not_matter(encoder: Encoder) -> str:
    """Leads stored in another order give the same features."""
    recording = _recording(1, encoder.contract)
    order = rng("conformance", "order").permutation(len(LEADS))
    shuffled = _with(recording, recording.signal[order], tuple(LEADS[i] for i in order))
    demand(
        np.array_equal(
            _features(encoder, recording, SUBSETS[1]), _features(encoder, shuffled, SUBSETS[1])
        ),
        "they differ",
    )
    return "bit-identical"


def deterministic(encoder: Encoder) -> str:
    """Two forward passes agree bit for bit, with all leads and with one."""
    recording = _recording(1, encoder.contract)
    for subset in (ALL, SUBSETS[0]):
        once, again = (_features(encoder, recording, subset) for _ in range(2))
        demand(np.array_equal(once, again), f"two passes at {subset} differ")
    return "bit-identical"


@torch.inference_mode()
def batch_of_one(encoder: Encoder) -> str:
    """A window's features do not depend on its neighbours in the batch, mixed sets of leads
    included.
    """
    c, generator = encoder.contract, rng("conformance", "batch")
    x = torch.from_numpy(
        (0.3 * generator.standard_normal((3, len(c.leads), c.received))).astype(np.float32)
    )
    measured = torch.ones(3, len(c.leads), dtype=torch.bool)
    if encoder.policy.name == NATIVE:
        measured[1, 1:], measured[2, ::2] = False, False
    together = encoder.network(x, measured).pooled
    alone = torch.cat([encoder.network(x[i : i + 1], measured[i : i + 1]).pooled for i in range(3)])
    worst = float((together - alone).abs().max())
    limit = TOLERANCE * max(1.0, float(alone.abs().max()))
    demand(worst <= limit, f"they differ by {worst:.2g}, more than {limit:.2g}")
    return f"largest difference {worst:.1e}"


@torch.inference_mode()
def hidden_rows_are_not_read(encoder: Encoder) -> str:
    """NaN, zeros and noise in rows that are not measured give the same features, bit for bit."""
    c, generator = encoder.contract, rng("conformance", "door")
    x = torch.from_numpy(
        generator.standard_normal((2, len(c.leads), c.received)).astype(np.float32)
    )
    measured = torch.zeros(2, len(c.leads), dtype=torch.bool)
    measured[0, :3], measured[1, -1] = True, True
    outcomes = []
    for filler in (
        torch.nan,
        0.0,
        7.0 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1)),
    ):
        row = torch.where(measured[:, :, None], x, filler)
        outcomes.append(encoder.network(row, measured))
    same = all(
        torch.equal(outcomes[0].pooled, o.pooled) and torch.equal(outcomes[0].sequence, o.sequence)
        for o in outcomes[1:]
    )
    demand(
        same and bool(torch.isfinite(outcomes[0].pooled).all()),
        "a row that was not measured was read",
    )
    return "bit-identical with NaN, zeros and noise"


def view(recording: Recording, contract: InputContract) -> np.ndarray:
    """(12, time) mV at the contract's rate, as inference sees a recording."""
    return preprocess.view(recording.clinical().signal, recording.fs, contract.preparation)


def _training(contract: InputContract) -> TrainingSplit:
    signals = [
        (f"D{number:03d}", view(_recording(number, contract), contract)) for number in (2, 3)
    ]
    return TrainingSplit(frozenset(record for record, _ in signals), lambda: signals)


def _features(encoder: Encoder, recording: Recording, subset: LeadSubset) -> np.ndarray:
    return encoder(view(recording, encoder.contract), {subset.bits: np.array([0])})[subset.bits]


def _recording(number: int, contract: InputContract) -> Recording:
    """A demo recording, as long as one window."""
    whole = demo.recording(number)
    return _with(whole, whole.signal[:, : round(contract.seconds * whole.fs)], whole.leads)


def _with(recording: Recording, signal: np.ndarray, leads: tuple[str, ...]) -> Recording:
    return Recording(
        signal=signal,
        unit=recording.unit,
        leads=leads,
        fs=recording.fs,
        record=recording.record,
        patient=recording.patient,
    )


def _disturbed(recording: Recording, subset: LeadSubset) -> Iterator[tuple[str, np.ndarray]]:
    hidden = ~subset.mask
    for kind, other in (
        ("noise", rng("conformance", str(subset)).normal(0, 5, recording.signal.shape)),
        ("a flat line", np.zeros_like(recording.signal)),
    ):
        yield kind, np.where(hidden[:, None], other, recording.signal).astype(np.float32)
