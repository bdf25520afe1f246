"""The room of engines: where jobs are carried out, one file each. See `ecgbench.study.engine`
for what they define.
"""

from ecgbench.core.registry import Room

ROOM = Room("ecgbench.study.engines", "engine", ("CARD", "start"))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve
