"""The room of models: one file per network, and families of networks in one file, `timm:resnet18`.
`models.get("laef").build()` gives a torch module with random weights.
"""

from typing import Any

from ecgbench.core.cards import ModelCard
from ecgbench.core.registry import Room

ROOM = Room("ecgbench.models", "model", ("CARD", "build"), ModelCard, families=frozenset({"timm"}))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve


def __getattr__(name: str) -> Any:
    """`ecgbench.models.Features`, which every network returns; imported on demand, for it needs
    torch.
    """
    if name == "Features":
        from ecgbench.layers.features import Features

        return Features
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
