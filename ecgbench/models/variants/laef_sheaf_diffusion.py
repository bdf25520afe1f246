"""Neural sheaf diffusion under LAEF's embedder (Bodnar et al., NeurIPS 2022, arXiv:2202.04579,
equation 4): a step against the gradient of how much neighbours disagree.
"""

from dataclasses import replace
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from ecgbench.layers.grid import listening
from ecgbench.layers.sheaf import Sheaf
from ecgbench.models import laef
from ecgbench.models.laef import Laef, LaefConfig
from ecgbench.weights.load import loaded

CARD = replace(
    laef.CARD,
    title="LAEF, sheaf diffusion",
    summary=("LAEF's embedder under three blocks of neural sheaf diffusion, width 512"),
    paper="Bodnar, Di Giovanni, Chamberlain, Liò and Bronstein, NeurIPS 2022, arXiv:2202.04579",
    parameters=3_704_092,
    dim=512,
    weights=(),
    corpora=(),
    choices={
        "block": (
            "x <- Dropout(GELU(LayerNorm(x + lower(step(lift(x)))))): each block lifts "
            "nodes into their stalks and lowers them again"
        ),
        "maps": (
            "rotations of a plane, learned from both ends of an edge in every block; the "
            "paper says nothing of which maps it takes"
        ),
        "channels": ("29 planes for each 64 of the width, so that the parameters fit the budget"),
        "activation": ("ELU of the step"),
        "normalised": ("Laplacian by the number of neighbours and one, on both sides"),
        "dropout": ("of the block only"),
    },
)


class SheafDiffusion(Sheaf):
    """lower(X - ELU(L (1 x W1) X W2)) with X = lift(x) and L the normalised sheaf Laplacian."""

    def __init__(self, config: LaefConfig) -> None:
        super().__init__(config.width, 29 * config.width // 64)

    def forward(self, x: Tensor, dropped: Tensor | None = None) -> Tensor:
        """(batch, lead, time, width) -> the same shape; dropped as in `GATv2`."""
        x = self.lift(x)
        heard = listening(x, dropped, itself=False).to(x.dtype)
        # slots of other leads where there is one lead are its own, which `listening` left out
        neighbours = heard.sum(-1).squeeze(2).unsqueeze(-1)
        scale = (neighbours + 1).rsqrt()
        mixed = scale * self.mixed(x)
        laplacian = scale * (neighbours * mixed - self.carried(heard, self.turns(x), mixed))
        out: Tensor = self.lower(x - F.elu(laplacian))
        return out


CONFIG = LaefConfig(width=512, blocks=3, attention=SheafDiffusion)


def build(weights: str | Path | None = None, config: LaefConfig = CONFIG) -> Laef:
    """The network with random weights (torch's generator), or with those of a file."""
    return loaded(Laef(config), weights, CARD)
