"""A plan that was frozen before the test records were scored: what is run, which hypotheses are
tested, and its hash.

    <run>/frozen.json   {"format": 1, "frozen": {...}, "sha256": of canonical JSON of "frozen"}

The date comes from the clock of the machine that wrote it, so it proves little by itself. The hash
can be registered elsewhere (OSF, a commit, an e-mail).
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ecgbench.core.files import as_json, content_of, locked, put
from ecgbench.core.keys import key
from ecgbench.core.note import Note
from ecgbench.errors import BadSetting

FILE = "frozen.json"
FORMAT = 1
SUPERIORITY, NON_INFERIORITY = "superiority", "non-inferiority"
NONE = "No plan was frozen before the test records were scored: everything here is exploratory."
"""The note of a run without one."""
Kind = Literal["superiority", "non-inferiority"]


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """Compares a model at a lead setting with another model or setting, on the same patients."""

    name: str
    kind: Kind
    family: str
    """Hypotheses of one family are corrected together (Holm)."""
    metric: str
    tasks: tuple[str, ...]
    """With several: the mean over datasets, each the mean of its tasks."""
    model: str
    policy: str = ""
    """"": the only one under which the model runs."""
    leads: str
    """As typed: a number, or named leads."""
    against_model: str
    against_policy: str = ""
    against_leads: str
    margin: float | None = None
    """Of non-inferiority, a fraction."""


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """A frozen plan."""

    title: str
    alpha: float
    plan: str
    """The study, as the text of a plan file."""
    hypotheses: tuple[Hypothesis, ...]
    date: str
    """By the clock of the machine; see `provenance.date`."""
    version: str
    commit: str | None
    dirty: bool | None

    @property
    def hash(self) -> str:
        """sha256 of its canonical JSON."""
        return key(asdict(self))

    @property
    def study(self) -> dict[str, Any]:
        """The part that is the plan, without date, version and commit."""
        whole = json.loads(json.dumps(asdict(self)))
        return {k: whole[k] for k in ("title", "alpha", "plan", "hypotheses")}


@dataclass(frozen=True, kw_only=True)
class FrozenFile:
    """The file of a frozen plan in a run folder."""

    plan: Frozen
    stated: str
    """The hash in the file."""

    @property
    def intact(self) -> bool:
        """Whether the content has that hash."""
        return self.stated == self.plan.hash


def read(run: Path) -> FrozenFile | None:
    """The frozen plan of a run folder, None where there is none; BadSetting where it cannot be
    read.
    """
    file = run / FILE
    if not file.is_file():
        return None
    try:
        document = json.loads(content_of(file))
        if document["format"] != FORMAT:
            raise ValueError
        body = document["frozen"]
        made = [Hypothesis(**{**h, "tasks": tuple(h["tasks"])}) for h in body["hypotheses"]]
        plan = Frozen(**{**body, "hypotheses": tuple(made)})
        return FrozenFile(plan=plan, stated=str(document["sha256"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise BadSetting(
            f"{file} is not a frozen plan that this version can read; restore the file, or use "
            f"another folder"
        ) from None


def write(run: Path, plan: Frozen, scored: bool) -> tuple[FrozenFile, bool]:
    """Freeze a plan in a run folder. Returns the frozen plan of the folder, and whether it is new.

    scored: whether the folder has a scored cell. BadSetting where test records were scored in it
    already, or where another plan is frozen there; WriteError.
    """
    with locked(run, ".freeze"):
        if stored := read(run):
            if stored.plan.study == plan.study and stored.intact:
                return stored, False
            raise BadSetting(
                f"{run} holds another frozen plan, of {stored.plan.date} (hash "
                f"{stored.stated[:16]}); a plan is frozen once: choose a new folder with --out"
            )
        if scored:
            raise BadSetting(
                f"{run}: test records were scored in this folder already, and a plan is frozen "
                f"before that; choose a new folder with --out, and say in your paper what was "
                f"seen before"
            )
        body = {"format": FORMAT, "frozen": asdict(plan), "sha256": plan.hash}
        put(run / FILE, as_json(body))
        return FrozenFile(plan=plan, stated=plan.hash), True


def demand_intact(stored: FrozenFile, run: Path) -> None:
    """BadSetting where the file was changed after it was frozen."""
    if not stored.intact:
        raise BadSetting(
            f"{run}/{FILE} was changed after it was frozen: it states the hash "
            f"{stored.stated[:16]}, and holds {stored.plan.hash[:16]}; restore the file, or choose "
            f"another folder"
        )


def warnings(run: Path) -> Iterator[Note]:
    """Reasons not to trust the frozen plan of a run, one sentence each."""
    stored = read(run)
    if stored is None:
        return
    if not stored.intact:
        yield Note(
            "FROZEN PLAN CHANGED",
            f"{FILE} does not hold what its hash was made of, so nothing here is confirmatory; "
            f"restore the file.",
        )
