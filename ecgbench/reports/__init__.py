"""The room of reports: each file turns facts of the store into files a person reads."""

from ecgbench.room import Room

ROOM = Room("ecgbench.reports", "report", ("facts", "draw"))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve
