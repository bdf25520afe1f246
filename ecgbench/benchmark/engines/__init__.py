"""The room of engines: where jobs are carried out, one file each. See `ecgbench.benchmark.engine`
for what they define.
"""

from ecgbench.room import Room

ROOM = Room("ecgbench.benchmark.engines", "engine", ("CARD", "start"))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve
