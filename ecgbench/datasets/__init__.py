"""The room of datasets: one file per dataset, each with a card, an index and a reader."""

from ecgbench.core.cards import DatasetCard
from ecgbench.core.registry import Room

ROOM = Room("ecgbench.datasets", "dataset", ("CARD", "index", "read"), DatasetCard)
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve
