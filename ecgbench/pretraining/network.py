"""The network that a recipe names, as far as pre-training can use it."""

from ecgbench import models
from ecgbench.errors import BadSetting
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining import descriptors
from ecgbench.pretraining.objective import nodes_of

OFFERED = ("embed_leads", "outputs", "width", "depth")
"""What a network must have, see `NodeEncoder`."""


def new_network(model: str) -> NodeEncoder:
    """A model's network with random weights (torch's generator).

    BadSetting where it lacks one of OFFERED, or makes other nodes than the descriptors have
    segments.
    """
    network: NodeEncoder = models.get(model).build()
    if lacking := [name for name in OFFERED if not hasattr(network, name)]:
        raise BadSetting(
            f"model {model} cannot be pre-trained: its network has no {', '.join(lacking)}; "
            f"docs/pretraining.md says what it needs"
        )
    contract = models.ROOM.card(model).contracts[0]
    segments, rest = divmod(contract.samples, descriptors.SAMPLES)
    nodes = nodes_of(network, contract.samples)
    if rest or nodes != segments or contract.fs != descriptors.FS:
        raise BadSetting(
            f"model {model} makes {nodes} nodes of {contract.samples} samples at {contract.fs:g} "
            f"Hz, and codes are of "
            f"segments of {descriptors.SAMPLES} samples at {descriptors.FS:g} Hz; each segment "
            f"needs a node"
        )
    return network
