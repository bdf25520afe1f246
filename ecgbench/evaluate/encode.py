"""From one record's view to the features of its windows: hide, fill or gather, normalise, cut, run
the network.

The features of a record and a set of leads depend on nothing else: batches never mix records and
hold either all its windows or one, or each lead of one window alone (the last bits of a matrix
product depend on the batch). So a resumed, extended or repeated run gives the same numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ecgbench.cards.model import InputContract
from ecgbench.ecg.leads import ALL, LeadSubset, bits_to_mask
from ecgbench.errors import EcgbenchError, LeakError
from ecgbench.layers.features import pooled_of
from ecgbench.policies.hide import NATIVE, Policy, adapt, cut

LEAD_BY_LEAD = ("none", "minmax-per-lead", "standardise-per-lead")
"""Normalisations that can be done before hiding, so that leads may be embedded before it is known
which are measured.
"""
SHARED_TOLERANCE = 1e-4
"""Allowed difference between the two ways to compute features, relative to max(1, largest feature).
"""


@dataclass(frozen=True)
class Encoder:
    """A frozen network with its contract and a policy."""

    network: nn.Module
    contract: InputContract
    policy: Policy
    singly: bool = False
    """Each window is a separate batch: needed where the windows of a record have different leads.
    """
    dim: int | None = None
    """Numbers of a feature, as the model's card says; None: any."""

    @property
    def shares_embeddings(self) -> bool:
        """Whether each lead is embedded once and serves every lead setting."""
        able = hasattr(self.network, "embed_leads") and hasattr(self.network, "encode")
        alone = self.contract.normalisation in LEAD_BY_LEAD and self.contract.decimate == 1
        return able and alone and self.policy.name == NATIVE

    @torch.inference_mode()
    def __call__(self, view: np.ndarray, wanted: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """view (12, time) mV at the contract's rate; wanted: bit mask -> window indices. Returns
        bit mask -> (window, dim).

        LeakError when a feature is not finite: NaN stands in every hidden lead. EcgbenchError when
        it is no (window, dim) of floats.
        """
        run = self._shared if self.shares_embeddings else self.each
        features = run(view, wanted)
        for mask, values in features.items():
            demand_finite(values, mask)
        return features

    def inputs(
        self, view: np.ndarray, mask: int, chosen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The input of the network for some windows of a record and a bit mask of leads: (window,
        lead, sample) float32, and which leads are measured (lead,).
        """
        signal, measured = adapt(view, bits_to_mask(np.array(mask)), self.contract, self.policy)
        return cut(signal, measured, self.contract, chosen * self.contract.step), measured

    @torch.inference_mode()
    def check_shared(self, view: np.ndarray, wanted: Mapping[int, np.ndarray]) -> float:
        """LeakError where shared embeddings give other features than a forward pass in which every
        hidden lead is NaN: `embed_leads` receives all leads, and must not mix them with one another
        or with other windows. Returns the largest difference, relative to max(1, largest feature).
        """
        shared, alone = self._shared(view, wanted), self.each(view, wanted)
        worst = 0.0
        for mask, values in alone.items():
            largest = max(1.0, float(np.abs(values).max()))
            difference = float(np.abs(values - shared[mask]).max()) / largest
            # NaN is no agreement
            if not difference <= SHARED_TOLERANCE:
                raise LeakError(
                    f"embed_leads and encode give other features than forward at {_named(mask)} "
                    f"(by {difference:.2g}): a hidden lead may be read; embed_leads must treat "
                    f"each window and each lead by itself"
                )
            worst = max(worst, difference)
        return worst

    def pooled(self, output: Any, windows: int) -> torch.Tensor:
        """The output of a network as (window, dim) float32; EcgbenchError for any other output."""
        pooled = pooled_of(output)
        if isinstance(pooled, torch.Tensor):
            shaped = pooled.ndim == 2 and pooled.shape == (windows, self.dim or pooled.shape[1])
            if shaped and pooled.is_floating_point():
                return pooled.float()
            came = f"{tuple(pooled.shape)} {str(pooled.dtype).removeprefix('torch.')}"
        else:
            came = type(pooled).__name__
        raise EcgbenchError(
            f"the network gave {came} where Features.pooled is ({windows}, {self.dim or 'dim'}) "
            f"of floats: window, feature"
        )

    @torch.inference_mode()
    def each(self, view: np.ndarray, wanted: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """The features as a call gives them, without sharing between sets of leads and without a
        check for finite values.
        """
        features = {}
        for mask, chosen in wanted.items():
            windows, measured = self.inputs(view, mask, chosen)
            batch, rows = torch.from_numpy(windows), torch.from_numpy(measured)
            parts = batch.split(1 if self.singly else len(batch))
            features[mask] = torch.cat(
                [self.pooled(self.network(p, rows.expand(len(p), -1)), len(p)) for p in parts]
            ).numpy()
        return features

    def _shared(self, view: np.ndarray, wanted: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        # NaN stands in the rows of leads that the record does not have
        there = ~np.isnan(view).all(axis=1)
        signal, measured = adapt(view, there, self.contract, self.policy)
        network: Any = self.network  # `shares_embeddings` has seen both methods
        count = self.contract.windows(view.shape[1])
        windows = torch.from_numpy(
            cut(signal, measured, self.contract, np.arange(count) * self.contract.step)
        )
        has = torch.from_numpy(np.flatnonzero(measured))
        some = network.embed_leads(windows[:, has])
        tokens = some.new_full((*windows.shape[:2], *some.shape[2:]), torch.nan)
        tokens[:, has] = some
        if hasattr(network, "per_lead"):
            tokens = network.per_lead(tokens)
        leads = {mask: torch.from_numpy(_rows(mask, self.contract).nonzero()[0]) for mask in wanted}
        alone = {mask: int(its[0]) for mask, its in leads.items() if len(its) == 1}
        single = self._alone(tokens, has, sorted({int(w) for m in alone for w in wanted[m]}))
        stage = torch.full_like(tokens, torch.nan)
        features = {}
        for mask, chosen in wanted.items():
            if mask in alone:
                features[mask] = torch.stack([single[int(w)][alone[mask]] for w in chosen]).numpy()
            else:
                features[mask] = self._together(
                    tokens[torch.from_numpy(chosen)[:, None], leads[mask]], leads[mask], stage
                )
        return features

    def _together(
        self, tokens: torch.Tensor, leads: torch.Tensor, stage: torch.Tensor
    ) -> np.ndarray:
        """tokens (window, measured lead, ...) -> (window, dim), from `stage`, where NaN stands
        before and afterwards.

        A network that reads a hidden lead all the same is found out.
        """
        network: Any = self.network
        picked = stage[: len(tokens)]
        measured = torch.zeros(picked.shape[:2], dtype=torch.bool, device=tokens.device)
        picked[:, leads], measured[:, leads] = tokens, True
        parts = zip(*(x.split(1 if self.singly else len(x)) for x in (picked, measured)))
        pooled = torch.cat([self.pooled(network.encode(p, m), len(p)) for p, m in parts])
        picked[:, leads] = torch.nan
        return pooled.numpy()

    def _alone(
        self, tokens: torch.Tensor, has: torch.Tensor, chosen: list[int]
    ) -> dict[int, torch.Tensor]:
        """tokens (window, lead, ...) -> for each chosen window (lead, dim), what each of the leads
        that the record `has` gives alone; NaN hides the others.

        Always all of them at once, asked for or not: one pass costs less than a few small ones, and
        what a lead gives depends on its record and window alone.
        """
        if not chosen:
            return {}
        network: Any = self.network
        each = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)[has]
        stage = tokens.new_full((len(has), *tokens.shape[1:]), torch.nan)
        rows, features = torch.arange(len(has)), {}
        for window in chosen:
            # NaN but for one lead in each row, which is written anew each time
            stage[rows, has] = tokens[window][has]
            given = self.pooled(network.encode(stage, each), len(has))
            features[window] = given.new_full((tokens.shape[1], given.shape[1]), torch.nan)
            features[window][has] = given
        return features


def demand_finite(features: np.ndarray, mask: int) -> None:
    """LeakError where a feature of these leads is not finite."""
    if not np.isfinite(features).all():
        leak = "" if mask == ALL.bits else "a hidden lead was read, or "
        raise LeakError(
            f"features of {_named(mask)} are not finite: {leak}the network gives NaN or infinity"
        )


def _named(mask: int) -> str:
    """lead II, leads I+V2."""
    subset = LeadSubset.from_bits(int(mask))
    return f"lead{'s' if len(subset) > 1 else ''} {subset}"


def _rows(mask: int, contract: InputContract) -> np.ndarray:
    return bits_to_mask(np.array(mask))[[ALL.leads.index(n) for n in contract.leads]]
