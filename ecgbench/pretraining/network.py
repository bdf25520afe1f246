"""The network that a recipe names, as far as pre-training can use it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ecgbench import models
from ecgbench.errors import BadSetting
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretraining import descriptors
from ecgbench.pretraining.objective import nodes_of

OFFERED = ("embed_leads", "outputs", "width", "depth")
"""What a network must have, see `NodeEncoder`."""


def new_network(model: str, shape: Sequence[tuple[str, Any]] = ()) -> NodeEncoder:
    """A model's network with random weights (torch's generator), its configuration changed by
    `shape`.

    BadSetting where it lacks one of OFFERED, has no such configuration, or makes other nodes than
    the descriptors have segments.
    """
    network = _built(model, dict(shape))
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


def _built(model: str, shape: dict[str, Any]) -> NodeEncoder:
    module = models.get(model)
    if not shape:
        network: NodeEncoder = module.build()
        return network
    config = getattr(module, "CONFIG", None)
    if config is None or not {*shape} <= {*config.__dataclass_fields__}:
        raise BadSetting(
            f"model {model} has no {', '.join(shape)} to choose: its file needs a CONFIG with "
            f"them, which build(config=...) takes; ecgbench/models/laef.py shows how"
        )
    changed: NodeEncoder = module.build(config=replace(config, **shape))
    return changed
