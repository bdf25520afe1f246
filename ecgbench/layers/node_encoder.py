"""What pre-training asks of a network, whatever makes its nodes: whoever offers this can be
pre-trained by a recipe.
"""

from collections.abc import Sequence

from torch import Tensor, nn


class NodeEncoder(nn.Module):
    """An encoder of leads as rows of nodes. A plug-in may inherit from this, or offer the same
    names.
    """

    width: int
    """Numbers of a node."""
    depth: int
    """Blocks; the last one's nodes are what the network is released for."""

    def embed_leads(self, signal: Tensor) -> Tensor:
        """(lead, time) float32 -> (lead, node, width): each lead alone, equally many nodes for
        equally many samples.
        """
        raise NotImplementedError

    def outputs(
        self, tokens: Tensor, measured: Tensor, blocks: Sequence[int], dropped: Tensor | None = None
    ) -> list[Tensor]:
        """What the asked blocks (1 to `depth`; 0: the tokens themselves) say of every node, each of
        the shape of `tokens`.

        tokens (measured leads of the whole batch, node, width), as `embed_leads(signal[measured])`
        makes them, some of them perhaps replaced (masked); measured (batch, lead) bool. dropped
        (measured leads of the whole batch, node, node) bool, for all blocks: True at [l, t, s]
        where node t must not hear node s of its lead; a block without edges ignores it.
        """
        raise NotImplementedError
