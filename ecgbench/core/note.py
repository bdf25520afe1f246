"""What must be said beside numbers: of what kind it is, and a sentence."""

from dataclasses import dataclass
from typing import Literal, get_args

Grave = Literal[
    "FROZEN PLAN CHANGED",
    "DAMAGED",
    "SYNTHETIC DATA",
    "RANDOM WEIGHTS",
    "RANDOM START",
    "OWN WEIGHTS",
    "SEEN BEFORE",
    "SEEN IN PART",
    "NOT KNOWN WHETHER SEEN",
    "NOT IN MILLIVOLTS",
    "SOME TASKS ONLY",
    "LIMITED",
    "NOT FINISHED",
    "INCOMPLETE",
    "UNEQUAL SEEDS",
    "UNCOMMITTED CHANGES",
]
Kind = Grave | Literal["", "published", "uncommitted", "untrained", "test"]
"""`test`: why a row has no interval or is not tested, or what it is compared on."""


@dataclass(frozen=True)
class Note:
    """Of a run, or of a row of its tables."""

    kind: Kind
    text: str

    @property
    def grave(self) -> bool:
        """A page shows it before any number."""
        return self.kind in get_args(Grave)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.grave else self.text


class Notes(tuple[Note, ...]):
    """Those of a row; as text, one behind the other."""

    __slots__ = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self))
