"""The page: one file that asks nothing of a network, escapes what it is told, and says what the
rows say.
"""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ecgbench import reports
from ecgbench.reports import records
from ecgbench.results.study import Run
from tests import by_hand as make

pytestmark = pytest.mark.rendered


VOID = {"meta", "link", "br", "img", "hr", "input", "base"}


class Reader(HTMLParser):
    """Tags, text, links, and whether every tag that opens also closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


STUDIES = {
    "two": make.two_models,
    "crowded": make.crowded,
    "failed": lambda: make.build([make.row("ptbxl_super", "laef", "1", status="failed")]),
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The folder of a report, written once for all tests that only read it."""
    folders: dict[str, Path] = {}

    def written(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            reports.write(STUDIES[name](), folders[name])
        return folders[name]

    return written


def read(folder: Path) -> Reader:
    """The page of a report, read."""
    return Reader((folder / "index.html").read_text())


def marks(study: Run) -> list[list[str]]:
    """Rows of marks of who is best; none where nothing is compared."""
    sections = reports.sections("main_table", study)
    table = next((s.parts[0] for s in sections if s.name == "best"), None)
    columns = [c.name for c in table.columns if c.name.isdigit()] if table else []
    return [[row[c].text for c in columns] for row in table.rows] if table else []


def rows(name: str, study: Run) -> list:
    """Rows of the first table of a section of the main table's report."""
    sections = {section.name: section for section in reports.sections("main_table", study)}
    return list(sections[name].parts[0].rows)


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
def test_self_contained_and_balanced(name, page):
    reader = read(page(name))
    assert reader.open == []
    tags = {tag for tag, _ in reader.seen}
    assert [tag for tag, attrs in reader.seen if tag == "script" and not attrs] == ["script"]
    assert not tags & {"link", "img", "iframe", "object", "base", "form"}
    beside = {path.name for path in page(name).iterdir()}
    assert {
        "main_table.csv",
        "lead_curve.csv",
        "comparisons.csv",
        "labels.csv",
        "cells.csv",
    } < beside
    each = [attrs["id"] for _, attrs in reader.seen if "id" in attrs]
    ids = set(each)
    assert len(each) == len(ids)
    for tag, attrs in reader.seen:
        assert "src" not in attrs
        assert not any(attribute.startswith("on") for attribute in attrs)
        for link in ("href", "xlink:href"):
            target = attrs.get(link)
            if target is None:
                continue
            if target.startswith("#"):
                assert target[1:] in ids
            elif tag == "image":
                assert target.startswith("data:image/png;base64,")
            else:
                assert tag == "a"
                assert target in beside or target.startswith("https://doi.org/10.13026/")
    style = (page(name) / "index.html").read_text().partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_a_mark_says_whether_a_difference_to_the_best_could_be_chance() -> None:
    """By p after Holm; a tie is a tie; what was not tested is not judged; where lower is better the
    lowest is best; untrained encoders and synthetic data are not compared.
    """
    rows = [
        make.row("ptbxl_super", "laef", "12", 0.9, best=True),
        make.row("ptbxl_super", "merl", "12", 0.9, p=1.0, p_holm=1.0, not_significantly_worse=True),
        make.row("ptbxl_super", "near", "12", 0.8, p=0.03, p_holm=0.06),
        make.row("ptbxl_super", "far", "12", 0.8, p=0.01, p_holm=0.04),
        make.row("ptbxl_super", "other", "12", 0.7),
        make.row("ptbxl_super", "stmem", "12", 0.95, weights="random"),
    ]
    study = make.build(rows)
    assert marks(study) == [["★", "★", "≈", "✗", "·"]]
    lower = replace(study.metrics["auroc"], direction="lower")
    assert marks(replace(study, metrics={"auroc": lower})) == [["·", "·", "·", "·", "★"]]
    assert [row[1] for row in marks(make.two_models())] == ["✗", "✗", "★", "✗", "✗", "✗"]
    assert marks(make.build(rows[:1] + rows[-1:])) == []
    synthetic = [make.dataset(synthetic=True)]
    assert marks(make.build(rows, datasets=synthetic)) == []


def test_a_run_without_numbers_says_how_far_it_is(tmp_path):
    asked = [make.row("ptbxl_super", "laef", leads, status="failed") for leads in ("1", "12")]
    study = make.build(asked)
    study.cells["status"] = "missing"
    assert "6 cells" in reports.summary(study, None)[0]
    assert rows("cells", study)[0]["leads"] == "1, 12"
    reports.write(study, tmp_path)
    assert "failed" not in read(tmp_path).text
    mixed = make.build(asked)
    mixed.cells.loc[mixed.cells["leads"] == "1", "status"] = "missing"
    assert {"5", "1"} <= set(reports.summary(mixed, None)[0].split())


def test_labels_are_means_over_lead_draws_and_undefined_stays_undefined():
    (section,) = reports.sections("labels", make.two_models())
    (figure,) = [part for part in section.parts if part.kind == "figure"]
    held = {(row["label"], row["model"], row["leads"]): row for row in records(figure.numbers)}
    assert held["MI", "stmem", "1"]["value"] == pytest.approx(0.583)
    assert held["MI", "laef", "1"]["value"] == pytest.approx(0.733)
    assert not [name for name in held if name[0] == "RARE"]
