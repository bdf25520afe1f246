"""The room of adapters: how missing leads are filled. `native` is no file: the network itself reads
`measured`.
"""

from ecgbench.contracts import Adapter
from ecgbench.core.registry import Room

ROOM = Room("ecgbench.adapters", "adapter", Adapter, besides=frozenset({"hide"}))
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve
