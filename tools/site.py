"""What the site (`make docs`) has that nobody writes by hand: tables from the cards, the command
line from typer, and the folder in which the tutorials run.

A page says where a part goes, `<!-- models -->`, or a CSV file, `<!-- table PATH -->`; BLOCKS has
the parts. README.md and CONTRIBUTING.md are read outside of the site, so theirs are in the files,
and so is the page of results: `python tools/site.py` writes them anew, with `--check` it only says
whether they are fresh.
"""

import csv
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import any_lead  # these four are beside this script
import lists
import results
from lists import table
from notebook import notebook

import ecgbench
from ecgbench import datasets, metrics, models, policies, reports, suites
from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.core.registry import Room
from ecgbench.core.text import enumerated
from ecgbench.data import contamination as corpora
from ecgbench.ecg.leads import LEADS
from ecgbench.evaluate import protocols
from ecgbench.evaluate._network import SLOWER
from ecgbench.models import laef
from ecgbench.policies.hide import NATIVE
from ecgbench.pretrain import codebook, descriptors, probes, recipe
from ecgbench.study import plan_file

ROOT = Path(__file__).parents[1]
NETWORKS = ROOT / "docs" / "reference" / "models"
WORK = ROOT / "build" / "tutorials"
"""Where the commands of the tutorials are typed."""


def model_table() -> str:
    """What each network is, what it was pre-trained on, and what may be done with its weights."""
    rows = []
    for name, module in plug_ins(models.ROOM):
        card = module.CARD
        # networks of one family share the page that their names begin with
        pages = [page.name for page in NETWORKS.glob("*.md") if name.startswith(page.stem)]
        title = f"[{card.title}](models/{max(pages, key=len)})" if pages else card.title
        trained_on = ", ".join(card.corpora) or "none"
        files = (
            ", ".join(
                f"`{w.name}`: " + (f"[{w.file}]({w.url})" if "://" in w.url else f"`{w.url}`")
                for w in card.weights
            )
            or "none"
        )
        size = f"{card.parameters:,}"
        rows.append(
            (
                f"`{name}`",
                title,
                card.summary,
                card.objective,
                size,
                trained_on,
                ", ".join(met(card)) or "none",
                files,
                card.licence,
            )
        )
    head = (
        "name",
        "model",
        "architecture",
        "pre-training objective",
        "parameters",
        "pre-trained on",
        "tasks whose data it has met",
    )
    return table((*head, "checkpoint", "licence"), rows)


def met(card: ModelCard) -> list[str]:
    """Tasks of the datasets that a model was pre-trained on."""
    own = [(name, module.CARD) for name, module in plug_ins(datasets.ROOM)]
    return [
        f"`{task.name}`" + ("" if how in ("equal", "contains") else " (in part)")
        for name, data in own
        if (how := corpora.met(card.corpora, name, data.title)[0]) not in ("none", "unknown")
        for task in data.tasks
    ]


def contract_table() -> str:
    """What each network is fed."""
    rows = []
    for name, module in plug_ins(models.ROOM):
        for contract in module.CARD.contracts:
            rows.append(
                (
                    f"`{name}`",
                    contract.name,
                    fed(contract),
                    contract.absent,
                    yes(module.CARD.native),
                )
            )
    return table(("model", "contract", "input", "an absent lead is", "any subset natively"), rows)


def fed(contract: InputContract) -> str:
    """A contract in one line."""
    leads = "12 leads" if contract.leads == LEADS else " ".join(contract.leads)
    parts = [f"{contract.seconds:g} s at {contract.fs:g} Hz", leads, contract.unit]
    if contract.filter:
        parts.append(
            f"{contract.filter.low:g}-{contract.filter.high:g} Hz ({contract.filter.kind}, "
            f"{PLACES[contract.filter.where]})"
        )
    parts += ["FFT resampling"] if contract.resampler == "fft" else []
    parts += [f"limited to {contract.clip:g} mV"] if contract.clip else []
    if contract.normalisation != "none":
        parts.append(
            contract.normalisation + (" of each window" if contract.scope == "window" else "")
        )
    parts += [f"a window every {contract.stride:g} s"] if contract.stride else []
    parts += [f"leads joined and decimated by {contract.decimate}"] if contract.decimate > 1 else []
    return ", ".join(parts)


def choice_lists() -> str:
    """What a paper leaves open and this project decided."""
    parts = []
    for _, module in plug_ins(models.ROOM):
        lines = [f"- {name}: {sentence}" for name, sentence in module.CARD.choices.items()]
        parts += [
            f"### {module.CARD.title}",
            f"{module.CARD.paper}. Code: {module.CARD.origin}.",
            "\n".join(lines),
        ]
    return "\n\n".join(parts)


def dataset_table() -> str:
    """Datasets as published."""
    rows = []
    for name, module in plug_ins(datasets.ROOM):
        card = module.CARD
        what = f"[{card.title} {card.version}]({card.url})" if card.url else card.title
        size = (f"{card.records:,}", f"{card.patients:,}", f"{card.seconds:g} s at {card.fs:g} Hz")
        rows.append((f"`{name}`", what, *size, card.splits, card.licence))
    return table(("name", "dataset", "records", "patients", "recording", "splits", "licence"), rows)


def task_table() -> str:
    """Tasks, by dataset."""
    rows = []
    for name, module in plug_ins(datasets.ROOM):
        for task in module.CARD.tasks:
            by = (
                f"evaluation only: columns of `{task.parent}`"
                if task.parent
                else "a head of its own"
            )
            rows.append((f"`{task.name}`", task.title, f"`{name}`", str(len(task.labels)), by))
    return table(("name", "title", "dataset", "labels", "predicted by"), rows)


def policy_table() -> str:
    """Policies, and `native`, which is no file."""
    rows = [
        (f"`{name}`", first_sentence(module), yes(hasattr(module, "fit")))
        for name, module in plug_ins(policies.ROOM)
    ]
    native = ("`native`", "No filling: the network reads the measured leads only.", yes(False))
    return table(("name", "a missing lead", "learns from the training split"), [*rows, native])


def metric_table() -> str:
    """Metrics."""
    rows = []
    for name, module in plug_ins(metrics.ROOM):
        card = module.CARD
        chance = "depends on the data" if card.chance is None else f"{card.chance:g}"
        rows.append(
            (
                f"`{name}`",
                card.title,
                card.summary,
                "{:g} to {:g}".format(*card.ends),
                card.direction,
                chance,
                card.source,
            )
        )
    return table(
        ("name", "metric", "what it is", "range", "better is", "guessing gets", "source"), rows
    )


def report_table() -> str:
    """Reports."""
    cards = {name: module.CARD for name, module in plug_ins(reports.ROOM)}
    order = sorted(
        cards, key=lambda name: (cards[name].reads != "run", cards[name].reads, cards[name].order)
    )
    article = {"ablation": "an"}
    rows = [
        (
            f"`{name}`",
            f"{article.get(reads := cards[name].reads, 'a')} {reads}",
            cards[name].summary,
        )
        for name in order
    ]
    return table(("name", "of", "what it shows"), rows)


def csv_table(path: str) -> str:
    """A CSV file of the repository."""
    with (ROOT / path).open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    return table(head, rows)


def column_table() -> str:
    """The data dictionary of the CSV files of a run."""
    with (ROOT / "ecgbench" / "results" / "columns.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return table(
        ("column", "in", "heading", "unit", "what it is"),
        [(f"`{name}`", of and f"`{of}.csv`", *rest) for name, of, *rest in rows],
    )


def suite_lists() -> str:
    """Suites: command, duration and expectation stand in the docstring."""
    parts = []
    for name in suites.names():
        head, _, body = suites.about(name).partition("\n\n")
        parts += [f"### `{name}`", head, "```\n" + body + "\n```"]
    return "\n\n".join(parts)


PLACES = {"native": "before resampling", "record": "after resampling", "window": "each window"}

BLOCKS = {
    "models": model_table,
    "contracts": contract_table,
    "choices": choice_lists,
    "datasets": dataset_table,
    "tasks": task_table,
    "policies": policy_table,
    "metrics": metric_table,
    "reports": report_table,
    "columns": column_table,
    "suites": suite_lists,
}


def plug_ins(room: Room) -> Iterator[tuple[str, ModuleType]]:
    """The room's own plug-ins: what is installed beside ecgbench does not belong in its docs."""
    yield from ((name, room.get(name)) for name in room.names() if room.built_in(name))


def first_sentence(module: ModuleType) -> str:
    """The first line of the docstring without the name before the colon."""
    line = inspect.getdoc(module).split("\n")[0]  # type: ignore[union-attr]
    return line.partition(": ")[2] or line


def yes(value: bool) -> str:
    """For a cell."""
    return "yes" if value else "no"


def floors() -> str:
    """What may import what, from the test that reads the imports."""
    spec = importlib.util.spec_from_file_location(
        "test_repository", ROOT / "tests" / "test_repository.py"
    )
    assert spec is not None
    assert spec.loader is not None
    test = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(test)
    lines = []
    for number, (names, holds) in enumerate(zip(test.FLOORS, test.FLOORS_HOLD, strict=True)):
        spelled = sorted(
            f"`{name}/`" if (test.PACKAGE / name).is_dir() else f"`{name}`" for name in names
        )
        lines += textwrap.wrap(
            f"{number}. {', '.join(spelled)}: {holds}",
            120,
            subsequent_indent="   ",
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def covered() -> str:
    """What the README says is covered: models by what they read, collections by access."""
    every = [module.CARD for _, module in plug_ins(models.ROOM)]
    native, padded = (
        ", ".join(c.title for c in every if c.native == reads) for reads in (True, False)
    )
    filled = enumerated([c.title for c in every if c.native and c.contracts[0].policy != NATIVE])
    named = [module.CARD for _, module in plug_ins(datasets.ROOM) if module.CARD.tasks]
    opened, asked = (
        ", ".join(c.title for c in named if (c.access == "open") == is_open and not c.synthetic)
        for is_open in (True, False)
    )
    lines = (
        f"Networks that read whatever leads are there: {native}. Padded: {padded}. "
        f"{filled} are filled as in the paper; `--policy native` runs them without filling. "
        "[Sizes and licences](docs/reference/models.md).",
        f"Collections, open: {opened}. On request: {asked}. "
        f"Protocols: {', '.join(protocols.ROOM.names()).replace('_', '-')}.",
    )
    return "\n\n".join(textwrap.fill(line, 140, break_on_hyphens=False) for line in lines)


def command_line() -> str:
    """Every command with its options, as typer writes them."""
    words = [sys.executable, "-m", "typer", "ecgbench.cli", "utils", "docs", "--name", "ecgbench"]
    text = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text.partition("\n")[2]


def hyper_parameters() -> str:
    """The paper's hyper-parameters and ours: tools/hyperparameters.md, in which ours are fields of
    the code.
    """
    paper = recipe.get(recipe.PAPER)
    kinds = descriptors.preset(paper.descriptor).parts
    ours = {
        "fed": laef.CARD.contracts[0],
        "config": laef.LaefConfig(),
        "choices": laef.CARD.choices,
        "parameters": laef.CARD.parameters,
        "recipe": paper,
        "first": paper.stages[0],
        "second": paper.stages[1],
        "mel": next(kind for kind in kinds if isinstance(kind, descriptors.Mfcc)),
        "records": codebook.RECORDS,
        "last": probes.LAST,
        "slower": ", ".join(f"{share:g} ({group})" for group, share in SLOWER.items()),
        "plan": plan_file.load(suites.path("paper")).request(),
    }
    template = Path(__file__).with_name("hyperparameters.md")
    return template.read_text(encoding="utf-8").format(**ours)


BLOCKS |= (
    any_lead.BLOCKS
    | lists.BLOCKS
    | {
        "command line": command_line,
        "hyper parameters": hyper_parameters,
        "results": results.excerpt,
        "soak": lambda: (ROOT / "tests" / "soak" / "last.md").read_text(encoding="utf-8"),
    }
)


def on_config(config: Any) -> None:
    """mkdocs: every page says of which version it is, and where a fault is told."""
    told = f"ecgbench {ecgbench.__version__}"
    if address := config["repo_url"]:
        told += f' · <a href="{address.rstrip("/")}/issues">Tell us of a fault</a>'
    config["copyright"] = told


def on_pre_build(config: Any) -> None:
    """mkdocs: the tutorials begin in an empty folder, with the adapters of this repository."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(ROOT / "adapters", WORK / "adapters")
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs: a page with its generated parts. A link to reports/ is one folder nearer in the site,
    and HTML, because mkdocs does not know that folder.
    """
    file = re.compile(r"^<!-- table (\S+) -->$", re.MULTILINE)
    part = re.compile(r"^<!-- ([a-z0-9_ ]+) -->$", re.MULTILINE)
    whole = file.sub(lambda m: csv_table(m[1]), markdown)
    whole = part.sub(lambda m: BLOCKS[m[1]]() if m[1] in BLOCKS else m[0], whole)
    shown = re.sub(r"!\[([^]]*)\]\(\.\./(\.\./reports/[^)]+)\)", r'<img alt="\1" src="\2">', whole)
    return re.sub(r"\[([^]]*)\]\(\.\./(\.\./reports/[^)]+)\)", r'<a href="\2">\1</a>', shown)


def on_post_build(config: Any) -> None:
    """mkdocs: the page of results with the reports that it links."""
    shutil.copytree(ROOT / "reports", Path(config["site_dir"]) / "reports", dirs_exist_ok=True)


TUTORIAL = ROOT / "docs" / "tutorials" / "first_run.md"
"""It is a notebook, too."""
WRITTEN = {ROOT / "CONTRIBUTING.md": ("floors", floors), ROOT / "README.md": ("covered", covered)}
"""Pages that are read outside of the site: their generated part is in the file."""


def written() -> dict[Path, str]:
    """The files as they should be."""
    fresh = {results.PAGE: results.page(), TUTORIAL.with_suffix(".ipynb"): notebook(TUTORIAL)}
    for page, (name, block) in WRITTEN.items():
        before, start, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
        fresh[page] = f"{before}{start}\n{block()}\n\n{''.join(rest.partition('<!-- end -->')[1:])}"
    return fresh


def main(words: Sequence[str]) -> int:
    """0: written, or up to date; 1: stale (with --check)."""
    fresh = written()
    stale = [p for p, text in fresh.items() if not p.exists() or p.read_text("utf-8") != text]
    if stale and "--check" in words:
        names = ", ".join(str(page.relative_to(ROOT)) for page in stale)
        print(f"stale: {names}; python tools/site.py writes it", file=sys.stderr)
        return 1
    for page in stale:
        page.write_text(fresh[page], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
