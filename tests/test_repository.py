"""The promises of the repository itself: size and floors of the code, what imports torch, docs that
are true, pins.
"""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pandas as pd
import pytest

import ecgbench
from ecgbench import models
from ecgbench.check.results import check
from ecgbench.core.registry import Room
from ecgbench.results.origin import PUBLISHED
from ecgbench.study import lent

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ecgbench"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
DOCS += [page for folder in ("docs", "models") for page in sorted((ROOT / folder).rglob("*.md"))]

FLOORS = (
    {"errors", "core"},
    {"ecg"},
    {"cards"},
    {"contracts", "stats"},
    {"datasets", "perturbations"},
    {"data", "layers", "metrics", "published", "suites", "weights"},
    {"policies", "models"},
    {"evaluate"},
    {"study"},
    {"results"},
    {"exchange", "prediction", "reports"},
    {"profile"},
    {"pretrain"},
    {"check"},
    {"cli", "__main__", "api"},
)
FLOORS_HOLD = (
    "files, keys, seeds, the registry of plug-ins",
    "leads, recordings, filters, readers",
    "what plug-ins declare; fits, cells and plans",
    "arrays in, numbers out; what a plug-in of each room must have",
    "rooms: one file a collection, one file a perturbation",
    "from published files to arrays; what serves the rooms",
    "rooms, which import neither one another nor `results`",
    "one model on one data set",
    "a grid of cells: plan, run, store",
    "what a report may read",
    "new recordings through a run; a room of reports; results of others",
    "cost of a model",
    "how LAEF is made",
    "what every plug-in keeps; tests and `ecgbench check` call the same functions",
    "what people use: commands, which parse and print, and `import ecgbench`",
)
"""A line of CONTRIBUTING.md for each floor; tools/site.py writes it."""
OPEN = {
    ("weights", "models"),
}
"""Imports upwards that are left."""
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
APART = {"datasets", "models", "policies", "metrics", "perturbations"}
"""Rooms of floor 3: none imports another, and none imports results, which may read them."""
TORCH = {"torch", "torch_geometric", "torchvision", "timm", "safetensors.torch"}
TORCH_ROOMS = {"models", "layers", "weights", "evaluate", "check", "pretrain"}
TORCH_ROOMS |= {"profile", "study", "prediction"}


def sources() -> list[Path]:
    """Files of the package, but for what `ecgbench new` writes for a user."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent.name != "templates"]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def place(path: Path) -> str:
    """The floor's word for a file: ecgbench/ecg/draw.py -> ecg, ecgbench/core/files.py -> core."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a file's tree."""
    return list(ast.walk(tree(path)))


@cache
def imports(path: Path) -> list[tuple[str, int, bool]]:
    """(dotted name, line, whether importing the file runs it), relative imports spelled out, every
    name of a `from` on its own.
    """
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    module = list(path.relative_to(ROOT).with_suffix("").parts)
    late = typing_only(path) | {
        line
        for f in nodes(path)
        if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef)
        for line in range(f.body[0].lineno, (f.end_lineno or f.lineno) + 1)
    }
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [
                *(module[: -node.level] if node.level else []),
                *([node.module] if node.module else []),
            ]
            names = [".".join([*base, alias.name]) for alias in node.names]
        else:
            continue
        for name in names:
            yield name, node.lineno, node.lineno not in late


@cache
def typing_only(path: Path) -> set[int]:
    """Lines that type checkers read and no interpreter runs."""
    blocks = (
        f for f in nodes(path) if isinstance(f, ast.If) and "TYPE_CHECKING" in ast.unparse(f.test)
    )
    return {
        line
        for block in blocks
        for line in range(block.lineno, (block.end_lineno or block.lineno) + 1)
    }


def is_torch(name: str) -> bool:
    return any(name == t or name.startswith(f"{t}.") for t in TORCH)


def test_functions_stay_small_and_long_files_are_told() -> None:
    """Functions to 60 lines without docstring and options of a command; a file over 300 is a place
    to look, and warns.
    """
    problems = []
    for path in sources():
        name, lines = path.relative_to(ROOT), path.read_text().count("\n")
        if lines > (500 if place(path) == "models" else 300):
            warnings.warn(f"{name} has {lines} lines: look whether it is two things", stacklevel=1)
        for node in nodes(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = ast.get_docstring(node, clean=False)
            first = node.body[0].lineno if place(path) == "cli" else node.lineno
            length = node.end_lineno - first + 1 - (len(text.splitlines()) if text else 0)  # type: ignore[operator]
            if length > 60:
                problems.append(f"{name}:{node.lineno} {node.name}: {length} lines")
    assert problems == []


def test_every_file_has_a_floor() -> None:
    assert {place(p) for p in sources()} - {"__init__"} <= set(FLOOR)


def test_imports_go_down_the_floors_and_rooms_stand_apart() -> None:
    problems = []
    for path in sources():
        here = place(path)
        for name, line, _ in imports(path):
            there = [*name.split("."), ""][1]
            if (
                not name.startswith("ecgbench.")
                or here == "__init__"
                or there == here
                or there not in FLOOR
            ):
                continue
            if (here, there) in OPEN:
                continue
            if FLOOR[there] > FLOOR[here] or (here in APART and there in APART | {"results"}):
                problems.append(
                    f"{path.relative_to(ROOT)}:{line}: {here} (floor {FLOOR[here]}) imports "
                    f"{there} (floor {FLOOR[there]})"
                )
    assert problems == []


OLD_NAME = ("ecgbench.models", "ecgbench.weights.load")
"""An alias for plug-ins written before 0.2, in a function; the one import that goes back."""


def test_modules_import_one_another_in_one_way_only() -> None:
    """Also inside functions: what two of them need is below both. And what is trained rests on
    inference, not the other way round.
    """
    modules = {
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
        for p in sources()
    }
    graph: dict[str, set[str]] = {}
    for here, path in modules.items():
        ignored = typing_only(path)
        found = {
            name if name in modules else name.rpartition(".")[0]
            for name, line, _ in imports(path)
            if line not in ignored
        }
        graph[here] = {there for there in found & set(modules) if (here, there) != OLD_NAME} - {
            here,
            "ecgbench",
        }
    TopologicalSorter(graph).prepare()  # CycleError names them
    assert not [
        here
        for here in graph
        if "inference" in here
        for there in graph[here]
        if there.startswith("ecgbench.evaluate")
    ]


def test_a_report_reads_what_is_stored_and_nothing_of_models() -> None:
    """Also by way of what it imports: a process that has imported every report has no module of
    models.
    """
    code = (
        "import sys; from ecgbench import reports; [reports.get(name) for name in "
        "reports.names()]\n"
    )
    code += (
        "print([m for m in sys.modules if m.startswith(('ecgbench.models', 'ecgbench.layers', "
        "'torch'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"


def rooms() -> list[Room]:
    """The rooms of the package: every package whose `ROOM` is one."""
    packages = (".".join(p.parent.relative_to(ROOT).parts) for p in PACKAGE.rglob("__init__.py"))
    return [
        module.ROOM
        for p in packages
        if isinstance(getattr(module := importlib.import_module(p), "ROOM", None), Room)
    ]


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.package)
def test_rooms_hold_plug_ins_only(room: Room) -> None:
    """Every file is one, opens with a docstring, and is found under its name; those that begin with
    `_`, and those that the room names, are shared.
    """
    folder = PACKAGE.joinpath(*room.package.split(".")[1:])
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    files = {name for name in files - room.besides - room.families if not name.startswith("_")}
    files |= set(room.elsewhere)
    assert files == {name for name in room.names() if room.built_in(name)}
    assert all((room.get(name).__doc__ or "").strip() for name in files)


def test_what_scripts_import_of_the_package_is_there() -> None:
    """Scripts that no test runs, also inside their functions."""
    gone = []
    for file in (
        f
        for name in ("benchmarks", "tools", "adapters", ".ci")
        for f in ROOT.glob(f"{name}/**/*.py")
    ):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                not isinstance(node, ast.ImportFrom)
                or (node.module or "").split(".")[0] != "ecgbench"
            ):
                continue
            for one in node.names:
                try:
                    if not hasattr(importlib.import_module(str(node.module)), one.name):
                        importlib.import_module(f"{node.module}.{one.name}")
                except ImportError:
                    gone.append(f"{file.relative_to(ROOT)}: {node.module} {one.name}")
    assert gone == []


def test_what_begins_with_an_underscore_is_imported_below_its_own_folder_only() -> None:
    strays = set()
    for path in [*sources(), *sorted((ROOT / "tests").rglob("*.py"))]:
        folder = list(path.parent.relative_to(ROOT).parts)
        for name, line, _ in imports(path):
            parts = name.split(".")
            private = next(
                (
                    i
                    for i, part in enumerate(parts)
                    if part.startswith("_") and not part.startswith("__")
                ),
                None,
            )
            if parts[0] != "ecgbench" or private is None or parts[1:3] == ["datasets", "_labels"]:
                continue  # the label tables are reports' too
            if parts[:private] != folder[:private]:
                strays.add((str(path.relative_to(ROOT)), line, name))
    assert sorted(strays) == []


def test_torch_is_imported_only_where_networks_live() -> None:
    """An adapter that learns may import torch inside its function; torch_geometric is imported
    inside functions everywhere. Type checkers may import either.
    """
    problems = []
    for path in sources():
        allowed = place(path) in TORCH_ROOMS
        for name, line, at_import in imports(path):
            if line in typing_only(path):
                continue
            wrong = is_torch(name) and not allowed and (at_import or place(path) != "policies")
            if wrong or (name.split(".")[0] == "torch_geometric" and at_import):
                problems.append(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert problems == []


def test_imports_with_torch_blocked() -> None:
    """What reads a store, or knows names, needs no torch: every module of these packages is
    imported in a process without it.
    """
    modules = [
        ".".join(p.relative_to(ROOT).with_suffix("").parts)
        for package in ("reports", "results", "datasets", "policies", "suites", "stats", "ecg")
        for p in sorted((PACKAGE / package).rglob("*.py"))
    ]
    code = f"""
import importlib, sys
class Blocked:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in {{"torch", "torch_geometric"}}:
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Blocked)
for name in {modules!r}:
    importlib.import_module(name.removesuffix(".__init__"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_command_line_is_loaded_without_torch() -> None:
    """Names are checked before torch is loaded, so that a misspelt one is answered at once."""
    heavy = (
        "print([m for m in ('torch', 'torch_geometric', 'matplotlib.pyplot', 'wfdb') if m in "
        "sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, ecgbench.cli; {heavy}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_setuptools_packages_are_the_packages_there_are() -> None:
    """They are named one by one; one that is forgotten is missing from the wheel and nowhere else.
    Others are folders beside the code.
    """
    there = {".".join(p.parent.relative_to(ROOT).parts) for p in PACKAGE.rglob("__init__.py")}
    beside = PROJECT["tool"]["setuptools"]["package-dir"]
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == there | set(beside)
    assert all((ROOT / folder).is_dir() for folder in beside.values())


def test_every_file_of_data_comes_with_the_wheel() -> None:
    kept = {
        path
        for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    listed = subprocess.check_output(["git", "ls-files", "ecgbench"], text=True, cwd=ROOT)
    there = {ROOT / name for name in listed.splitlines() if not name.endswith(".py")}
    assert sorted(path for path in there - kept if path.is_file()) == []


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", name)[0]).lower()


def test_every_dependency_is_pinned_once() -> None:
    lines = [x.split("#")[0].strip() for x in (ROOT / "constraints.txt").read_text().splitlines()]
    pins = [_plain(x) for x in lines if x]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", x) for x in lines if x)
    assert len(pins) == len(set(pins))
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(x for extra in project["optional-dependencies"].values() for x in extra),
    ]
    assert {_plain(x) for x in wanted} - {project["name"]} <= set(pins)


def test_readme_and_contributing_keep_to_their_length() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    contributing = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    assert len(contributing) <= 100
    assert any(line.startswith("    make ") for line in contributing[:10]), (
        "the first command stands in the first ten lines"
    )


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)", page.read_text()) + re.findall(
        r'(?:src|href)="([^"]+)"', page.read_text()
    )
    lost = [
        t
        for t in targets
        if "://" not in t
        and not t.startswith(("#", "data:"))
        and not (page.parent / t.split("#")[0]).exists()
    ]
    assert lost == []


def _anchors(page: Path) -> set[str]:
    """Those of the headings of a page, as GitHub and the site make them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_links_into_a_page_meet_a_heading(page: Path) -> None:
    links = re.findall(r"(?:\]\(|^\[[^\]]+\]: )([^)\s#:]*\.md|)#([\w-]+)", page.read_text(), re.M)
    lost = [
        f"{file}#{anchor}"
        for file, anchor in links
        if anchor not in _anchors(page.parent / file if file else page)
    ]
    assert lost == []


EXAMPLES = re.compile(r"foo|mine|mynet|best_lead|ecgbench/shipped")
"""Files that docs propose to write, and the folder that a build adds."""


def test_files_that_docs_name_are_there() -> None:
    lost = []
    for page in (p for p in DOCS if p.name != "CHANGELOG.md"):
        text = page.read_text()
        paths = re.findall(
            r"`((?:ecgbench|docs|tests|benchmarks|adapters|tools|\.ci)/[\w./*-]+)`", text
        )
        paths += re.findall(r"`(\w+/[\w/]+\.py)`", text)
        for path in (p.rstrip("/") for p in paths if not EXAMPLES.search(p)):
            if not (list(ROOT.glob(path)) or list(PACKAGE.glob(path))):
                lost.append(f"{page.relative_to(ROOT)}: {path}")
    assert lost == []


def test_messages_that_docs_explain_are_those_of_the_code() -> None:
    """`...` stands for what a message fills in."""
    page = (ROOT / "docs" / "howto" / "messages.md").read_text()
    code = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    code = re.sub(r'"\n\s*f?"', "", code)  # texts of several lines
    told = re.findall(r"^\| `([^`]+)`", page, re.M)
    parts = [part.strip() for message in told for part in message.split("...")]
    assert told
    assert [part for part in parts if part not in code] == []


def test_numbers_of_what_we_found_stand_in_the_files_that_it_names() -> None:
    page = ROOT / "docs" / "explanation" / "found.md"
    for paragraph in page.read_text().split("\n\n"):
        files = re.findall(r"\]\((\.\./\.\./reports/[^)]+)\)", paragraph)
        if files:
            told = " ".join((page.parent / file).read_text() for file in files)
            wanted = re.findall(r"(?<!\d)\d+\.\d(?!\d)", re.sub(r"\(\.\..*?\)", "", paragraph))
            assert [n for n in wanted if not re.search(rf"(?<![\d.]){re.escape(n)}", told)] == []


def test_docs_keep_to_their_length() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert sum(len(page.read_text().split()) for page in pages) <= 22_000
    assert len((ROOT / "README.md").read_text().split()) <= 650


def test_the_version_is_told_alike_everywhere() -> None:
    assert f"\nversion: {ecgbench.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert ecgbench.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_results_that_others_added_are_those_of_their_predictions() -> None:
    rows = [row for page in ROOT.glob(f"reports/*/{lent.FILE}") for row in check(page.parent)]
    assert [row for row in rows if not row["ok"]] == []


@pytest.mark.parametrize(
    "page",
    [p for p in sorted(ROOT.glob("reports/*/index.html")) if not lent.read(p.parent)],
    ids=lambda p: p.parent.name,
)
def test_published_reports_are_of_clean_commits(page: Path) -> None:
    """Written with `ecgbench report --publish`, which refuses others."""
    assert PUBLISHED in page.read_text()
    assert PUBLISHED in page.with_name("main_table.md").read_text()
    assert "with uncommitted changes" not in page.read_text()
    assert "= &lt;" not in page.read_text()


def test_the_figure_of_the_readme_is_of_the_shipped_weights() -> None:
    """And the numbers that the README quotes are those of its report."""
    report = ROOT / "reports" / "ptbxl-2000"
    shown = ROOT / "docs" / "figures" / "lead_curve.png"
    assert shown.read_bytes() == (report / "lead_curve.png").read_bytes()
    networks = pd.read_csv(report / "models.csv").set_index("model")
    (weights,) = models.get("laef").CARD.weights
    assert networks.loc["LAEF", "file_sha256"] == weights.sha256
    table = pd.read_csv(report / "main_table.csv", dtype={"leads": str})
    table = table[(table["task"] == "ptbxl_super") & (table["policy"] == "native")]
    value = (100 * table.set_index(["model", "leads"])["value"]).round(1)
    readme = (ROOT / "README.md").read_text()
    for model in ("laef", "untrained_laef"):
        for leads in ("1", "12"):
            assert f" {value[model, leads]}" in readme


def test_the_card_counts_each_look_of_the_published_report_at_the_test_fold() -> None:
    provenance = (ROOT / "reports" / "ptbxl-2000" / "provenance.md").read_text()
    looks = (ROOT / "models" / "laef" / "README.md").read_text().partition("## Looks at")[2]
    began = set(re.findall(r"^\| (\d{4}-\d\d-\d\d) \d\d:\d\d UTC \|", provenance, re.M))
    assert began
    for day in began:
        assert re.search(rf"^\| \d+ \| {day} .*reports/ptbxl-2000/index\.html", looks, re.M)


def test_generated_lists_are_fresh() -> None:
    """In a process of its own: plug-ins that other tests brought into the rooms stay out."""
    done = subprocess.run(
        [sys.executable, "tools/site.py", "--check"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
