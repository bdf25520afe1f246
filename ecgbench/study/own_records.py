"""Imports recordings of one's own, for `ecgbench data import` and `ecgbench run --records`."""

import re
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ecgbench import datasets, models
from ecgbench.core.cards import PATIENTS_UNKNOWN
from ecgbench.core.cells import EITHER, OFFICIAL, RANDOM, RELEASED
from ecgbench.core.division import Division
from ecgbench.core.registry import plain
from ecgbench.core.text import visible, words
from ecgbench.data.imported import summary
from ecgbench.data.imported.corrections import edited
from ecgbench.data.imported.importing import Order, bring, same, usual_folds
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.errors import BadSetting
from ecgbench.study.plan_file import RecordSettings, keys
from ecgbench.study.progress import counting, display


@dataclass(frozen=True, kw_only=True)
class RecordFiles:
    """The options of recordings: --records, --labels, --fs, --unit and --signals."""

    folder: Path | None
    labels: Path | None
    fs: float | None
    unit: str | None
    signals: str | None

    def order(self, name: str, to: Path, **how: Any) -> Order:
        """The request to import them. how: its further fields."""
        assert self.folder is not None
        if self.labels is None:
            raise BadSetting(f"--records {self.folder} has no labels: add --labels labels.csv")
        options = ReadOptions(fs=self.fs, unit=self.unit, signals=words(self.signals) or ())
        return Order(
            folder=self.folder, labels=self.labels, name=name, to=to, options=options, **how
        )


def within(
    records: RecordFiles,
    values: dict[str, Any],
    folders: tuple[Path | None, Path | None],
    studied: bool,
) -> tuple[Path | None, Path | None]:
    """The run folder and the folder of prepared copies of a run, after its --records (if any) were
    imported into the run folder, now or by an earlier run on the same files.

    values: key -> value that was typed; receives tasks, models and folds. studied: whether a plan
    says which models.
    """
    typed = {name: values.pop(key) for name, key in _keys().items() if key in values}
    tasks: tuple[str, ...] = values.get("tasks") or ()
    out, prepared = folders
    if records.folder is None:
        given = {f"--{name}": value for name, value in asdict(records).items()}
        given |= {f"--set {_keys()[name]}": True for name in typed}
        if stray := [name for name, value in given.items() if value]:
            raise BadSetting(f"{stray[0]} belongs to --records FOLDER; add that")
        card = Path(tasks[0]) if len(tasks) == 1 else Path()
        if card.suffix in datasets.ROOM.as_data and card.is_file():
            _cross_validate(values, card)
        return out, prepared
    how = asdict(RecordSettings(**typed))
    name = name_of(records.folder)
    out = out or Path("runs") / name
    order = records.order(name, out / "imported", columns=how.pop("label_columns"), **how)
    choice = "" if studied or "models" in values else _choose_models(values)
    if same(order):
        print(f"{order.card}: imported before from the same files and labels", file=sys.stderr)
        if not datasets.get(str(order.card)).CARD.patients_known:
            print(PATIENTS_UNKNOWN, file=sys.stderr)
        for file in edited(order.to):
            print(f"{file} was edited after the import; it is used as it is", file=sys.stderr)
    else:
        import_records(order, err=True)
    if choice:
        print(choice, file=sys.stderr)
    if not tasks:
        _cross_validate(values, order.card)
    values["tasks"] = (*tasks, str(order.card))
    return out, prepared


def _cross_validate(values: dict[str, Any], card: Path) -> None:
    """Cross-validation of few recordings, where no folds are typed."""
    if "folds" not in values and (folds := usual_folds(card)):
        few = "patients" if datasets.get(str(card)).CARD.patients_known else "recordings"
        what = f"few {few}: --folds {folds}, so that each record is tested once"
        print(f"{what} (--folds {OFFICIAL}: the split that records.csv gives)", file=sys.stderr)
        values["folds"] = Division.parse(str(folds))


def _choose_models(values: dict[str, Any]) -> str:
    """Choose the models whose weights are here, where none is named; a line that says which."""
    from ecgbench.study.preflight import locate  # torch: names are checked before it is loaded

    text = values.get("weights") or RELEASED
    if "=" in text or text in (RANDOM, EITHER):
        return ""
    cards = {name: models.get(name).CARD for name in models.names() if models.ROOM.built_in(name)}
    here = [m for m in cards if cards[m].parameters and not locate(m, text)]
    if not here:
        raise BadSetting(
            f"the {text} weights of no model are here; get them: ecgbench models fetch NAME "
            f"(ecgbench list models shows them), or give --weights random"
        )
    values["models"] = tuple(here)
    return f"models whose {text} weights are here: {', '.join(here)}"


def import_records(order: Order, err: bool = False) -> None:
    """Import, and say what was found: on standard error where the command goes on."""
    try:
        with counting(f"read {order.name}", display()) as shown:
            made = bring(order, shown)
    except BadSetting as error:
        raise BadSetting(as_of_a_run(str(error)) if err else str(error)) from None
    for text in summary.lines(made):
        if not (err and text.startswith(("next: ", "then: "))):
            said = visible(as_of_a_run(text) if err else text)
            print(said, file=sys.stderr if err else sys.stdout)


def _keys() -> dict[str, str]:
    """Field of `RecordSettings` -> its key."""
    return {key.path[1]: key.name for key in keys().values() if key.path[0] == "records"}


def as_of_a_run(text: str) -> str:
    """A sentence about options of `ecgbench data import` with those that a run has in their place.

    >>> as_of_a_run("leave them out: --partial; or --positive AF (--to DIR)")
    'leave them out: --set records.partial=on; or --set records.positive=AF (--out DIR)'
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
