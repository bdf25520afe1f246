"""Imports recordings of one's own, for `ecgbench data import` and `ecgbench run --records`."""

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from ecgbench import datasets, models
from ecgbench.cards.cell import EITHER, RANDOM
from ecgbench.cards.dataset import PATIENTS_UNKNOWN
from ecgbench.cards.plan import Request
from ecgbench.core.division import OFFICIAL, Division
from ecgbench.core.registry import plain
from ecgbench.core.text import visible
from ecgbench.data.imported import summary
from ecgbench.data.imported.corrections import edited
from ecgbench.data.imported.importing import Order, bring, same, usual_folds
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.errors import BadSetting
from ecgbench.study.plan_file import RecordSettings, keys
from ecgbench.study.progress import counting, display

IMPORTED = "imported"
"""Folder of a run with the cards of recordings that came with it."""


@dataclass(frozen=True, kw_only=True)
class RecordFiles:
    """Recordings in files, and how they and their labels are read."""

    folder: Path
    labels: Path | None
    options: ReadOptions
    how: RecordSettings = field(default_factory=RecordSettings)

    @classmethod
    def of(cls, given: Mapping[str, Any], settings: dict[str, Any]) -> Self | None:
        """Of the options of `ecgbench run`; None without --records. settings: key -> value that
        was typed, without those of `records` afterwards. BadSetting for an option without it.
        """
        typed = {name: settings.pop(key) for name, key in _keys().items() if key in settings}
        if folder := given.get("records"):
            options = {n: given[n] for n in ("fs", "unit", "signals") if n in given}
            how, labels = RecordSettings(**typed), given.get("labels")
            return cls(folder=folder, labels=labels, options=ReadOptions(**options), how=how)
        stray = [f"--{name}" for name in ("labels", "fs", "unit", "signals") if name in given]
        if stray := [*stray, *(f"--set {_keys()[name]}" for name in typed)]:
            raise BadSetting(f"{stray[0]} belongs to --records FOLDER; add that")
        return None

    def order(self, name: str, to: Path) -> Order:
        """The request to import them as a dataset called `name` into the folder `to`."""
        if self.labels is None:
            raise BadSetting(f"--records {self.folder} has no labels: add --labels labels.csv")
        how: dict[str, Any] = {"columns": self.how.label_columns, **asdict(self.how)}
        del how["label_columns"]
        where: dict[str, Any] = {"folder": self.folder, "labels": self.labels, "to": to}
        return Order(name=name, options=self.options, **where, **how)


def bring_in(records: RecordFiles, out: Path) -> Path:
    """The card of recordings that are imported into a run folder, now or by an earlier run on the
    same files.
    """
    order = records.order(name_of(records.folder), out / IMPORTED)
    if not same(order):
        import_records(order, err=True)
        return order.card
    print(f"{order.card}: imported before from the same files and labels", file=sys.stderr)
    if not datasets.get(str(order.card)).CARD.patients_known:
        print(PATIENTS_UNKNOWN, file=sys.stderr)
    for file in edited(order.to):
        print(f"{file} was edited after the import; it is used as it is", file=sys.stderr)
    return order.card


def imported_card(tasks: Sequence[str]) -> Path | None:
    """The card of an import, where it is all that is asked."""
    card = Path(tasks[0]) if len(tasks) == 1 else Path()
    return card if card.suffix in datasets.ROOM.as_data and card.is_file() else None


def cross_validated(request: Request, card: Path) -> Request:
    """The same study with cross-validation where an import has few recordings."""
    if not (folds := usual_folds(card)):
        return request
    few = "patients" if datasets.get(str(card)).CARD.patients_known else "recordings"
    what = f"few {few}: --folds {folds}, so that each record is tested once"
    print(f"{what} (--folds {OFFICIAL}: the split that records.csv gives)", file=sys.stderr)
    return replace(request, division=Division.parse(str(folds)))


def chooses_models(typed: Collection[str], weights: str) -> bool:
    """Whether the models of recordings are those whose weights are here, as none is named."""
    return (
        not {"models", "plan"} & {*typed} and "=" not in weights and weights not in (RANDOM, EITHER)
    )


def models_here(weights: str) -> tuple[str, ...]:
    """The models whose `weights` are here; BadSetting where there is none."""
    from ecgbench.study.preflight import locate  # torch: names are checked before it is loaded

    cards = {name: models.ROOM.card(name) for name in models.names() if models.ROOM.built_in(name)}
    here = [m for m in cards if cards[m].parameters and not locate(m, weights)]
    if not here:
        raise BadSetting(
            f"the {weights} weights of no model are here; get them: ecgbench models fetch NAME "
            f"(ecgbench list models shows them), or give --weights random"
        )
    return tuple(here)


def import_records(order: Order, err: bool = False) -> None:
    """Import, and say what was found: on standard error where the command goes on."""
    try:
        with counting(f"read {order.name}", display()) as shown:
            made = bring(order, shown)
    except BadSetting as error:
        raise BadSetting(as_of_a_run(str(error)) if err else str(error)) from None
    for text in summary.lines(made):
        if not (err and text.startswith("next: ")):
            said = visible(as_of_a_run(text) if err else text)
            print(said, file=sys.stderr if err else sys.stdout)


def _keys() -> dict[str, str]:
    """Field of `RecordSettings` -> its key."""
    return {key.path[1]: key.name for key in keys().values() if key.path[0] == "records"}


def as_of_a_run(text: str) -> str:
    """A sentence about options of `ecgbench data import` with those that a run has in their place.

    >>> as_of_a_run("leave them out: --partial; or --split part (--to DIR)")
    'leave them out: --set records.partial=on; or --set data.split=part (--out DIR)'
    """
    for one in fields(RecordSettings):
        option, key = "--" + one.name.replace("_", "-"), f"--set {_keys()[one.name]}"
        if isinstance(one.default, bool):
            text = re.sub(rf"{option}\b", f"{key}=on", text)
        text = re.sub(rf"{option} (?=\S)", f"{key}=", text)
    return re.sub(r"--to\b", "--out", text)


def name_of(folder: Path) -> str:
    """A name from that of a folder; never one that a dataset or task here has."""
    name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_") or "own"
    return f"own_{name}" if is_taken(name) else name


def is_taken(name: str) -> bool:
    """Whether a dataset or task that comes with ecgbench, or is installed, has a name."""
    records = {n for n in datasets.names() if datasets.ROOM.argument(n) != n}
    tasks = {task: dataset for task, (dataset, *_) in datasets.tasks().items()}
    names = {n: n for n in datasets.names()} | tasks
    return plain(name) in {plain(n) for n, dataset in names.items() if dataset not in records}
