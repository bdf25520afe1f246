"""The page: one file that asks nothing of a network, escapes what it is told, and says what the
rows say.
"""

import csv
import runpy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from ecgbench import reports
from ecgbench.reports import Cell, records
from ecgbench.results.study import Study

pytestmark = pytest.mark.rendered

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("make_study.py"))))

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


def opening(study: Study):
    """What the page opens with."""
    return reports.get("main_table").sections(study)[0].parts[0]


def verdicts(study: Study) -> list[dict[str, Cell]]:
    """Rows of the matrix of verdicts; none where there is no matrix."""
    return [
        row
        for section in reports.get("main_table").sections(study)
        if section.name == "verdicts"
        for row in section.parts[0].rows
    ]


def rows(name: str, study: Study) -> list:
    """Rows of the first table of a section of the main table's report."""
    sections = {section.name: section for section in reports.get("main_table").sections(study)}
    return list(sections[name].parts[0].rows)


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


def test_verdicts_say_what_the_rows_say():
    (row,) = verdicts(make.two_models())
    assert (row["12"].text, row["12"].mark) == ("ST-MEM ", "≈")
    assert row["12"].small == "92.6, +0.3 [−99.7, +100.3] to LAEF"
    assert (row["1"].text, row["1"].mark) == ("LAEF ", "✓")
    assert row["1"].small == "72.3, +15.0 [+14.0, +16.0] to ST-MEM"
    assert list(row) == ["task", "1", "2", "12", "I", "II", "I+II"]
    lone = make.build([make.row("ptbxl_super", "laef", "12", 0.9, best=True)])
    assert verdicts(lone) == []
    untested = [
        make.row("ptbxl_super", name, "12", auroc)
        for name, auroc in (("laef", 0.9), ("stmem", 0.8))
    ]
    (row,) = verdicts(make.build(untested))
    assert row["12"].small == "90.0, +10.0 to ST-MEM"


def test_a_share_of_the_skill_is_not_said_without_its_interval():
    """A hand-made study has no predictions, from which an interval could be made."""
    shown = opening(make.two_models())
    assert "keeps" not in shown.sentence + shown.about
    assert [(tile.value, tile.interval) for tile in shown.tiles] == [
        ("92.3", "[90.3, 94.3]"),
        ("72.3", "[70.3, 74.3]"),
        ("190", ""),
    ]


def test_weights_of_our_own_are_called_so_wherever_a_number_is_shown():
    study = make.two_models()
    study.models[0] = replace(
        study.models[0], weights_source={"own": True, "file": "laef.safetensors", "sha256": "ab"}
    )
    sections = {section.name: section for section in reports.get("main_table").sections(study)}
    section = sections["main_table"]
    assert [column.title for column in section.parts[0].columns] == [
        "Task",
        "Leads",
        "LAEF (own weights)",
        "Std",
        "ST-MEM",
        "Std",
    ]


@pytest.mark.parametrize(("p_holm", "sign"), [(0.06, "≈"), (0.04, "✓")])
def test_a_verdict_follows_p_after_holm(p_holm: float, sign: str) -> None:
    """The interval of the difference excludes 0 in both."""
    rows = [
        make.row("ptbxl_super", "laef", "12", 0.9, best=True),
        make.row("ptbxl_super", "merl", "12", 0.8, p=0.03, p_holm=p_holm),
    ]
    rows.append(make.row("ptbxl_super", "stmem", "12", 0.95, weights="random"))
    (row,) = verdicts(make.build(rows))
    assert (row["12"].text, row["12"].mark) == ("LAEF ", sign)
    assert row["12"].small.startswith("90.0, +10.0"), row


def test_untrained_encoders_and_synthetic_data_win_nothing():
    rows = [
        make.row("demo", name, "12", auroc, weights="random")
        for name, auroc in (("laef", 0.9), ("stmem", 0.8))
    ]
    demo = {
        "tasks": [make.task("demo", "Demo", dataset="demo")],
        "datasets": [make.dataset("demo", "Demo", synthetic=True)],
    }
    why = "This run shows the harness at work:"
    end = "so no number here says anything about"
    both = opening(make.build(rows, **demo))
    assert both.sentence == (
        f"{why} every encoder that has a number is untrained and all data are synthetic, {end} "
        "a model or a patient."
    )
    assert all("(synthetic and random weights)" in tile.words for tile in both.tiles[:1])
    trained = make.build([row | {"weights": "released"} for row in rows], **demo)
    assert opening(trained).sentence.count("all data are synthetic") == 1
    assert verdicts(trained) == []
    untrained = [row | {"task": "ptbxl_super"} for row in rows]
    assert verdicts(make.build(untrained)) == []
    waiting = make.row("ptbxl_super", "merl", "12", status="failed")
    assert opening(make.build([*untrained, waiting])).sentence == (
        f"{why} every encoder that has a number is untrained, {end} a published model."
    )
    mixed = make.build([untrained[0], untrained[1] | {"weights": "released"}])
    assert opening(mixed).sentence == "With 12 leads, ST-MEM has macro AUROC 80.0 [78.0, 82.0]."
    assert verdicts(mixed) == []


def test_a_run_without_numbers_says_how_far_it_is(tmp_path):
    asked = [make.row("ptbxl_super", "laef", leads, status="failed") for leads in ("1", "12")]
    study = make.build(asked)
    study.cells["status"] = "missing"
    assert opening(study).sentence == "Nothing is computed yet: 6 cells to go."
    assert rows("cells", study)[0]["leads"] == "1, 12"
    reports.write(study, tmp_path)
    assert "failed" not in read(tmp_path).text
    mixed = make.build(asked)
    mixed.cells.loc[mixed.cells["leads"] == "1", "status"] = "missing"
    assert opening(mixed).sentence == (
        "No cell of this run has a number: 5 not computed yet and 1 failed."
    )


def test_comparisons_are_those_of_the_study(page):
    study = make.two_models()
    text = read(page("two")).text
    assert len(rows("comparisons", study)) == len(study.comparisons) == 6
    assert "1 ST-MEM LAEF +15.0 [+14.0, +16.0] 0.002 0.002 0.012 40 198 190 yes" in text
    assert "12 LAEF ST-MEM +0.3 [−99.7, +100.3] 0.410 0.410 0.410 40 198 190 no" in text


def test_sections_of_the_crowded_study(page):
    text = read(page("crowded")).text
    spots = [
        text.index(f"{word}.")
        for word in ("Synthetic data", "Random weights", "Limited", "Incomplete")
    ]
    assert spots == sorted(spots)
    assert spots[-1] < text.index("Main table")
    # a notice is not repeated under the table
    assert all(text.count(note.text) == 1 for note in make.GRAVE_NOTES)
    assert "LeakError: NaN reached the output" in text
    assert "none of I & II | III is <read>" in text
    assert "00017: signal ends early" in text
    assert "0123456789abcdef with uncommitted changes" in text
    assert "nothing: the network reads measured leads only" in text
    assert "12 min 34 s" in text
    for note in make.NOTES:
        assert note.text in text


def test_banners_stay_when_the_main_table_is_not_asked_for(tmp_path):
    reports.write(make.crowded(), tmp_path, only=["provenance"])
    text = (tmp_path / "index.html").read_text()
    assert "Synthetic data." in text
    assert "Main table" not in text


def test_labels_are_means_over_lead_draws_and_undefined_stays_undefined():
    (section,) = reports.get("labels").sections(make.two_models())
    (figure,) = [part for part in section.parts if part.kind == "figure"]
    held = {(row["label"], row["model"], row["leads"]): row for row in records(figure.numbers)}
    assert held["MI", "stmem", "1"]["value"] == pytest.approx(0.583)
    one = held["MI", "laef", "1"]
    assert (one["value"], one["low"], one["high"]) == pytest.approx((0.733, 0.703, 0.763))
    assert not [name for name in held if name[0] == "RARE"]


def test_counts_are_whole_in_the_files_beside(tmp_path):
    reports.write(make.two_models(), tmp_path, only=["main_table"])
    first = next(csv.DictReader((tmp_path / "cells.csv").open()))
    assert (first["seed"], first["setting"], first["n_records"]) == ("0", "1@seed0", "198")


def test_a_network_with_random_weights_is_called_so_where_it_is_described() -> None:
    from ecgbench.reports import provenance

    study = make.crowded()
    _, models, _ = provenance.sections(study)
    titles = [part.title for part in models.parts if part.kind == "group"]
    wanted = [f"{m.title}{' (random weights)' * (m.weights == 'random')}" for m in study.models]
    assert titles == wanted
    assert any("(random weights)" in title for title in titles)
