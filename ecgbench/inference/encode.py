"""From one record's view to the features of its windows: hide, fill or gather, normalise, cut, run the network.

What is computed for a record and a set of leads depends on nothing else: batches never mix records and hold either all its
windows or one (the last bits of a matrix product depend on the batch), so a resumed, extended or repeated run gives the same
numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ecgbench.adapters._adapt import NATIVE, Policy, adapt
from ecgbench.cards import InputContract
from ecgbench.ecg.leads import ALL, bits_to_mask
from ecgbench.ecg.preprocess import windows
from ecgbench.errors import LeakError

LEAD_BY_LEAD = ("none", "minmax-per-lead")
"""Normalisations that commute with hiding, so that leads may be embedded before it is known which are measured."""


@dataclass(frozen=True)
class Encoder:
    """A frozen network behind its contract and a policy."""

    network: nn.Module
    contract: InputContract
    policy: Policy
    singly: bool = False
    """Each window is a batch of its own: needed where the windows of a record have different leads."""

    @property
    def shares_embeddings(self) -> bool:
        """Whether each lead is embedded once and serves every lead setting."""
        able = hasattr(self.network, "embed_leads") and hasattr(self.network, "encode")
        return able and self.policy.name == NATIVE and self.contract.normalisation in LEAD_BY_LEAD

    @torch.inference_mode()
    def __call__(self, view: np.ndarray, wanted: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """view (12, time) mV at the contract's rate; wanted: bit mask -> window indices. Returns bit mask -> (window, dim).

        LeakError when a feature is not finite: NaN stands in every hidden lead.
        """
        run = self._shared if self.shares_embeddings else self._each
        found = run(view, wanted)
        for mask, features in found.items():
            if not np.isfinite(features).all():
                raise LeakError(f"features of leads {bits_to_mask(np.array(mask)).astype(int)} are not finite: a hidden lead was read")
        return found

    def _each(self, view: np.ndarray, wanted: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        found = {}
        for mask, chosen in wanted.items():
            signal, measured = adapt(view, bits_to_mask(np.array(mask)), self.contract, self.policy)
            batch, rows = torch.from_numpy(cut(signal, self.contract.samples)[chosen]), torch.from_numpy(measured)
            parts = batch.split(1 if self.singly else len(batch))
            found[mask] = torch.cat([self.network(p, rows.expand(len(p), -1)).pooled for p in parts]).numpy()
        return found

    def _shared(self, view: np.ndarray, wanted: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        signal, _ = adapt(view, ALL.mask, self.contract, self.policy)
        network: Any = self.network  # `shares_embeddings` has seen both methods
        tokens = network.embed_leads(torch.from_numpy(cut(signal, self.contract.samples)))
        found = {}
        for mask, chosen in wanted.items():
            rows = torch.from_numpy(_rows(mask, self.contract))
            picked = tokens[torch.from_numpy(chosen)]
            picked[:, ~rows] = torch.nan  # a network that reads a hidden lead all the same is found out
            parts = picked.split(1 if self.singly else len(chosen))
            found[mask] = torch.cat([network.encode(p, rows.expand(len(p), -1)).pooled for p in parts]).numpy()
        return found


def cut(signal: np.ndarray, samples: int) -> np.ndarray:
    """(lead, time) -> (window, lead, samples): consecutive windows, the incomplete rest dropped."""
    count = windows(signal.shape[1], samples)
    return np.ascontiguousarray(signal[:, : count * samples].reshape(len(signal), count, samples).swapaxes(0, 1))


def _rows(mask: int, contract: InputContract) -> np.ndarray:
    return bits_to_mask(np.array(mask))[[ALL.leads.index(n) for n in contract.leads]]
