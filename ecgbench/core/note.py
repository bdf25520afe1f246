"""What must be said beside numbers: of what kind it is, and a sentence."""

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["", "alone", "fit", "published", "test", "uncommitted", "untrained"]
"""Of notes that are not grave; alone: why a row is compared with none; fit: what a fit says of
itself; test: why a row has no interval or is not tested, or what it is compared on.
"""


@dataclass(frozen=True)
class Note:
    """Of a run, or of a row of its tables."""

    kind: Kind | str
    """A Kind; of a grave note a word in capitals, such as SYNTHETIC DATA, which is printed."""
    text: str

    @property
    def grave(self) -> bool:
        """A page shows it before any number."""
        return self.kind not in get_args(Kind)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.grave else self.text


class Notes(tuple[Note, ...]):
    """Those of a row; as text, one behind the other."""

    def __str__(self) -> str:
        return "; ".join(map(str, self))
