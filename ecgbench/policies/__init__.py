"""The room of policies: how missing leads are filled. `native` is no file: the network itself reads
`measured`.
"""

from ecgbench.contracts import FillingPolicy
from ecgbench.core.registry import Room

ROOM = Room("ecgbench.policies", "policy", FillingPolicy, besides=frozenset({"hide"}))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve
