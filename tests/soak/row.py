"""What a fault is, and what may come of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.soak.place import Place

Outcome = Literal[
    "refused",
    "repaired",
    "survived",
    "named",
    "silent wrong number",
    "traceback",
    "lost",
    "other",
]
GOOD: tuple[Outcome, ...] = ("refused", "repaired", "survived", "named")
BAD: tuple[Outcome, ...] = ("silent wrong number", "traceback", "lost", "other")
MEANING: dict[Outcome, str] = {
    "refused": "one line that names the fault, exit code 2; nothing else happened",
    "repaired": "what was damaged was set aside or made again; all tables byte-identical",
    "survived": "all tables byte-identical, the damaged thing does not matter to them",
    "named": "the tables say which cell, record or part has no number, and why; the other numbers "
    "are unchanged",
    "silent wrong number": "a table holds another number, or lacks one, and nothing says so",
    "traceback": "a person saw a Python traceback",
    "lost": "something finished before the fault is gone afterwards",
    "other": "hung, left a process behind, said several errors or none, or ended otherwise than "
    "the row allows",
}


@dataclass(frozen=True)
class Row:
    """One fault: put into a copy of the study called `base`, then what a person does next."""

    family: str
    name: str
    base: str
    """Of bases.MADE."""
    act: Callable[[Place], None]
    """Puts the fault in and gives the commands; what they said stands in `place.said`."""
    allowed: tuple[Outcome, ...] = GOOD
    check: Callable[[Place], str] | None = None
    """In place of a comparison of the tables: what is not as it must be, or ""."""
    of: str = ""
    """Words, such as the name of a record, of what may be left out where they are told: other
    numbers are right then.
    """
    seconds: float = 600
    """After which it has hung."""

    @property
    def id(self) -> str:
        return f"{self.family}/{self.name}"


@dataclass(frozen=True)
class Verdict:
    """What came of a row."""

    id: str
    outcome: Outcome
    why: str = ""

    @property
    def family(self) -> str:
        return self.id.partition("/")[0]
