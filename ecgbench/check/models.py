"""Properties of every model, checked through the whole path: recording in mV, view, hiding, policy,
normalisation, network.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn

from ecgbench import models, policies
from ecgbench.cards.cell import RANDOM
from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.cards.plan import weights_of
from ecgbench.check._properties import Broken, demand, identical, tried
from ecgbench.core import process
from ecgbench.core.seeds import rng
from ecgbench.core.text import counted
from ecgbench.datasets import demo
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.ecg.recording import Recording
from ecgbench.errors import LeakError
from ecgbench.evaluate import batches
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.features import CONSTANT
from ecgbench.evaluate.network import Network, build
from ecgbench.layers.features import pooled_of
from ecgbench.policies.hide import NATIVE, Policy

WINDOWS = 3
"""Of a recording whose leads are embedded once for all lead settings: an embedding that mixes
windows and leads is right where there is one window.
"""
SECONDS = 600.0
"""Time limit of a fresh process."""
CLOSE = 1e-6
"""Of max(1, largest feature): how far two processes may differ. Nothing but the last bits, which
depend on where in memory an array lies.
"""
REPEATS = 4
"""Further passes over the same input: a mask of few units may be drawn twice."""
CHANCE = "chance, no leak (dropout that stays on, a mask that is drawn)"
SUBSETS = (LeadSubset.of("II"), LeadSubset.of("I", "V2"), LeadSubset.of("III", "aVF", "V1", "V5"))
Disturbed = dict[LeadSubset, dict[str, np.ndarray]]


MEANS = {
    "card": "probe, linear: a run refuses a feature of another width; finetune: also a parameter "
    "that is in no group, or in two",
    "the same twice": "probe, linear, finetune: a run refuses its cells; only training may draw",
    "features depend": "probe, linear: every score would be that of guessing, and a run says so; "
    "finetune: it may learn them, and must show it",
    "a batch": "probe, linear, finetune: a run refuses its cells",
}
"""Beginning of a property -> what a run does, protocol by protocol, with a model that lacks it."""
LEAKS = (
    "probe, linear, finetune: no score with fewer leads could be believed; a run looks for "
    "this only in part"
)
"""Of all other properties."""


def check(
    name: str, begin: Callable[[str], object] = str, weights: str = RANDOM
) -> Iterator[dict[str, Any]]:
    """Try every property on the model called `name`: rows of name, ok, detail, and of a property
    that it lacks means. begin: called with each name before. weights: as of `ecgbench run`; what of
    a file is left out has a row.
    """
    begin("it is built")
    name = models.resolve(name)
    own = weights_of(weights, [name], models.resolve)[name]
    with models.ROOM.calling(name):
        network = build(name, own)
    yield from _left_out(network)
    fresh = "one lead gives the same in a process that has seen no other"
    last: tuple[str, Callable[[], str]] = (fresh, partial(remembers_nothing, network, own))
    for row in tried([*properties(network), last], begin=begin):
        means = next((text for p, text in MEANS.items() if row["name"].startswith(p)), LEAKS)
        yield row if row["ok"] else {**row, "means": means}


def _left_out(network: Network) -> Iterator[dict[str, Any]]:
    """A row for each file of weights, and for each part of it that the network does without."""
    for file in network.files:
        rows = {f"weights {file.path.name}": f"read as {file.place}"}
        for left, number in file.left_out.items():
            rows[f"left out of {file.path.name}: {left}"] = counted(number, "tensor")
        yield from ({"name": what, "ok": True, "detail": how} for what, how in rows.items())


def properties(network: Network) -> Iterator[tuple[str, Callable[[], str]]]:
    """The properties of one model, by name."""
    card = network.card
    yield "card", partial(card_is_true, network)
    for contract in card.contracts:
        where = f"contract {contract.name}"
        encoder = encoder_of(network, contract)
        yield f"the same twice ({where})", partial(deterministic, encoder)
        yield f"features depend on the recording ({where})", partial(tell_apart, encoder)
        views = cache(partial(_disturbed, contract))
        for policy in [*policies.names(), *([NATIVE] if card.native else [])]:
            encoder = encoder_of(network, contract, policy)
            if policy != NATIVE:
                encoder = replace(encoder, network=InputAsFeatures())
            where = f"contract {contract.name}, policy {policy}"
            what = "hidden leads do not matter"
            yield f"{what} ({where})", partial(hidden_leads, encoder, views)
            yield f"file order of leads does not matter ({where})", partial(file_order, encoder)
            if encoder.shares_embeddings:
                what = "embed_leads and encode give what forward gives"
                yield f"{what} ({where})", partial(shared_and_alone, encoder)
        where = f"contract {contract.name}"
        yield f"a batch of one equals a batch of n ({where})", partial(batch_of_one, encoder)
        if card.native:
            yield f"rows not measured are not read ({where})", partial(hidden_rows, encoder)


class InputAsFeatures(nn.Module):
    """Returns its input. Where the input is bit-identical, so are the features of a deterministic
    network (see `deterministic`), and no forward pass is needed.
    """

    def forward(self, signal: torch.Tensor, measured: torch.Tensor) -> torch.Tensor:
        """signal (batch, lead, time), measured (batch, lead) -> (batch, lead * (time + 1))."""
        return torch.cat([signal.flatten(1), measured.float()], 1)


def card_is_true(network: Network) -> str:
    """The card's counts are the network's, and every parameter is in exactly one group, where the
    card has groups.
    """
    card: ModelCard = network.card
    count = sum(p.numel() for p in network.module.parameters())
    said = models.get(network.name).CARD.parameters
    demand(said in (None, count), f"the card says {said} parameters, the network has {count}")
    for name, _ in network.module.named_parameters() if card.groups else ():
        groups = [g for g, prefixes in card.groups.items() if name.startswith(tuple(prefixes))]
        message = f"parameter {name} is in {len(groups)} of the groups {', '.join(card.groups)}"
        demand(len(groups) == 1, message)
    contract = card.contracts[0]
    encoder = encoder_of(network, contract, "zero")
    width = _encoded(encoder, seen(1, contract), ALL).shape[1]
    demand(width == card.dim, f"the card says {card.dim} features, the network gives {width}")
    alone = "" if card.groups or not count else ", no groups: it cannot be fine-tuned"
    return f"{count:,} parameters, {width} features{alone}"


def hidden_leads(encoder: Encoder, views: Callable[[int], Disturbed]) -> str:
    """Other millivolts in the leads that are not measured leave the features bit-identical; where a
    policy fills them, the network's input. views: number of windows -> `_disturbed`.
    """
    what = "the network's input" if isinstance(encoder.network, InputAsFeatures) else "a feature"
    for subset, signals in views(WINDOWS if encoder.shares_embeddings else 1).items():
        before = _encoded(encoder, signals[""], subset)
        again = _encoded(encoder, signals[""], subset)
        identical(before, again, f"the same input gives other features at {subset}: {CHANCE}")
        for kind, signal in [*signals.items()][1:]:
            after = _encoded(encoder, signal, subset)
            moved = f"moves {what} by {np.abs(before - after).max():.2g}"
            identical(before, after, f"{kind} in the leads hidden from {subset} {moved}")
    return f"bit-identical at {', '.join(map(str, SUBSETS))}"


def shared_and_alone(encoder: Encoder) -> str:
    """Embeddings that lead settings share give the features of a forward pass that sees the
    measured leads alone, in every window.
    """
    signal = seen(1, encoder.contract, WINDOWS)
    every = np.arange(WINDOWS)
    try:
        worst = encoder.check_shared(signal, {s.bits: every for s in (*SUBSETS, ALL)})
    except LeakError as error:
        raise Broken(str(error)) from error
    return f"largest difference {worst:.1e}, of {WINDOWS} windows"


def file_order(encoder: Encoder) -> str:
    """Leads stored in another order give the same features."""
    recording = recording_of(1, encoder.contract)
    order = rng("conformance", "order").permutation(len(LEADS))
    leads = tuple(LEADS[i] for i in order)
    shuffled = replace(recording, signal=recording.signal[order], leads=leads)
    signals = seen(1, encoder.contract), view(shuffled, encoder.contract)
    one, other = (_encoded(encoder, signal, SUBSETS[1]) for signal in signals)
    return identical(one, other, "they differ")


def deterministic(encoder: Encoder) -> str:
    """Two forward passes agree bit for bit, with all leads and with one."""
    for subset in (ALL, SUBSETS[0]):
        by_chance = f"two passes over the same input at {subset} differ: {CHANCE}"
        first = _encoded(encoder, seen(1, encoder.contract), subset)
        for _ in range(REPEATS):
            other = _encoded(encoder, seen(1, encoder.contract), subset)
            identical(first, other, f"{by_chance}{_restless(encoder.network)}")
    return "bit-identical"


def _restless(network: nn.Module) -> str:
    """The modules that are known to draw, or to look at a batch, in words."""
    of = [name for name, m in network.named_modules() if name and m.training]
    batch = [
        name
        for name, m in network.named_modules()
        if hasattr(m, "running_mean") and m.running_mean is None
    ]
    found = f"; in training mode: {', '.join(of[:3])}" if of else ""
    return found + (f"; without running statistics: {', '.join(batch[:3])}" if batch else "")


def tell_apart(encoder: Encoder) -> str:
    """Features of different recordings differ, with all leads and with one: constant ones would be
    scored as chance.
    """
    leads = encoder.contract.leads
    one = SUBSETS[0] if "II" in leads else LeadSubset.of(leads[0])
    for subset in (ALL, one):
        features = [_encoded(encoder, seen(n, encoder.contract), subset)[0] for n in (1, 2, 3)]
        spread = float(np.ptp(features, axis=0).max())
        apart = spread > CONSTANT * max(1e-30, float(np.abs(features).max()))
        demand(apart, f"features do not depend on the recording (at {subset})")
    return "three recordings have three features"


def batch_of_one(encoder: Encoder) -> str:
    """A window's features do not depend on its neighbours in the batch, mixed sets of leads
    included.
    """
    worst, limit = batches.alone_and_together(encoder)
    complaint = f"they differ by {worst:.2g}, more than {limit:.2g}"
    demand(worst <= limit, complaint + _restless(encoder.network))
    return f"largest difference {worst:.1e}"


@torch.inference_mode()
def hidden_rows(encoder: Encoder) -> str:
    """NaN, zeros and noise in rows that are not measured give the same features, bit for bit."""
    x = _input(encoder.contract, "door", 2)
    measured = torch.zeros(x.shape[:2], dtype=torch.bool)
    measured[0, :3], measured[1, -1] = True, True
    noise = 7.0 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    first, *others = (
        encoder.network(torch.where(measured[:, :, None], x, filler), measured)
        for filler in (torch.nan, 0.0, noise)
    )
    filled = torch.where(measured[:, :, None], x, torch.nan)
    again = all(_same(first, encoder.network(filled, measured)) for _ in range(REPEATS))
    demand(again, f"the same input gives other features: {CHANCE}")
    same = all(_same(first, other) for other in others)
    finite = pooled_of(first).isfinite().all()
    demand(same and finite, "a row that was not measured was read")
    return "bit-identical with NaN, zeros and noise"


def _same(one: Any, other: Any) -> bool:
    """Whether two outputs of a network agree in every bit; NaN is no agreement."""
    pairs = [(pooled_of(one), pooled_of(other))]
    if getattr(one, "sequence", None) is not None:
        pairs.append((one.sequence, other.sequence))
    return all(torch.equal(a, b) for a, b in pairs)


def remembers_nothing(network: Network, weights: str = RANDOM) -> str:
    """Features of one lead do not depend on what the process has seen before: here the twelve leads
    of that recording, in a fresh process nothing.
    """
    words = models.ROOM.argument(network.name), weights, str(torch.get_num_threads())
    try:
        fresh = process.ask(__name__, words, SECONDS)
    except process.DiedError as died:
        raise Broken(f"in a fresh process: {died}") from died
    demand("features" in fresh, f"in a fresh process: {fresh.get('reason')}")
    worst = 0.0
    for contract, alone in zip(network.card.contracts, fresh["features"], strict=True):
        encoder, signal = encoder_of(network, contract), seen(1, contract)
        _encoded(encoder, signal, ALL)
        after = _encoded(encoder, signal, SUBSETS[0])
        difference = np.abs(np.array(alone) - after).max() / max(1.0, np.abs(after).max())
        # NaN is no agreement
        moved = f"contract {contract.name}: features move by {difference:.2g} after twelve leads"
        demand(difference <= CLOSE, moved)
        worst = max(worst, float(difference))
    return f"largest difference {worst:.1e}"


def _one_lead(words: list[str]) -> dict[str, Any]:
    name, weights, threads = words
    torch.set_num_threads(int(threads))
    network = build(models.resolve(name), weights)
    encoders = [encoder_of(network, contract) for contract in network.card.contracts]
    found = [_encoded(e, seen(1, e.contract), SUBSETS[0]) for e in encoders]
    return {"features": [features.tolist() for features in found]}


def view(recording: Recording, contract: InputContract) -> np.ndarray:
    """(12, time) mV at the contract's rate, as inference sees a recording."""
    return preprocess.view(recording.rows, recording.fs, contract.preparation)


def encoder_of(network: Network, contract: InputContract, policy: str = "") -> Encoder:
    """Of the network under one policy, or under the contract's own."""
    fed = Policy.of(policy or contract.policy, lambda: (seen(n, contract) for n in (2, 3)))
    return Encoder(network.module, contract, fed)


def _input(contract: InputContract, word: str, windows: int) -> torch.Tensor:
    """(windows, lead, received) float32, standard normal."""
    shape = windows, len(contract.leads), contract.received
    return torch.from_numpy(rng("conformance", word).standard_normal(shape).astype(np.float32))


def seen(number: int, contract: InputContract, windows: int = 1) -> np.ndarray:
    """The view of `recording_of`; the caller's own, for a network may write into its input."""
    return _filtered(number, contract, windows).copy()


@cache
def _filtered(number: int, contract: InputContract, windows: int) -> np.ndarray:
    return view(recording_of(number, contract, windows), contract)


def _encoded(encoder: Encoder, signal: np.ndarray, subset: LeadSubset) -> np.ndarray:
    """(window, dim) of all windows of a view."""
    windows = np.arange(encoder.contract.windows(signal.shape[1]))
    return encoder(signal, {subset.bits: windows})[subset.bits]


@cache
def recording_of(number: int, contract: InputContract, windows: int = 1) -> Recording:
    """A demo recording, as long as some windows; longer ones go on with the next recordings."""
    whole = demo.recording(number)
    samples = round(contract.seconds * windows * whole.fs)
    parts = -(-samples // whole.signal.shape[1])
    signal = np.concatenate([demo.recording(number + i).signal for i in range(parts)], axis=1)
    return replace(whole, signal=signal[:, :samples])


def _disturbed(contract: InputContract, windows: int) -> Disturbed:
    """Of each set of leads, the view of a recording and, by what stands in its hidden leads, those
    of others that agree in the measured ones; the first is called "".
    """
    recording, found = recording_of(1, contract, windows), {}
    for subset in SUBSETS:
        noise = rng("conformance", str(subset)).normal(0, 5, recording.signal.shape)
        found[subset] = {"": seen(1, contract, windows)}
        for kind, other in (("noise", noise), ("a flat line", np.zeros_like(noise))):
            signal = np.where(~subset.mask[:, None], other, recording.signal).astype(np.float32)
            found[subset][kind] = view(replace(recording, signal=signal), contract)
    return found


if __name__ == "__main__":
    process.answer(_one_lead)
