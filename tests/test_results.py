"""tools/results.py: the page has each number of the reports, says what is missing, and needs no
network.
"""

import importlib.util
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from ecgbench import datasets, models
from ecgbench.exchange import export
from ecgbench.results.study import read
from tests.invented import Data, Made, write
from tests.reports.test_browser import AXE, LOOKS, OUTSIDE, RUN, SIZES, chromium, visit

__all__ = ["chromium", "visit"]  # fixtures
ROOT = Path(__file__).parents[1]
REPORT = ROOT / "reports" / "ptbxl-2000"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results", ROOT / "tools" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


class Table(HTMLParser):
    """Rows of the page's first two tables, what was measured and what was not, as (task, texts of
    the cells); and all addresses.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[tuple[str, list[str]]] = []
        self.links: list[str] = []
        self.within = self.table = 0
        self.task = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [given[name] or "" for name in ("href", "src") if name in given]
        self.table += tag == "table"
        self.task = given.get("data-task") or self.task
        if self.table < 3 and tag == "tr":
            self.rows.append((self.task, []))
        if self.table < 3 and tag in ("td", "th"):
            self.rows[-1][1].append("")
            self.within = 1

    def handle_endtag(self, tag: str) -> None:
        self.within &= tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.within and self.table < 3:
            self.rows[-1][1][-1] += f"\n{data}"


@pytest.fixture(scope="module")
def page(script: ModuleType) -> str:
    return str(script.page())


def test_each_score_of_the_report_is_on_the_page_with_its_interval(page: str) -> None:
    rows = Table(page).rows
    head = [cell.strip() for cell in rows[0][1]]
    spelled = {"1": "1 random lead", "2": "2 random leads", "12": "12 leads"}
    scores = pd.read_csv(REPORT / "main_table.csv", dtype={"leads": str})
    shown = {"laef": "LAEF", "untrained_laef": "LAEF untrained", "simple_features": "Simple"}
    for line in scores.itertuples():
        at = head.index(spelled.get(line.leads, line.leads))
        (row,) = (
            cells
            for task, cells in rows
            if task == line.task and cells[-1].split()[:1] == ["ptbxl-2000"]
            if cells[0].strip().startswith(shown[line.model])
            if ("untrained" in cells[0]) == (line.model == "untrained_laef")
            if ("padded" in cells[0]) == (line.policy == "zero")
        )
        value, low, high = (float(n) for n in re.findall(r"\d+\.\d", row[at]))
        assert (value, low, high) == pytest.approx(
            (100 * line.value, 100 * line.low, 100 * line.high), abs=0.0501
        )
    numbers = sum(bool(re.search(r"\d\.\d", c)) for _, cells in rows for c in cells[1:])
    small = sum(pd.read_csv(path)["score"].count() for path in ROOT.glob("reports/*/ablation.csv"))
    assert numbers == len(scores) + small


def test_each_row_says_who_measured_it(page: str) -> None:
    made = re.search(r"^Measured by (.+) on (\S+), on", (REPORT / "README.md").read_text(), re.M)
    assert made is not None
    rows = [cells for _, cells in Table(page).rows if cells[-1].split()[:1] == ["ptbxl-2000"]]
    assert rows
    assert all(" ".join(cells[-1].split()[1:]) == f"{made[1]}, {made[2]}" for cells in rows)


def test_what_others_export_stands_on_the_page(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "run", Made(data={"ptbxl": Data(tasks={"ptbxl_super": 3})}))
    export(read(tmp_path / "run"), tmp_path / "reports" / "theirs", "R. Roe, Ghent")
    shutil.copytree(REPORT, tmp_path / "reports" / REPORT.name)
    monkeypatch.setattr(script, "REPORTS", tmp_path / "reports")
    rows = [cells for _, cells in Table(script.page()).rows if "R. Roe, Ghent" in cells[-1]]
    assert {cells[0].split()[0] for cells in rows} == {"Good", "Weak"}


def test_every_model_and_task_has_numbers_or_a_reason(page: str) -> None:
    rows = Table(page).rows[1:]
    first = {cells[0].strip().split("\n")[0] for _, cells in rows}
    for room in (models.ROOM, datasets.ROOM):
        for name in room.names():
            if room.built_in(name):
                card = room.get(name).CARD
                titles = [t.title for t in card.tasks] if room is datasets.ROOM else [card.title]
                assert first.issuperset(titles)
    reasons = (
        "weights: ",
        "data: ",
        "GPU: ",
        "nothing: ",
        "no report yet",
        "says nothing about patients",
    )
    for _, cells in rows:
        if len(cells) == 2:
            assert cells[1].strip().startswith(reasons)
    assert all("random weights" in c[0] for _, c in rows if "untrained" in c[0])


def test_the_page_is_one_small_file_whose_links_lead_somewhere(page: str) -> None:
    assert len(page.encode()) < 150_000
    for link in Table(page).links:
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in page
        else:
            assert (ROOT / "reports" / link).exists()
    assert "@import" not in page
    assert "url(" not in page


def test_the_first_sentence_is_of_the_first_model_with_few_leads_and_with_twelve(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the CSV files, with the skill kept where the verdicts have it; nothing is made up where a
    score is missing.
    """
    shutil.copytree(REPORT, tmp_path / "a", ignore=shutil.ignore_patterns("*.png", "index.html"))
    monkeypatch.setattr(script, "REPORTS", tmp_path)
    table = pd.read_csv(REPORT / "main_table.csv", dtype={"leads": str})
    named = {"task": "ptbxl_super", "model": "laef", "policy": "native"}
    own = table.query(" and ".join(f"{name} == '{word}'" for name, word in named.items()))
    own = (100 * own.set_index("leads")[["value", "low", "high"]]).round(1)
    kept = {"label": "macro", "leads": "I", "kept": 0.63, "kept_low": 0.52, "kept_high": 0.74}
    rows = [named | kept, named | kept | {"label": "MI", "kept": 0.99}]
    pd.DataFrame(rows).to_csv(tmp_path / "a" / "verdicts.csv", index=False)
    said = script.finding(script.groups(script.sources()))
    for leads in ("I", "12"):
        assert "{} [{}, {}]".format(*own.loc[leads]) in said
    assert "63 % [52, 74]" in said
    assert "99" not in said
    assert said.index("weights of this project") < said.index("random weights")
    table[table["leads"] != "12"].to_csv(tmp_path / "a" / "main_table.csv", index=False)
    assert script.finding(script.groups(script.sources())) == ""


def test_another_report_is_added_by_its_folder(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With scores of its own beside those of the first, and words that are no markup."""
    monkeypatch.setattr(script, "REPORTS", tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for file in ("main_table.csv", "main_table.md", "models.csv", "datasets.csv"):
            shutil.copy(REPORT / file, tmp_path / name)
        readme = "# Title\n\n    ecgbench run <x>\n\nMeasured by A <b> on 2026-01-02, on a board.\n"
        (tmp_path / name / "README.md").write_text(readme)
    table = pd.read_csv(tmp_path / "b" / "main_table.csv", dtype={"leads": str})
    table.loc[0, ["value", "low", "high"]] = None
    table.loc[0, ["note", "status"]] = ["fewer than 30 patients", "undefined"]
    table.assign(weights=table["weights"].replace("released", "mine.pt")).to_csv(
        tmp_path / "b" / "main_table.csv", index=False
    )
    networks = pd.read_csv(tmp_path / "b" / "models.csv").replace("released (own)", "mine.pt")
    networks = networks.replace("LAEF untrained", "MERL")
    networks.to_csv(tmp_path / "b" / "models.csv", index=False)
    page = script.page()
    assert "<b>" not in page
    assert "<x>" not in page
    assert "A &lt;b&gt;" in page
    assert "weights mine.pt, pre-trained on PTB-XL" in page
    assert page.count("fewer than 30 patients") == 1
    # its random weights are not those of its authors
    assert page.count("ecgbench models fetch merl") == 1
    (tmp_path / "b" / "README.md").write_text("# Title\n\n    ecgbench run\n")
    with pytest.raises(SystemExit, match="Measured by NAME"):
        script.page()
    shutil.copy(tmp_path / "a" / "README.md", tmp_path / "b")
    networks.iloc[::-1].to_csv(tmp_path / "b" / "models.csv", index=False)
    with pytest.raises(SystemExit, match="differ in order"):
        script.page()


@pytest.fixture(scope="module")
def folder() -> Path:
    """What `visit` opens."""
    return ROOT / "reports"


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_a_browser_shows_filters_and_sorts_it(visit: Any, size: str, theme: str) -> None:
    page = visit(size, theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    assert page.evaluate(OUTSIDE) == []
    missing = page.locator("details table")
    assert not missing.is_visible()
    page.locator("summary").click()
    assert missing.is_visible()
    page.select_option("#task", "ptbxl_sub")
    shown = page.locator("#results tbody:visible")
    assert shown.evaluate_all("all => all.map(body => body.dataset.task)") == ["ptbxl_sub"]
    assert not page.locator("#results th:visible", has_text="aVR").count()
    page.check("#more")
    head = page.locator("#results thead th", has_text="V1")

    def column() -> list[float]:
        cells = shown.locator("td:nth-child(12) a").all_inner_texts()
        return [float(text) for text in cells]

    assert page.locator("#results thead th").all_inner_texts()[11].split()[0] == "V1"
    first = column()
    assert len(set(first)) > 2
    for way in (sorted(first, reverse=True), sorted(first), first):
        head.locator("button").click()
        assert column() == way
    if AXE.is_file():
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate(f"axe.run(document, {{runOnly: {json.dumps(RUN)}}})")
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
