"""The room of models: one file per network. `models.get("laef").build()` gives a torch module with random weights."""

from typing import Any

from ecgbench.room import Room

ROOM = Room("ecgbench.models", "model", ("CARD", "build"))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve


def __getattr__(name: str) -> Any:
    """`ecgbench.models.Features`, which every network returns; imported on demand, for it needs torch."""
    if name == "Features":
        from ecgbench.models._features import Features

        return Features
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
