"""ECGFounder for lead I alone: the network of `ecgfounder` with one input, and weights of its own
(Li et al., NEJM AI 2025).

Its authors publish it for wearables. It reads nothing but lead I; a record without it has nothing
to show to this network.
"""

from dataclasses import replace
from pathlib import Path

from ecgbench.models.ecgfounder import CARD as _TWELVE
from ecgbench.models.ecgfounder import Net1D
from ecgbench.models.ecgfounder import paper_layers as paper_layers
from ecgbench.weights.load import loaded

CARD = replace(
    _TWELVE,
    name="",  # the room fills in this file's own
    title="ECGFounder 1-lead",
    summary="ECGFounder's network with lead I as its only input",
    parameters=30_654_000,
    contracts=tuple(replace(contract, leads=("I",)) for contract in _TWELVE.contracts),
    weights=tuple(
        replace(w, url=w.url.replace(w.file, "1_lead_ECGFounder.pth"), file="1_lead_ECGFounder.pth")
        for w in _TWELVE.weights
    ),
    choices={
        **_TWELVE.choices,
        "windows of 2.5 s": (
            "the reference benchmark does not run this network; its contract "
            "`paper` is that of the network of 12 leads"
        ),
        "standardisation": "upstream: mean and population deviation of lead I over the window",
    },
)


def build(weights: str | Path | None = None) -> Net1D:
    """The encoder of lead I in torch's training mode, with random weights or those of a file or
    name (see `load.load`).
    """
    return loaded(Net1D(1), weights, CARD)
