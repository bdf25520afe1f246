"""The room of models: one file per network, and families of networks in one file, `timm:resnet18`.
`models.get("laef").build()` gives a torch module with random weights.
"""

import importlib
from contextlib import suppress
from typing import Any

from ecgbench.contracts import Model
from ecgbench.core.registry import Room
from ecgbench.errors import BadSetting


def _ready(packages: set[str]) -> None:
    """Load torch, and make timm importable, see `torchvision_operators`, where a plug-in imports
    them.
    """
    if "torch" in packages:
        importlib.import_module("torch")
    if packages & {"timm", "torchvision"}:
        from ecgbench.layers.torchvision_operators import import_timm

        with suppress(BadSetting):  # the plug-in's own import says what is missing
            import_timm()


ROOM = Room(
    "ecgbench.models",
    "model",
    Model,
    before_import=_ready,
    families=frozenset({"timm"}),
    heavy=True,
)
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve


def __getattr__(name: str) -> Any:
    """`ecgbench.models.Features`, which every network returns; imported on demand, for it needs
    torch.
    """
    if name == "Features":
        from ecgbench.layers.features import Features

        return Features
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
