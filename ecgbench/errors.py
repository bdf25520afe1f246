"""The errors a user can meet: one line that repeats the setting and proposes the next command."""

import difflib
from collections.abc import Iterable
from pathlib import Path

INTERRUPTED = "interrupted; what is finished is stored, the same command goes on from there"
"""What the command line says after Ctrl-C."""
STOPS = (KeyboardInterrupt, GeneratorExit)
"""Not of the code that raises them; whatever else a plug-in raises, SystemExit too, is its own."""


class EcgbenchError(Exception):
    """Base of every error that the user can correct; the command line prints it in one line and
    exits with 2.
    """


class UnknownName(EcgbenchError):
    """A model, task, lead, policy, ... that does not exist; suggests the nearest names.

    >>> print(UnknownName("model", "leaf", ["laef", "stmem"]))
    unknown model 'leaf'; did you mean laef? Known: laef, stmem
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        known = list(known)
        lower = {k.lower(): k for k in known}
        near = difflib.get_close_matches(name.lower(), lower, cutoff=0.5)
        guess = f"; did you mean {' or '.join(lower[n] for n in near)}?" if near else "."
        listing = f" Known: {', '.join(known)}{'.' if hint else ''}" if len(known) <= 24 else ""
        super().__init__(f"unknown {kind} {name!r}{guess}{listing}{' ' + hint if hint else ''}")
        self._words = (kind, name, known, hint)

    def __reduce__(self) -> tuple[type, tuple[str, str, list[str], str]]:
        return type(self), self._words  # so that it survives the way back from another process


class MissingData(EcgbenchError):
    """A dataset that is not where it was looked for: path, variable, and the command that helps."""


class DamagedCopy(MissingData):
    """A prepared copy that is not as it was written; preparing sets it aside and makes another."""

    folder: Path | None = None
    """Where it lies; None where another process found it."""
    why: str = "is not as it was written"


class MissingRequirements(EcgbenchError):
    """Several things that a run needs and this machine lacks: its `args` are the lines to print."""

    def __str__(self) -> str:
        return " ".join(self.args)


class BadSetting(EcgbenchError):
    """A setting that cannot be met: a lead twice, a count outside 1..12, options that exclude each
    other.
    """


class Damaged(BadSetting):
    """A file of a run that is not what the run wrote: no number is made from it."""


class BadRecord(EcgbenchError):
    """One recording that cannot be trusted; preparing quarantines it with this reason and goes
    on.
    """


class BadWeights(EcgbenchError):
    """Weights that do not match the network tensor for tensor; the run stops."""


class LeakError(EcgbenchError):
    """A policy or a network touched a lead that was not measured, or a policy was shown a record
    outside the training split.
    """


class PolicyError(LeakError):
    """A policy that leaks or was shown what it must not see: its own cells fail, the model's others
    do not.
    """


class WriteError(EcgbenchError):
    """A file of ours that cannot be written: no space, an I/O error, no permission; the run stops
    and nothing is lost.
    """


def named(name: str, text: str) -> EcgbenchError:
    """The error called `name` with its message, as another process wrote it.

    >>> named("BadSetting", "--leads 13: a count of leads is 1 to 12")
    BadSetting('--leads 13: a count of leads is 1 to 12')
    """
    kind = globals().get(name)
    if not (isinstance(kind, type) and issubclass(kind, EcgbenchError)):
        kind = EcgbenchError
    error = kind.__new__(kind)
    error.args = (text,)
    return error
