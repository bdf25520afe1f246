"""Python in ten lines: run and read a study, recordings as a torch dataset, features of arrays.

The functions are those of `import ecgbench`, which imports this file when one of them is used.
What the user can correct is an `ecgbench.errors.EcgbenchError` of one line.
"""

import io
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from html import escape
from itertools import product
from numbers import Integral, Real
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from ecgbench import datasets, models, reports
from ecgbench.cards.cell import PAPER, RELEASED
from ecgbench.cards.model import ModelCard
from ecgbench.cards.plan import weights_of
from ecgbench.cards.settings import Words
from ecgbench.core.note import Note, Notes
from ecgbench.core.registry import plain
from ecgbench.core.text import shortened
from ecgbench.data.prepare import prepare
from ecgbench.data.reading import as_stored, checked
from ecgbench.data.select import SPLITS, Selection
from ecgbench.datasets import demo
from ecgbench.ecg import draw
from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.evaluate.device import choose, demand
from ecgbench.exchange import opened
from ecgbench.policies.hide import Policy
from ecgbench.prediction.predict import embed, predict
from ecgbench.prediction.records import features
from ecgbench.results import compare as comparing
from ecgbench.results import joint, study, verdicts
from ecgbench.results.columns import meaning
from ecgbench.results.precompute import Stage
from ecgbench.study import command
from ecgbench.study.jobs import ROOMS
from ecgbench.study.options import RunOptions
from ecgbench.study.plan import resolve_tasks
from ecgbench.study.progress import counting, display

if TYPE_CHECKING:  # torch takes seconds, which reading results need not spend
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike
    from torch import nn

    from ecgbench.evaluate.encode import Encoder
    from ecgbench.evaluate.recordings import Recordings

__all__ = ["Model", "Run", "embed", "load", "load_model", "predict", "read", "run"]

Column = str | tuple[str, str]
"""A model of a run, or (model, policy) where the run has several policies of it."""
COMPARED = ["task", "leads", "metric", "difference", "low", "high", "p"]
COMPARED += ["n_records", "n_patients", "note"]
"""Columns of `Run.compare`."""


def run(  # noqa: PLR0913  (each is an option of the command)
    models: Words | None = None,
    tasks: Words | None = None,
    leads: Words | None = None,
    *,
    out: str | Path | None = None,
    plan: str | Path | None = None,
    weights: Words | None = None,
    policy: Words | None = None,
    protocol: str | None = None,
    train_leads: str | None = None,
    metrics: Words | None = None,
    seeds: int | None = None,
    folds: Words | None = None,
    limit: int | None = None,
    data: str | Path | None = None,
    prepared: str | Path | None = None,
    device: str | None = None,
    engine: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **others: Any,
) -> "Run":
    """Compute what is missing of a study, as `ecgbench run` does with the options of these names
    (`ecgbench run --help`), and read it. Without plan and tasks: the demo. Without out: the folder
    in runs/ that the command takes.

    settings: any key of `--set`, such as {"training.lr": 1e-3}; `ecgbench run --settings` lists
    them. others: further options, such as controls, or records and labels. Cells and their keys
    are those of the command: either extends a folder that the other made. A cell that fails has
    its reason in `study.cells`. It may be called in a notebook, and in a script without
    `if __name__ == "__main__"`. EcgbenchError for what must be corrected first.

    >>> study = run(["laef", "stmem"], "ptbxl_super", "1,2,12", out="runs/a")  # doctest: +SKIP
    """
    study = {"models": models, "tasks": tasks, "leads": leads, "weights": weights}
    how = {"policy": policy, "protocol": protocol, "train_leads": train_leads, "metrics": metrics}
    count = {"seeds": seeds, "folds": folds, "limit": limit, **others}
    where = {"data": data, "prepared": prepared, "out": out, "device": device, "engine": engine}
    options = {"plan": plan, **study, **how, **count, **where}
    if not isinstance(settings or {}, Mapping):
        raise BadSetting(f"settings={settings!r}: keys of --set, as in {{'training.lr': 1e-3}}")
    for name, room in ROOMS.items():  # files of one's own may have been edited since
        if name == "metrics":  # a study that was read needs them
            room.ROOM.reload()
        else:
            room.ROOM.forget()
    if options.pop("dry_run", None):
        raise BadSetting("dry_run: it gives no results to read; type ecgbench run --dry-run")
    done = command.run(
        RunOptions.of(settings or (), command=_command(options, settings or {}), **options)
    )
    made_from = reports.made_from(done.out)
    found = read(done.out, stage=display().stage)
    if done.report is not None and not reports.up_to_date(done.report, made_from):
        with done.reporting():
            reports.write(found, done.report, made_from=made_from)
    return found


def _command(options: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The command line with these options: a run folder keeps it as the one that repeats the
    run.
    """
    given = {name: _text(value) for name, value in options.items() if value is not None}
    plan = [given.pop("plan")] if "plan" in given else []
    words = [w for n, v in given.items() for w in (f"--{n.replace('_', '-')}", v)]
    sets = [w for key, v in settings.items() for w in ("--set", f"{key}={_text(v)}")]
    return shlex.join(["ecgbench", "run", *plan, *words, *sets])


def _text(value: Any) -> str:
    """A value as the command line has it."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={word}" for name, word in value.items())
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return ",".join(map(str, value)) if is_list else str(value)


def read(
    path: str | Path,
    metrics: str | Sequence[str] = (),
    stage: Stage | None = None,
    tasks: str | Sequence[str] = (),
    to: str | Path | None = None,
    **of_table: Any,
) -> "Run":
    """Read a run folder, a folder that others exported (`ecgbench runs export`), a published
    report, which has tables and no predictions, or a table of predictions. MissingData where it is
    none of them; BadSetting where an export is not as it was exported.

    metrics: names or paths, the one that tables lead with first; those of the run if left out.
    tasks: of those alone. stage: shows what takes long (`results.precompute.Stage`). Intervals are
    computed from the stored predictions. Of a table (.csv, .tsv, .parquet, .npz) tasks is the task
    of its records; to: the export that is written of it (without: a temporary one); of_table:
    model, leads, by, data and prepared, as `ecgbench read --help` says. Nothing else is written.

    >>> study = read("runs/demo")  # doctest: +SKIP
    >>> study.compare("laef", "stmem", leads="1")  # doctest: +SKIP
    """
    if not isinstance(path, str | Path) or not str(path):
        raise BadSetting(f"read({path!r}): the path of a run, an export, a report or a table")
    named = [[words] if isinstance(words, str) else words for words in (metrics, tasks)]
    ROOMS["metrics"].ROOM.reload()  # files of one's own may have been edited since
    found = opened(Path(path).expanduser(), named[0], stage, named[1], _path(to), **of_table)
    return Run(**{one.name: getattr(found, one.name) for one in fields(found)})


def load(  # noqa: PLR0913  (each is a setting)
    task: str,
    leads: str | int | None = None,
    split: str = "train",
    *,
    data: str | Path | None = None,
    prepared: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> "Recordings":
    """Recordings of one split of a task as a torch.utils.data.Dataset; its class says what an item
    is.

    leads: named ("I", "I+V2"), or a number of them ("1") drawn at random in each record with
    `seed`, the same as in a run at `1@seed0`; None: all that a record has. Records that have fewer
    are left out. split: train, val or test, as the dataset's card says. data: folder of the
    datasets as published. limit: the records that a run with this limit takes. What is not
    prepared yet is prepared now. UnknownName, MissingData, BadSetting.

    >>> dataset = load("ptbxl_super", leads="I", data="DIR")  # doctest: +SKIP
    >>> signal, measured, target = dataset[0]  # doctest: +SKIP
    """
    from ecgbench.evaluate.recordings import Recordings

    for word, value, least in (("limit", limit, 3), ("seed", seed, 0)):
        if value is not None and (not isinstance(value, Integral) or value < least):
            raise BadSetting(f"{word}={value!r}: a whole number, at least {least}")
    name, *others = resolve_tasks([str(task)])
    wanted = draw.parse_leads(str(leads)) if leads is not None else ()
    if others or len(wanted) > 1:
        raise BadSetting(f"load {task} at {leads}: one task, and leads such as I, I+V2 or 1")
    if split not in SPLITS:
        raise UnknownName("split", str(split), SPLITS)
    settings = [
        draw.Count(one, seed) if isinstance(one, int) else draw.Fixed(one) for one in wanted
    ]
    dataset = datasets.tasks()[name][0]
    with counting(f"prepare {dataset}", display()) as shown:
        copy = prepare(dataset, _path(data), _path(prepared), shown, limit)
    table = Selection(copy, limit).of(split)
    for setting in settings:
        table = table[[draw.can_give(setting, int(has)) for has in table["available"]]]
        rows = zip(table["record"], table["available"])
        masks = [draw.bits(setting, str(r), 1, available=int(has))[0] for r, has in rows]
        table = table.assign(available=masks)
    if table.empty:
        raise BadSetting(f"no {split} record of {dataset} has leads for {leads}")
    return Recordings(copy, table, copy.task(name))


def _path(text: str | Path | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


def load_model(
    model: str, weights: str | Path = RELEASED, *, policy: str = PAPER, device: str = "cpu"
) -> "Model":
    """A model that gives features of arrays.

    model: a name or a path. weights: released, random, a name on its card, or a path. policy: how
    leads that are not measured are filled; "paper": as its contract says. Errors are of one line.

    >>> features = load_model("laef").embed(signal, fs=500, leads="I")  # doctest: +SKIP
    """
    from ecgbench.evaluate import network as networks
    from ecgbench.evaluate.encode import Encoder

    name = models.resolve(model)
    demand(chosen := choose(device))
    built = networks.build(name, weights_of(str(weights), [name], models.resolve)[name], chosen)
    card, contract = built.card, built.card.contract(PAPER)
    filled = Policy.of(contract.policy if plain(policy) == PAPER else policy, _untaught)
    if filled.fill is None and not card.native:
        raise BadSetting(f"{card.title} reads all of its leads at once; choose policy zero")
    encoder = Encoder(built.encoder, contract, filled, dim=card.dim)
    path = models.ROOM.argument(name)
    return Model(path, card, built.weights, built.module, encoder)


def _untaught() -> NoReturn:
    raise BadSetting("a policy that learns needs the training split of a run; choose another")


@dataclass(frozen=True, eq=False)
class Model:
    """A model with its weights, ready to embed recordings."""

    name: str
    """Or the path of a file of one's own."""
    card: ModelCard = field(repr=False)
    weights: str
    """As loaded: "random", a name on the card, or a file's name."""
    network: "nn.Module" = field(repr=False)
    """The torch module: network(signal (batch, lead, time), measured (batch, lead)) -> Features."""
    encoder: "Encoder" = field(repr=False)

    def embed(
        self, signal: "ArrayLike", fs: float, leads: str | Sequence[str] | None = None
    ) -> np.ndarray:
        """(dim,) float32 features of a signal (lead, time) in mV, or (batch, dim) of several of one
        shape (batch, lead, time): the mean over the model's windows, what `ecgbench.embed` gives
        of the same recording in a file with these leads.

        fs: Hz, any. leads: the names of the rows, "I,V2" or a list; without: the twelve in clinical
        order. A row of NaN is a lead that is not measured. What does not fit in a recording is a
        warning. BadRecord for one that cannot be used, such as one shorter than a window.
        """
        given = np.asarray(signal, dtype=np.float32)
        if not isinstance(fs, Real) or not 0 < fs < float("inf"):
            raise BadSetting(f"fs={fs!r}: a rate in Hz, above 0, as in fs=500")
        if not given.size:
            raise BadSetting(f"signal of shape {given.shape}: it holds no sample")
        names = re.split("[,+]", leads) if isinstance(leads, str) else list(leads or LEADS)
        if given.ndim not in (2, 3) or given.shape[-2] != len(names):
            raise BadSetting(
                f"signal of shape {given.shape} for {len(names)} leads: (lead, time) or (batch, "
                f"lead, time) in mV, rows named by leads"
            )
        made = [self._embedded(one, fs, names) for one in given.reshape(-1, *given.shape[-2:])]
        return np.stack(made) if given.ndim == 3 else made[0]

    def _embedded(self, signal: np.ndarray, fs: float, leads: Sequence[str]) -> np.ndarray:
        measured = ~np.isnan(signal).all(axis=1)
        names = tuple(lead for lead, there in zip(leads, measured) if there)
        given = Recording(
            signal=signal[measured], unit="mV", leads=names, fs=fs, record="signal", patient=""
        )
        # as a run prepares a recording (`prediction.records`)
        sound, found, _ = checked(given.completed().clinical(), demo.CARD, False)
        for _, sentence in found:
            warnings.warn(sentence, stacklevel=3)
        made = features(as_stored(sound), LeadSubset.of(*names), self.encoder, self.name)
        return made.mean(axis=0, dtype=float).astype(np.float32)


class Run(study.Run):
    """A run (`results.study.Run`: its tables are `main`, `cells`, `labels`, `comparisons`), with
    what is asked of it most.
    """

    @property
    def verdicts(self) -> pd.DataFrame:
        """What may be said of each task, label, lead setting and model: verdicts.csv."""
        return verdicts.verdicts(self)

    def compare(
        self, a: Column, b: Column, leads: Words | None = None, task: str | None = None
    ) -> pd.DataFrame:
        """How much better a is than b: a row for each task and lead setting, or of those named.

        a, b: models, or (model, policy) where the run has several policies of one. Columns: task,
        leads, metric, difference (a less b, a fraction), low, high (95 % interval), p (two-sided,
        of this comparison alone; `comparisons` has those that are corrected), n_records and
        n_patients (of both), note (what both numbers rest on; why there is none, or no test).
        UnknownName, BadSetting.
        """
        sides = [self._column(one) for one in (a, b)]
        known = {name: list(dict.fromkeys(self.main[name])) for name in ("task", "leads")}
        wanted = known | ({"task": [task]} if task else {})
        if leads is not None:
            wanted["leads"] = list(map(str, draw.parse_leads(_text(leads))))
        for kind, names in wanted.items():
            for name in (name for name in names if name not in known[kind]):
                raise UnknownName(kind, name, known[kind])
        pairs = product(wanted["task"], wanted["leads"])
        rows = [self._compared(*pair, sides) for pair in pairs]
        counts = {"n_records": "Int64", "n_patients": "Int64"}
        return pd.DataFrame(rows, columns=COMPARED).astype(counts)

    def _column(self, name: Column) -> tuple[str, str]:
        """The model and policy of this run that are meant."""
        words = str(name).split() if isinstance(name, str | None) else [*map(str, name)]
        known = list(dict.fromkeys(zip(self.main["model"], self.main["policy"])))
        asked = [*map(plain, words)]
        found = [one for one in known if asked and asked == [*map(plain, one)][: len(asked)]]
        if not found:
            every = dict.fromkeys(word for one in known for word in (one[0], " ".join(one)))
            raise UnknownName("model of this run", " ".join(words), [*every])
        if len(found) > 1:
            raise BadSetting(f"{name} has several policies here; name one, such as {found[0]}")
        return found[0]

    def _compared(self, task: str, leads: str, sides: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """A row of `compare`, by the rules of `comparisons`."""
        known: dict[str, Any] = {"task": task, "leads": leads, "metric": self.metric}
        entries, scorer = [joint.Entry(*side, leads) for side in sides], self.scorer
        why = joint.why_missing(self, entries, [task]).get(task, "")
        if why or scorer is None:
            return known | {"note": why or "not read from a run"}
        results = [self.finished[(task, *entry)] for entry in entries]
        of = {one.cell.identity: one for own in results for one in own}
        rows = [comparing.Row(**known, model=model, policy=policy) for model, policy in sides]
        for row, own in zip(rows, results):
            row.cells = [scorer(one, self.metric) for one in own]
        comparing.compare(
            rows, lambda c, names: scorer(of[c.cell.identity], c.metric, names), scorer.evidence
        )
        # the better of the two less the other
        row = next(row for row in rows if row.difference is not None)
        found = row.difference
        assert found is not None
        if row is rows[0]:
            value, low, high = -found.difference, -found.high, -found.low
            found = replace(found, difference=value, low=low, high=high)
        if self.untrained & {*sides}:
            row.p, row.notes = np.nan, [*row.notes, comparing.UNTRAINED]
        row.notes = [*self._cautions(task, leads, sides), *row.notes]
        known |= {name: getattr(found, name) for name in ("difference", "low", "high")}
        known |= {"p": row.p, "n_records": row.shared[0], "n_patients": row.shared[1]}
        return known | {"note": str(Notes(row.notes))}

    def _cautions(self, task: str, leads: str, sides: Sequence[tuple[str, str]]) -> Iterator[Note]:
        """What the numbers of these rows rest on, and what must be said of their fits, each once;
        without what is said of their tests.
        """
        main = self.of(self.metric).main
        mine = main[(main["task"] == task) & (main["leads"] == leads)]
        rows = mine.set_index(["model", "policy"])["note"]
        for note in dict.fromkeys(note for one in sides for note in rows[one]):
            if note.kind not in ("untrained", "test"):
                yield note

    def plot(self, name: str, ax: "Axes | None" = None) -> "Figure":
        """The (first) figure of a report, such as "lead_curve": a matplotlib figure; or that of
        `ax`, on which it is drawn where it has one panel. UnknownName with the nearest name,
        BadSetting where there is nothing to draw.
        """
        figure = self._of_report(name, reports.Figure, "figure")[0]
        if ax is None:
            with reports.drawing(figure) as sheet:
                sheet._repr_png_ = partial(_png, sheet)  # type: ignore[attr-defined]  # notebooks
                return sheet
        ax.legend(handles=list(figure.draw(_one_panel(ax)) or ()))
        return ax.figure  # type: ignore[return-value]

    def table(self, name: str) -> pd.DataFrame:
        """The (main) table of a report, such as "main_table", with the texts that are printed;
        `attrs` has its caption, and its notes with what signs mean. UnknownName, BadSetting.
        """
        every = self._of_report(name, reports.Table, "table")
        table = next((one for one in every if plain(one.name) == plain(name)), every[0])
        heads = [
            f"{c.of} {c.title}".strip() + c.mark + (f" ({c.note})" if c.note else "")
            for c in table.columns
        ]
        rows = [[_printed(c, row.get(c.name, "")) for c in table.columns] for row in table.rows]
        frame = pd.DataFrame(rows, columns=pd.Index(heads))
        signs = [f"{sign} {text}" for sign, text in table.marks.items()]
        notes = [*signs, *table.footnotes, *table.notes]
        frame.attrs = {"caption": table.caption, "notes": notes}
        return frame

    def rows(self, name: str) -> pd.DataFrame:
        """What a report such as "robustness" is made of, unrounded; no rows where the run has
        nothing of it. docs/reference/columns.md says what its columns are. UnknownName, BadSetting.
        """
        name = self._report(name)
        written = self.path / f"{name}.csv"
        if self.scorer is None and written.is_file():  # a published report holds tables alone
            return pd.read_csv(written, dtype={"leads": str})
        frame = reports.get(name).rows(self)
        # a report may give itself more, which is no number and no text
        return frame[[c for c in frame if not reports.ROOM.built_in(name) or meaning(c, name)]]

    def _report(self, name: str) -> str:
        """Of a run."""
        name = reports.resolve(name)
        if (reads := reports.ROOM.card(name).reads) != "run":
            raise BadSetting(f"the report {name} is not of a run, but of: {reads}")
        return name

    def _of_report(self, name: str, kind: Any, word: str) -> list[Any]:
        """Figures, or printed tables, of a report."""
        name = self._report(name)
        found = [
            part
            for section in reports.sections(name, self)
            for outer in section.parts
            for part in getattr(outer, "parts", [outer])
            if isinstance(part, kind) and (kind is reports.Figure or (part.columns and part.rows))
        ]
        if not found:
            raise BadSetting(f"the report {name} has no {word} of this run")
        return found

    def __repr__(self) -> str:
        states = self.of(self.metric).cells["status"].value_counts()
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        lines = [f"Run {self.path}"]
        lines += [f"{n}s: {', '.join(dict.fromkeys(self.main[n]))}" for n in ("task", "model")]
        lines += [f"leads: {', '.join(dict.fromkeys(self.main['leads']))}", f"cells: {counts}"]
        return "\n  ".join(shortened(line, 100) for line in [*lines, *map(str, self.notes[:1])])

    def _repr_html_(self) -> str:
        try:
            table = self.table("main_table")
        except BadSetting:
            return f"<pre>{escape(repr(self))}</pre>"
        notes = [f"<p>{escape(note)}</p>" for note in table.attrs["notes"]]
        return f"{table.to_html(index=False)}{''.join(notes)}"


def _png(sheet: "Figure") -> bytes:
    """A figure as a notebook shows it."""
    out = io.BytesIO()
    sheet.savefig(out, format="png", dpi=100)
    return out.getvalue()


def _one_panel(ax: Any) -> Any:
    """Axes in place of the empty figure on which a report draws."""

    def subplots(down: int = 1, across: int = 1, squeeze: bool = True, **_: Any) -> Any:
        if down * across > 1:
            raise BadSetting("a figure of several panels has no room on one; leave ax out")
        return ax if squeeze else np.array([[ax]])

    return SimpleNamespace(subplots=subplots, supylabel=ax.set_ylabel, colorbar=ax.figure.colorbar)


def _printed(column: reports.Column, value: Any) -> str:
    """A value of a table as reports print it."""
    if isinstance(value, reports.Score):
        return reports.points(value.value) + "*" * value.star
    if isinstance(value, reports.TableCell):
        return f"{value.text}{value.mark} {value.small}".strip()
    if isinstance(value, reports.Code | reports.Link):
        return value.text
    return "--" if value is None else value if value == "" else column.spell(value)
