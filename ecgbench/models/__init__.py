"""The room of models: one file per network. `models.get("laef").build()` gives a torch module with random weights."""

from ecgbench.room import Room

ROOM = Room("ecgbench.models", "model", ("CARD", "build"))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve
