"""What a network makes of missing leads, in numbers: which rows it reads, what stands in for an
absent one, and whether leads that carry no new information change its score.

Nothing is trained and no data are needed: random weights, unless others are named, on generated
recordings. A random network shows what its architecture and its contract do, not what training
makes of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from ecgbench.cards.cell import RANDOM
from ecgbench.cards.model import InputContract
from ecgbench.check._properties import Broken
from ecgbench.check.models import encoder_of, hidden_rows, recording_of, seen, view
from ecgbench.core.seeds import rng
from ecgbench.datasets import demo
from ecgbench.ecg.leads import ALL, LEADS, LIMB, LeadSubset, rows_of
from ecgbench.errors import BadSetting, LeakError
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.features import CONSTANT
from ecgbench.evaluate.network import Network, build
from ecgbench.policies.hide import NATIVE
from ecgbench.stats.paired import tost

RECORDINGS, FEW, LARGE = 40, 12, 10_000_000
"""Recordings, each of another patient; of a network with more than so many parameters, few."""
CHANGED = 2
"""Recordings whose rows are set to 0 mV, exchanged and made larger."""
MARGIN = 0.005
"""A mean difference of probabilities that is as good as none."""
SAME = 1e-4
"""Of the spread between recordings, or of a probability: what rounding may do."""
POLICIES = ("zero", "einthoven", NATIVE)
Head = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model under one policy. What does not depend on the policy stands in each of its rows.
    Movements are those of the feature, relative to its spread between recordings; NaN: not known.
    """

    model: str
    contract: str
    weights: str
    recordings: int
    ignored: str
    """Leads that change no feature when they become 0 mV: III+aVR, all but I, none."""
    hidden: str
    """Other values in rows that are not measured, NaN among them: ignored, refused or read."""
    zeroed: float
    """Movement when one lead that is read becomes 0 mV, median over leads and recordings."""
    ordered: float
    """Median movement when each row holds the lead before it."""
    scaled: float
    """Median movement when all voltages are ten times as large."""
    fewer: str
    """An input with one row less: refused or works."""
    policy: str
    median: float
    """Of the differences of probabilities between I+II and the six limb leads, without sign."""
    largest: float
    """Of the same differences."""
    mean: float
    """Of the same differences with their sign."""
    p: float
    """Of two one-sided tests that this mean lies within the margin."""

    @property
    def verdict(self) -> str:
        """What the limb leads that follow from I and II change."""
        if np.isnan(self.largest):
            return "a hidden lead is read"
        if self.largest <= SAME:
            return "the same"
        return "equal in the mean" if self.p < 0.05 else "not shown to be equal"

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON has it: no number is None."""
        fields = {**vars(self), "verdict": self.verdict}
        return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in fields.items()}


def audit(name: str, weights: str = RANDOM) -> list[Row]:
    """A row for each policy that the model called `name` can have, under its first contract.
    weights: as of `ecgbench run`. BadSetting where its features are the same for all recordings.
    """
    return examined(build(name, weights))


def examined(network: Network) -> list[Row]:
    """`audit` of a network."""
    card = network.card
    contract, count = card.contracts[0], FEW if (card.parameters or 0) > LARGE else RECORDINGS
    numbers = demo.index(None).drop_duplicates("patient").index[:count] + 1
    views = [seen(number, contract) for number in numbers]
    encoder = encoder_of(network, contract)
    whole = features(encoder, views, ALL)
    spread = float(np.sqrt(2 * whole.var(axis=0, ddof=1).sum()))
    if not spread > CONSTANT * max(1e-30, float(np.abs(whole).max())):
        raise BadSetting(
            f"model {network.name!r} has the same features for all recordings, so there is nothing "
            f"to compare; ecgbench check model {network.name}"
        )

    def moved(changed: Sequence[np.ndarray]) -> float:
        apart = features(encoder, changed, ALL) - whole[: len(changed)]
        return float(np.median(np.linalg.norm(apart, axis=1))) / spread

    zeroed = _zeroed(encoder_of(network, contract, "zero"), views[:CHANGED]) / spread
    facts: dict[str, Any] = {
        "model": network.name,
        "contract": contract.name,
        "weights": network.weights,
        "recordings": len(views),
        "ignored": _named(np.logical_not(zeroed.any(axis=1))),
        "hidden": _outcome(encoder),
        "zeroed": float(np.median(zeroed[zeroed.any(axis=1)])) if zeroed.any() else 0.0,
        "ordered": moved([_rolled(v, contract) for v in views[:CHANGED]]),
        "scaled": moved([_louder(number, contract) for number in numbers[:CHANGED]]),
        "fewer": _fewer(encoder, views[0]),
    }
    score = _head(whole)
    own = [p for p in POLICIES if p != NATIVE or card.native]
    return [
        Row(**facts, policy=p, **_limb(encoder_of(network, contract, p), views, score)) for p in own
    ]


def features(encoder: Encoder, views: Sequence[np.ndarray], subset: LeadSubset) -> np.ndarray:
    """(record, dim) float64 of the first window of each view (12, time) mV."""
    first = {subset.bits: np.arange(1)}
    return np.concatenate([encoder(v, first)[subset.bits] for v in views]).astype(np.float64)


def _zeroed(encoder: Encoder, views: Sequence[np.ndarray]) -> np.ndarray:
    """(lead, record): how far the feature moves when this lead alone is not measured and filled."""
    whole = features(encoder, views, ALL)
    others = [LeadSubset(tuple(n for n in LEADS if n != lead)) for lead in LEADS]
    return np.array([np.linalg.norm(features(encoder, views, s) - whole, axis=1) for s in others])


def _named(which: np.ndarray) -> str:
    """Leads in words, by (12,) bool: III+aVR, all but I, none, all."""
    if which.all():
        return "all"
    few, start = (which, "") if which.sum() <= len(LEADS) / 2 else (~which, "all but ")
    return start + "+".join(n for n, w in zip(LEADS, few) if w) if few.any() else "none"


def _rolled(signal: np.ndarray, contract: InputContract) -> np.ndarray:
    """The view in which each lead that the network reads stands in the row of the next one."""
    rows, rolled = rows_of(contract.leads), signal.copy()
    rolled[rows] = signal[np.roll(rows, 1)]
    return rolled


def _louder(number: int, contract: InputContract) -> np.ndarray:
    recording = recording_of(number, contract)
    return view(replace(recording, signal=10 * recording.signal), contract)


def _outcome(encoder: Encoder) -> str:
    """What becomes of rows that are not measured."""
    if len(encoder.contract.leads) == 1:
        return "no such row"
    try:
        hidden_rows(encoder)
    except Broken:
        return "read"
    except Exception:  # a network may refuse by any error
        return "refused"
    return "ignored"


@torch.inference_mode()
def _fewer(encoder: Encoder, signal: np.ndarray) -> str:
    """What becomes of an input without its first row."""
    windows, measured = encoder.inputs(signal, ALL.bits, np.arange(1))
    try:
        one = torch.from_numpy(windows[:, 1:]), torch.from_numpy(measured[None, 1:])
        works = encoder.pooled(encoder.network(*one), 1).isfinite().all()
    except Exception:  # a network may refuse by any error
        return "refused"
    return "works" if works else "refused"


def _limb(encoder: Encoder, views: Sequence[np.ndarray], head: Head) -> dict[str, Any]:
    """The numbers of a row that compare the probabilities of I+II with those of six limb leads."""
    try:
        two, six = (head(features(encoder, views, LeadSubset(s))) for s in (LIMB[:2], LIMB))
    except LeakError:
        return dict.fromkeys(("median", "largest", "mean", "p"), np.nan)
    apart = two - six
    size = np.abs(apart)
    return {
        "median": float(np.median(size)),
        "largest": float(size.max()),
        "mean": float(apart.mean()),
        "p": tost(apart, MARGIN),
    }


def _head(whole: np.ndarray) -> Head:
    """A fixed random linear head: features (record, dim) -> probabilities. Its logits have mean 0
    and standard deviation 1 over the recordings of twelve leads.
    """
    weights = rng("audit", "head", whole.shape[1]).standard_normal(whole.shape[1])
    logits = whole @ weights
    return lambda features: np.asarray(expit((features @ weights - logits.mean()) / logits.std()))


def reading(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """A table of what each model reads; the first line is its head."""
    head = ("changes nothing", "not measured", "one lead 0 mV", "other order", "10 x mV")
    return [("model", *head, "one row less")] + [
        (r.model, r.ignored, r.hidden, *map(_moved, (r.zeroed, r.ordered, r.scaled)), r.fewer)
        for r in {row.model: row for row in rows}.values()
    ]


def _moved(value: float) -> str:
    return "the same" if value <= SAME else f"{value:.2g}"


def limb(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """A table of what the limb leads beside I and II change; the first line is its head."""
    head = ("recordings", "median", "largest", "mean", "p", "I+II and six limb leads")
    return [("model", "policy", *head)] + [
        (
            *(r.model, r.policy, str(r.recordings)),
            *(*map(_number, (r.median, r.largest, r.mean)), _p(r.p), r.verdict),
        )
        for r in rows
    ]


def _number(value: float) -> str:
    # + 0 turns -0.000 to 0.000
    return "" if np.isnan(value) else f"{round(value, 3) + 0:.3f}"


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else _number(value)
