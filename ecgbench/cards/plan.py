"""A study as typed, and its cells. Pure data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ecgbench.cards.cell import PAPER, RELEASED, Cell, Fit, Scoring, Training
from ecgbench.core.division import OFFICIAL, Division
from ecgbench.core.keys import grouped
from ecgbench.ecg.draw import Fixed, LeadSetting, settings
from ecgbench.ecg.leads import LeadSubset
from ecgbench.errors import BadSetting, UnknownName

FLAT_LEADS = "flat_leads"


SUSPECT_LEADS = "suspect_leads"


EXCLUDABLE = {
    FLAT_LEADS: "a lead without variation",
    SUSPECT_LEADS: "leads, a unit or a rate that are perhaps not as stated",
}
"""Kinds of records that a study may leave out, and their descriptions."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all cells of a study have in common."""

    limit: int | None = None
    """Number of records of each dataset."""
    exclude: tuple[str, ...] = ()
    """Kinds of records to leave out: flat_leads, suspect_leads."""
    fix: bool = False
    """Use the copies in which exchanged or inverted limb leads are corrected."""
    division: Division = field(default_factory=Division)
    """5: cross-validation; ptb=10: another number of folds of a split; reference; not set: the
    datasets' own splits.
    """
    training: Training = field(default_factory=Training)
    scoring: Scoring = field(default_factory=Scoring)
    name: str = ""
    """Name of the run folder, if none is given."""
    control: str = ""
    """Name of the control; "" for a study itself."""


@dataclass(frozen=True, kw_only=True)
class Plan(Settings):
    """The cells of one or several requests."""

    cells: tuple[Cell, ...]

    @property
    def fits(self) -> tuple[Fit, ...]:
        """The fits its cells need, each once, in order."""
        return tuple(dict.fromkeys(c.fit for c in self.cells))

    @property
    def folds(self) -> tuple[str, ...]:
        """Folds of its fits, each once, in order."""
        return tuple(dict.fromkeys(f.fold for f in self.fits))

    def shared(self) -> dict[str, Any]:
        """Settings that must agree for two plans in one run folder."""
        return {
            "training": asdict(self.training),
            "scoring": self.scoring.of_predictions,
            "limit": self.limit,
            "exclude": list(self.exclude),
            "fix": self.fix,
            "folds": str(self.division) or None,
            "contract": self.cells[0].fit.contract if self.cells else None,
            # a study that is no control keeps the keys that it had before there were any
            **({"control": self.control} if self.control else {}),
        }

    def joined(self, other: "Plan") -> "Plan":
        """This plan, followed by the other's cells."""
        return replace(self, cells=tuple(dict.fromkeys([*self.cells, *other.cells])))

    def of_tasks(self, tasks: Sequence[str]) -> "Plan":
        """The cells of some tasks; all if none is named. UnknownName for a task that is not in the
        plan.
        """
        known = list(dict.fromkeys(cell.task for cell in self.cells))
        for task in tasks:
            if task not in known:
                raise UnknownName("task", task, known)
        return replace(self, cells=tuple(c for c in self.cells if not tasks or c.task in tasks))

    def powered(self, least: int = 0) -> "Plan":
        """This plan with enough draws for the smallest p of its largest Holm family: 100 per pair
        of rows, and at least `least`.
        """
        families = grouped(self.cells, lambda c: (c.task, c.setting.typed)).values()
        rows = (len({(c.fit.model, c.policy) for c in family}) for family in families)
        pairs = max((n * (n - 1) // 2 for n in rows), default=0)
        draws = max(self.scoring.draws, least, 100 * pairs)
        return replace(self, scoring=replace(self.scoring, draws=draws))


@dataclass(frozen=True, kw_only=True)
class Request(Settings):
    """A study as typed."""

    models: tuple[str, ...]
    """Names or paths."""
    tasks: tuple[str, ...]
    """Names, or paths of your own datasets."""
    leads: tuple[int | LeadSubset, ...]
    """Counts drawn at random, and named sets: 1,2,12,I,II,I+V2 or 1-12."""
    seeds: int = 5
    """Draws of random leads."""
    fit_seeds: tuple[int, ...] = (0,)
    """Seeds of the training; several repeat it."""
    weights: str = "released"
    """released, random, released_or_random or a path; or laef=random,stmem=PATH."""
    policies: tuple[str, ...] = (PAPER,)
    """How missing leads are filled: paper (each model's own way), native, or names."""
    contract: str = "paper"
    """How models are fed: paper (reference benchmark) or upstream (authors)."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """Task -> the task whose fit scores it; from the cards, once names are checked."""
    own_policies: Mapping[str, str] = field(default_factory=dict)
    """Model -> its policy under `paper`; from the cards, once names are checked."""

    def weights_of(self) -> dict[str, str]:
        """Model -> its weights, for a checked study."""
        return weights_of(self.weights, self.models)


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Folders of data and results."""

    data: Path | None
    prepared: Path | None
    out: Path
    shared: Path | None = None
    """For a control: the run whose features of the same recordings it uses and adds to."""

    def absolute(self) -> "Folders":
        """The same folders as absolute paths."""
        folders = {name: folder and folder.absolute() for name, folder in vars(self).items()}
        return replace(self, **folders)


def weights_of(
    text: str, models: Sequence[str], resolve: Callable[[str], str] | None = None
) -> dict[str, str]:
    """The weights of each model by `--weights`: one word for all, or name=value pairs; a model that
    no pair names takes the released ones. A comma may be part of the name of a file.

    resolve: gives the proper name of a model. BadSetting where a pair names no model of these, or
    none has a value.
    """
    if "=" not in text or Path(text).expanduser().is_file():
        return dict.fromkeys(models, text)
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        name, equals, word = part.partition("=")
        joined = f"{pairs[-1][1]},{part}" if pairs else ""
        of_a_file = joined and Path(joined).expanduser().is_file()
        if pairs and (not equals or of_a_file or (resolve is None and name not in models)):
            pairs[-1] = pairs[-1][0], joined
        else:
            pairs.append((resolve(name) if resolve else name, word))
    chosen = dict(pairs)
    if not {*chosen} <= {*models} or not all(chosen.values()) or len(pairs) != len(chosen):
        raise BadSetting(
            f"--weights {text}: name some of {', '.join(models)}, each at most once, for example "
            f"--weights {models[0]}=random; the others take their released weights"
        )
    return {name: chosen.get(name, RELEASED) for name in models}


def plan_of(request: Request) -> Plan:
    """The cells of a checked request, which contains all facts of the cards."""
    scored = grouped(request.tasks, lambda task: request.parents.get(task, task))
    cells = [
        Cell(fit=fit, task=task, setting=setting, policy=policy)
        for fit_task in scored
        for model in request.models
        for fits, tested, policies in _fits(request, fit_task, model)
        for fit in fits
        for task in scored[fit_task]
        for policy in policies
        for setting in tested
    ]
    same = {one.name: getattr(request, one.name) for one in fields(Settings)}
    return Plan(cells=tuple(dict.fromkeys(cells)), **same).powered()


def _fits(
    request: Request, task: str, model: str
) -> Iterator[tuple[list[Fit], Sequence[LeadSetting], list[str]]]:
    """Fits of one model on one task, each with the lead settings and policies that it serves."""
    tested = settings(request.leads, request.seeds)
    usual = request.own_policies.get(model, "zero")
    policies = [usual if name == PAPER else name for name in request.policies]
    one = Fit(
        task=task,
        model=model,
        contract=request.contract,
        weights=request.weights_of()[model],
        seed=0,
    )
    fits = [
        replace(one, seed=seed, fold=fold)
        for seed in request.fit_seeds
        for fold in request.division.fits or (OFFICIAL,)
    ]
    if request.training.leads == "all":
        yield fits, tested, policies
        return
    # where training leaves leads out, each policy has fits of its own; `same`: each setting too
    same = request.training.leads == "same"
    for policy in policies:
        for served in [[setting] for setting in tested] if same else [tested]:
            # all twelve are no set: a record shows those that it has
            fixed = same and isinstance(served[0], Fixed)
            shown = str(served[0].subset) if fixed else ""  # type: ignore[union-attr]
            served_fits = [replace(fit, policy=policy, shown=shown) for fit in fits]
            yield served_fits, served, [policy]
