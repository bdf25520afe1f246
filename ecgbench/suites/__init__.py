"""The room of suites: each file is a named study with its command, duration and expectation."""

from ecgbench.core.registry import Room

ROOM = Room("ecgbench.suites", "suite", ("PLAN",))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve
