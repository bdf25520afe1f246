"""The page of results: reports/index.html, and the excerpt on the first page of the site.

Numbers come from the CSV files of the reports in reports/, what nobody has measured from the cards
of models and data sets. `python tools/site.py` writes the page. A report is a folder that
`ecgbench report --publish` wrote (main_table.csv) or a study of pre-training (ablation.csv), with a
README.md: its title, the command (the first indented block), and the line
`Measured by NAME on 2026-11-26, on MACHINE.`
"""

import csv
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import jinja2

from ecgbench import datasets, models
from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.cards.model import OURS
from ecgbench.core.registry import Room

HERE = Path(__file__).parent
REPORTS = HERE.parent / "reports"
PAGE = REPORTS / "index.html"
COSTS = HERE.parent / "benchmarks" / "fine_tuning.csv"
FIRST = ("12", "2", "1", "I+II", "I", "II")
"""Lead settings that are always on the page; the others are behind a tick box."""
EXCERPT = "ptbxl_super"
FEWEST = ("I", "II", "1", "2")
"""Lead settings that the first sentence speaks of: the first that was measured."""
KEPT = ("kept", "kept_low", "kept_high")
"""Columns of verdicts.csv: share of the skill above chance at twelve leads."""
WEIGHTS = {
    "released": "weights of its authors",
    "released (own)": "weights of this project",
    "random": "random weights",
    "none": "nothing is learned",
    "own": "weights of those who measured it",
}
STUDIES = "pre-training"
"""The choice in the page's list of tasks that shows the studies of pre-training."""
CELLS = {
    "gat": "GAT",
    "gin": "GIN",
    "mlp": "MLP",
    "spatiotemporal": "LAEF's graph",
    "fully_connected": "full graph",
    "none": "no graph",
    "some": "LAEF, some leads in each step",
    "all": "LAEF, all leads in each step",
}
"""The words in the first column of ablation.csv."""


@dataclass(frozen=True)
class Score:
    """Macro AUROC and its 95 % interval, fractions; without a number, the reason in words."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    why: str = ""


@dataclass
class Row:
    """A model with its weights: a score per lead setting, or the reason why there is none."""

    model: str
    label: str = ""
    scores: dict[str, Score] = field(default_factory=dict)
    missing: str = ""
    command: str = ""
    untrained: bool = False
    key: dict[str, str] = field(default_factory=dict)
    """Its model and policy in the CSV files."""

    def has(self, *settings: str) -> bool:
        """Whether it has a number at these lead settings."""
        return all(k in self.scores and not self.scores[k].why for k in settings)


@dataclass
class Group:
    """The rows of one task in one report."""

    task: str
    title: str
    note: str
    rows: list[Row]
    source: "Source"


@dataclass(frozen=True)
class Difference:
    """A paired difference of macro AUROC and its interval, fractions."""

    what: str
    value: float
    low: float
    high: float
    evidence: bool
    source: "Source"


class Source:
    """A report in reports/."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        text = (folder / "README.md").read_text(encoding="utf-8")
        title = re.search(r"^# (.+)$", text, re.M)
        command = re.search(r"(?:^    .*\n)+", text, re.M)
        made = re.search(r"^Measured by (.+) on (\d{4}-\d\d-\d\d), on (.+)\.$", text, re.M)
        if not (title and command and made):
            raise SystemExit(
                f"{folder}/README.md needs a title, an indented block with the command, and the "
                f"line 'Measured by NAME on 2026-11-26, on MACHINE.'"
            )
        self.title, self.command = title[1], re.sub("^    ", "", command[0].rstrip(), flags=re.M)
        self.by, self.date, self.machine = made.groups()
        self.page = "index.html" if (folder / "index.html").exists() else "README.md"

    def rows(self, file: str) -> list[dict[str, str]]:
        """A CSV of the report; [] if it has none of that name."""
        path = self.folder / file
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as text:
            return list(csv.DictReader(text))

    @cached_property
    def protocol(self) -> str:
        """What was trained: probe, linear or finetune."""
        text = (self.folder / "main_table.md").read_text(encoding="utf-8")
        found = re.search(r"Protocol (\w+), contract", text)
        if found is None:
            raise SystemExit(f"{self.folder}/main_table.md does not name the protocol")
        return found[1]

    @property
    def sample(self) -> str:
        """A sentence where its data sets were not complete."""
        parts = [
            f"{int(row['records']):,} of the {int(row['records_release']):,} recordings of "
            f"{row['dataset']}"
            for row in self.rows("datasets.csv")
            if int(row["records"]) < int(row["records_release"])
        ]
        return f"Computed on {', '.join(parts)}: others give other numbers." if parts else ""

    @property
    def commits(self) -> str:
        """The commits that computed its cells."""
        known = (row["commit"] for row in self.rows("commits.csv"))
        return ", ".join(commit[:8] for commit in known if re.fullmatch("[0-9a-f]{40}", commit))


def sources() -> list[Source]:
    """All reports; those of a run first."""
    found = [Source(page.parent) for page in sorted(REPORTS.glob("*/README.md"))]
    for source in found:
        if not (source.rows("main_table.csv") or source.rows("ablation.csv")):
            raise SystemExit(f"{source.folder} holds neither main_table.csv nor ablation.csv")
    return sorted(found, key=lambda source: not source.rows("main_table.csv"))


# --- what was measured


def measured(source: Source) -> Iterator[Group]:
    """The tasks of a report of a run."""
    table = [row for row in source.rows("main_table.csv") if row["metric"] == "auroc"]
    if not table:
        raise SystemExit(f"{source.folder}/main_table.csv has no line of the metric auroc")
    names, facts = list(dict.fromkeys(row["model"] for row in table)), source.rows("models.csv")
    if len(names) != len(facts):
        raise SystemExit(f"{source.folder}: models.csv has not one line per model of the table")
    by_name = dict(zip(names, facts))
    for task in dict.fromkeys(row["task"] for row in table):
        made: dict[tuple[str, str], Row] = {}
        own = [row for row in table if row["task"] == task]
        for line in own:
            fact = by_name[line["model"]]
            if not fact["weights"].startswith(line["weights"]):
                raise SystemExit(f"{source.folder}: models.csv and main_table.csv differ in order")
            key = {name: line[name] for name in ("model", "policy")}
            random = line["weights"] == "random"
            row = made.setdefault(
                (line["model"], line["policy"]),
                Row(fact["model"], labelled(fact, line), untrained=random, key=key),
            )
            row.scores[line["leads"]] = score(line)
        yield Group(task, *heading(source, task, own[0]), [*made.values()], source)


def labelled(fact: dict[str, str], line: dict[str, str]) -> str:
    """Whose weights a row has, what they saw, and how leads were filled."""
    weights, policy = fact["weights"], line["policy"]
    words = [WEIGHTS.get(weights, f"weights {weights}")]
    if fact["corpora"] and line["weights"] not in ("random", "none"):
        words.append(f"pre-trained on {fact['corpora']}")
    if policy != "native":
        words.append("padded with zeros" if policy == "zero" else f"leads filled by {policy}")
    return ", ".join(words)


def score(line: dict[str, str]) -> Score:
    """A line of a CSV with value (or score), low and high."""
    value, reasons = line.get("value") or line.get("score"), (line.get("note"), line.get("status"))
    if not (value and line["low"] and line["high"]):
        why = next((word for word in reasons if word and word != "ok"), "no interval")
        return Score(why=why)
    return Score(float(value), float(line["low"]), float(line["high"]))


def heading(source: Source, task: str, line: dict[str, str]) -> tuple[str, str]:
    """The title of a task, and what its scores were computed on."""
    found = next(((d, t) for _, d, t in tasks() if t.name == task), None)
    part = ""
    if found:
        for data in source.rows("datasets.csv"):
            used, all_of = int(data["records"]), int(data["records_release"])
            if data["dataset"] == found[0].title and used < all_of:
                part = f"; a sample of {used:,} of {all_of:,} recordings"
    frozen = "all weights trained" if source.protocol == "finetune" else "encoder frozen"
    synthetic = "; synthetic recordings" if found and found[0].synthetic else ""
    return found[1].title if found else task, (
        f"{line['n_labels']} labels, {int(line['n_records']):,} test recordings of "
        f"{int(line['n_patients']):,} patients{part}{synthetic}; {source.protocol}, {frozen}"
    )


def pretrained(source: Source) -> Iterator[Group]:
    """The networks of a study of pre-training."""
    rows = []
    for line in source.rows("ablation.csv"):
        name = ", ".join(CELLS.get(word, word) for word in line["cell"].split("/"))
        if line["score"]:
            label = f"pre-trained by this study, {line['seeds']} seeds"
            rows.append(Row(name, label, {"12": score(line)}))
    note = "mean over seeds; a linear head, encoder frozen; validation patients of PTB-XL"
    yield Group(STUDIES, source.title, note, rows, source)


def differences(source: Source) -> Iterator[Difference]:
    """What a study of pre-training compared."""
    for line in source.rows("ablation_differences.csv") + source.rows("ablation_lead_sampling.csv"):
        if "cell" in line:
            name = ", ".join(CELLS.get(word, word) for word in line["cell"].split("/"))
            what = f"{name}, less GAT, LAEF's graph"
        else:
            what = f"some leads in each step, less all leads: {line['contrast']}"
        numbers = (float(line[name]) for name in ("difference", "low", "high"))
        yield Difference(what, *numbers, line["evidence"] == "true", source)


# --- what is missing


def tasks() -> Iterator[tuple[str, DatasetCard, Task]]:
    """Every task with its data set; the synthetic one last."""
    own = [(name, card) for name, card in cards(datasets.ROOM)]
    for name, card in sorted(own, key=lambda pair: pair[1].synthetic):
        yield from ((name, card, task) for task in card.tasks)


def cards(room: Room) -> Iterator[tuple[str, Any]]:
    """Those that come with ecgbench."""
    yield from ((name, room.get(name).CARD) for name in room.names() if room.built_in(name))


def missing(runs: Sequence[Group]) -> dict[str, list[Row]]:
    """What no report of a run has, by a heading: models in the tasks that were measured, tasks."""
    here = {group.task for group in runs}
    data = {name for name, _, task in tasks() if task.name in here}
    rows = [absent_task(*one, one[0] in data) for one in tasks() if one[2].name not in here]
    return {"Models": absent_models(runs), "Tasks": rows}


def absent_models(runs: Sequence[Group]) -> list[Row]:
    """A row per model without a number in a measured task, with the names of such tasks."""
    known = {task.name: task.title for _, _, task in tasks()}
    titles = {group.task: known.get(group.task, group.task) for group in runs}

    def lacking(what: str, there: Collection[str]) -> str:
        lost = [title for task, title in titles.items() if task not in there]
        return f"{what}, on {', '.join(lost)}" if lost else ""

    trained = (WEIGHTS["released"], WEIGHTS["none"])
    rows = []
    for name, card in cards(models.ROOM):
        seen = {
            g.task for g in runs for r in g.rows
            if r.model == card.title and r.label.startswith(trained)
        }  # fmt: skip
        if card.parameters and (label := lacking(WEIGHTS["released"], seen)):
            fetched = any("://" in weights.url for weights in card.weights)
            why = "weights: fetch with" if fetched else "weights: not published"
            if card.weights and not fetched and card.origin != OURS:
                why = "nothing: its weights come with the package"
            command = f"ecgbench models fetch {name}" if fetched else ""
            rows.append(Row(card.title, label, missing=why, command=command))
    tuned = {group.task for group in runs if group.source.protocol == "finetune"}
    if label := lacking("all weights trained", tuned):
        rows.append(Row("Fine-tuned models", label, missing=gpu()))
    return rows


def gpu() -> str:
    """What fine-tuning takes, from benchmarks/fine_tuning.csv."""
    with COSTS.open(encoding="utf-8", newline="") as file:
        *_, hours = csv.DictReader(file)
    by_name = {name.strip("`"): int(h) for name, h in hours.items() if h.isdigit()}
    laef = by_name.pop("laef")
    return (
        f"GPU: {laef} h for LAEF, {min(by_name.values())} to {max(by_name.values())} h for others, "
        f"for the 18 tasks of the paper at an assumed 10 TFLOP/s"
    )


def absent_task(name: str, card: DatasetCard, task: Task, here: bool) -> Row:
    """The row of a task that no report has; `here`: another task of its data set was measured."""
    run = f"ecgbench run --models laef --tasks {task.name} --leads 1,2,12"
    if card.synthetic:
        return Row(task.title, "synthetic", missing="says nothing about patients:", command=run)
    if here:
        return Row(task.title, missing="no report yet:", command=f"{run} --data DIR")
    if card.access == "open":
        fetch = f"ecgbench data fetch {name} --data DIR"
        return Row(task.title, missing="data: fetch with", command=fetch)
    return Row(task.title, missing=f"data: on request ({card.access})")


# --- the page


def groups(found: Sequence[Source]) -> list[Group]:
    """What was measured, task by task; the studies of pre-training last."""
    runs = [g for s in found if s.rows("main_table.csv") for g in measured(s)]
    order = list(dict.fromkeys(group.task for group in runs))
    studies = [g for s in found for g in pretrained(s) if g.rows]
    return sorted(runs, key=lambda group: order.index(group.task)) + studies


def finding(made: Sequence[Group]) -> str:
    """What was found so far, in a sentence: of the first trained model of the report of EXCERPT
    with the most test recordings, and of the first with random weights. "" where there is none.
    """
    own = sorted((group for group in made if group.task == EXCERPT), key=tested, reverse=True)
    for few, group in product(FEWEST, own):
        rows = [
            r for r in group.rows if r.has(few, "12") and not r.label.startswith(WEIGHTS["none"])
        ]
        trained, random = ([r for r in rows if r.untrained is chance] for chance in (False, True))
        if trained:
            said = [fewer(trained[0], few), *kept(group, trained[0], few)]
            said += [fewer(row, few) for row in random[:1]]
            return f"So far, on {group.title} ({group.note.partition(';')[0]}), {'; '.join(said)}."
    return ""


def tested(group: Group) -> int:
    """Test recordings of a task in its report."""
    rows = group.source.rows("main_table.csv")
    return max(
        (int(r["n_records"]) for r in rows if r["task"] == group.task and r["n_records"]), default=0
    )


def fewer(row: Row, few: str) -> str:
    """The scores of a model with few leads and with twelve."""
    scores = (row.scores[few], row.scores["12"])
    less, full = (f"{points(s.value)} [{points(s.low)}, {points(s.high)}]" for s in scores)
    whose = row.label.partition(",")[0]
    return f"{row.model} ({whose}) has macro AUROC {less} from {lead(few)} and {full} from 12 leads"


def kept(group: Group, row: Row, few: str) -> Iterator[str]:
    """The skill that few leads keep, where the verdicts of the report have it."""
    names = {"task": group.task, "label": "macro", "leads": few, **row.key}
    for line in group.source.rows("verdicts.csv"):
        if names.items() <= line.items() and line.get("kept_low"):
            share, low, high = (f"{100 * float(line[n]):.0f}" for n in KEPT)
            yield f"{lead(few)} keeps {share} % [{low}, {high}] of what 12 leads give above chance"


def lead(setting: str) -> str:
    """A lead setting in a sentence."""
    return spelled(setting) if setting.isdigit() else f"lead {setting}"


def leads(found: Sequence[Group]) -> list[str]:
    """The columns: FIRST, then all others of the reports in their order."""
    return list(dict.fromkeys([*FIRST, *(k for g in found for row in g.rows for k in row.scores)]))


def spelled(setting: str) -> str:
    """A lead setting as the head of a column."""
    words = {"1": "1 random lead", "12": "12 leads"}
    return words.get(setting, f"{setting} random leads" if setting.isdigit() else setting)


def points(fraction: float, sign: bool = False) -> str:
    """A fraction x 100, with a true minus."""
    return f"{100 * fraction:{'+' if sign else ''}.1f}".replace("-", "−")


def page() -> str:
    """The whole of reports/index.html."""
    found = sources()
    made = groups(found)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.globals |= {"points": points, "spelled": spelled}
    return environment.get_template("results.html.j2").render(
        finding=finding(made),
        groups=made,
        missing=missing([group for group in made if group.task != STUDIES]),
        leads=leads(made),
        first=FIRST,
        sources=found,
        differences=[d for source in found for d in differences(source)],
        choices={group.task: group.title for group in made if group.task != STUDIES},
        studies=STUDIES,
    )


def excerpt() -> str:
    """What was found, and a Markdown table of one task, for the first page of the site."""
    made = groups(sources())
    group = next(group for group in made if group.task == EXCERPT)
    shown = ("12", "2", "1", "I", "II")
    lines = [["model", *(spelled(k) for k in shown)], ["---", *["---:"] * len(shown)]]
    for row in group.rows:
        numbers = [
            f"{points(s.value)}<br><small>{points(s.low)}–{points(s.high)}</small>"
            if row.has(k) and (s := row.scores[k])
            else ""
            for k in shown
        ]
        lines.append([f"{row.model}, {row.label}", *numbers])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return (
        f"{finding(made)}\n\n{table}\n\n"
        f"*{group.title}: {group.note}. Macro AUROC × 100; in brackets and in small: 95 % "
        f'intervals.* <a href="reports/index.html">All results</a>, with the commands that repeat '
        f"them and with what nobody has measured yet."
    )
