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
from ecgbench.results.study import Study

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("make_study.py"))))

VOID = {"meta", "link", "br", "img", "hr", "input", "base"}
EVIL = '"><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>{{ 617 * 619 }}'


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
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def read(tmp_path):
    """The page of a study, read."""

    def write(study: Study) -> Reader:
        reports.write(study, tmp_path / "page")
        return Reader((tmp_path / "page/index.html").read_text())

    return write


def findings(study: Study) -> list[str]:
    (section,) = reports.get("findings").sections(study)
    return list(section.parts[0].texts)


def rows(report: str, study: Study) -> list:
    """Rows of the first table of a report."""
    (section,) = reports.get(report).sections(study)
    return list(section.parts[0].rows)


@pytest.mark.parametrize(
    "study",
    [
        make.two_models(),
        make.crowded(),
        make.build([make.row("ptbxl_super", "laef", "1", status="failed")]),
    ],
)
def test_self_contained_and_balanced(study, read, tmp_path):
    reader = read(study)
    assert reader.open == []
    tags = {tag for tag, _ in reader.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    beside = {path.name for path in (tmp_path / "page").iterdir()}
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
        assert not any(name.startswith("on") for name in attrs)
        for name in ("href", "xlink:href"):
            target = attrs.get(name)
            if target is None:
                continue
            if target.startswith("#"):
                assert target[1:] in ids
            else:
                assert tag == "a"
                assert target in beside or target.startswith("https://doi.org/10.13026/")
    style = (tmp_path / "page/index.html").read_text().partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_text_is_text(read):
    source = {"file": EVIL, "sha256": "cd" * 32, "licence": EVIL, "terms": EVIL}
    more = {
        "objective": EVIL,
        "corpora": (EVIL,),
        "weights_source": source,
        "contract": make.CONTRACT | {"absent": EVIL},
    }
    model = make.model("laef", EVIL, 7_104_000, summary=EVIL, paper=EVIL, **more)
    data = make.dataset(
        title=EVIL, doi='10.1/"><script>', quarantined=({"record": EVIL, "reason": EVIL},)
    )
    command = replace(make.PROVENANCE.commands[0], command=EVIL)
    told = replace(make.PROVENANCE, commands=(command,), packages={EVIL: EVIL})
    row = make.row("ptbxl_super", "laef", "1", 0.7, 0.01)
    parts = {
        "models": [model],
        "datasets": [data],
        "provenance": told,
        "notes": [EVIL],
        "tasks": [make.task("ptbxl_super", EVIL)],
    }
    reader = read(
        make.build(
            [row, make.row("ptbxl_super", "laef", "2", status="failed")],
            {("laef", "2"): EVIL},
            **parts,
        )
    )
    tags = [tag for tag, _ in reader.seen]
    assert "script" not in tags
    assert "img" not in tags
    assert reader.text.count("<script>alert(1)</script>") > 8
    assert str(617 * 619) not in reader.text  # no template inside a template
    assert reader.open == []


def test_findings_say_what_the_rows_say():
    found = findings(make.two_models())
    assert found[0] == (
        "12 leads: ST-MEM is best with 92.6, 0.3 points above LAEF, a difference that could be "
        "chance (p = 0.410 after Holm)."
    )
    assert (
        "1 random lead: LAEF is best with 72.3, 15.0 points above ST-MEM, a difference that is "
        "larger than chance explains"
    ) in found[1]
    assert found[-1].startswith(
        "Of the skill above chance at 12 leads: LAEF keeps 53 % with 1 random lead and 68 % with "
        "2 random leads;"
    )
    lone = findings(make.build([make.row("ptbxl_super", "laef", "12", 0.9, best=True)]))
    assert lone == ["12 leads: LAEF has macro AUROC 90.0."]
    untested = [
        make.row("ptbxl_super", name, "12", auroc)
        for name, auroc in (("laef", 0.9), ("stmem", 0.8))
    ]
    assert findings(make.build(untested)) == [
        "12 leads: LAEF is best with 90.0, 10.0 points above ST-MEM; not tested."
    ]


def test_weights_of_our_own_are_called_so_wherever_a_number_is_shown():
    study = make.two_models()
    study.models[0] = replace(
        study.models[0], weights_source={"own": True, "file": "laef.safetensors", "sha256": "ab"}
    )
    (section,) = reports.get("main_table").sections(study)
    assert [column.title for column in section.parts[0].columns] == [
        "Task",
        "Leads",
        "LAEF (own weights)",
        "ST-MEM",
    ]


@pytest.mark.parametrize(
    ("p_holm", "said"), [(0.06, "could be chance"), (0.04, "is larger than chance explains")]
)
def test_a_sentence_follows_p_after_holm_and_says_among_whom(p_holm: float, said: str) -> None:
    """The interval of the difference excludes 0 in both."""
    rows = [
        make.row("ptbxl_super", "laef", "12", 0.9, best=True),
        make.row("ptbxl_super", "merl", "12", 0.8, p=0.03, p_holm=p_holm),
    ]
    rows.append(make.row("ptbxl_super", "stmem", "12", 0.7, weights="random"))
    (found,) = findings(make.build(rows))
    assert found.startswith(
        (
            "12 leads: LAEF is best of the trained with 90.0, 10.0 points above merl, a difference "
            "that "
        )
        + said
    ), found
    assert found.endswith("Untrained, for reference: ST-MEM 70.0."), found


def test_untrained_encoders_and_synthetic_data_win_nothing():
    rows = [
        make.row("demo", name, "12", auroc, weights="random")
        for name, auroc in (("laef", 0.9), ("stmem", 0.8))
    ]
    demo = {
        "tasks": [make.task("demo", "Demo", dataset="demo")],
        "datasets": [make.dataset("demo", "Demo", synthetic=True)],
    }
    numbers = "12 leads: macro AUROC LAEF 90.0, ST-MEM 80.0."
    why = (
        "This run shows the harness at work: every encoder is untrained and all data are "
        "synthetic, so no number here says"
    )
    assert findings(make.build(rows, **demo)) == [
        f"{why} anything about a model or a patient.",
        numbers,
    ]
    trained = [row | {"weights": "released"} for row in rows]
    assert findings(make.build(trained, **demo))[0].count("all data are synthetic") == 1
    untrained = [row | {"task": "ptbxl_super"} for row in rows]
    assert findings(make.build(untrained))[1:] == [numbers]
    waiting = make.row("ptbxl_super", "merl", "12", status="failed")
    assert findings(make.build([*untrained, waiting])) == [
        "This run shows the harness at work: every encoder that has a number is untrained, so no "
        "number here says anything about a published model.",
        numbers,
    ]
    mixed = [untrained[0], untrained[1] | {"weights": "released"}]
    said = findings(make.build(mixed))
    assert said == ["12 leads: ST-MEM has macro AUROC 80.0. Untrained, for reference: LAEF 90.0."]


def test_a_run_without_numbers_says_how_far_it_is(read):
    asked = [make.row("ptbxl_super", "laef", leads, status="failed") for leads in ("1", "12")]
    waiting = dict.fromkeys(
        [("laef", "1"), ("laef", "12")], "not computed yet; the same command goes on"
    )
    study = make.build(asked, waiting)
    assert findings(study) == ["Nothing is computed yet: 6 cells to go."]
    assert rows("cells", study)[0]["leads"] == "1, 12"
    assert "failed" not in read(study).text
    mixed = make.build(asked, {("laef", "1"): "not computed yet"})
    assert findings(mixed) == ["No cell of this run has a number: 5 not computed yet and 1 failed."]


def test_comparisons_are_those_of_the_study(read):
    study = make.two_models()
    text = read(study).text
    assert len(rows("comparisons", study)) == len(study.comparisons) == 6
    assert "1 ST-MEM LAEF +15.0 [+14.0, +16.0] 0.002 0.002 0.012 40 190 yes" in text
    assert "12 LAEF ST-MEM +0.3 [−99.7, +100.3] 0.410 0.410 0.410 40 190 no" in text


def test_many_tasks_are_counted():
    names = [f"t{i}" for i in range(5)]
    rows = [
        make.row(
            n,
            "laef",
            "1",
            0.8 - 0.1 * (n == "t4"),
            best=n != "t4",
            p=0.01 if n == "t4" else float("nan"),
        )
        for n in names
    ]
    rows += [
        make.row(n, "stmem", "1", 0.75, p=0.01, not_significantly_worse=n == "t0", best=n == "t4")
        for n in names
    ]
    found = findings(make.build(rows, tasks=[make.task(n, n.upper()) for n in names]))
    assert found == [
        "1 random lead, 5 tasks: LAEF is best on 4 (on 3 of them by more than chance explains); "
        "ST-MEM is best on 1 (on 1 of them by more than chance explains)."
    ]


def test_sections_of_the_crowded_study(read):
    text = read(make.crowded()).text
    spots = [
        text.index(f"{word}.")
        for word in ("Synthetic data", "Random weights", "Limited", "Incomplete")
    ]
    assert spots == sorted(spots)
    assert spots[-1] < text.index("Main table")
    # a banner is not repeated under the table
    assert all(text.count(note.partition(": ")[2]) == 1 for note in make.GRAVE_NOTES)
    assert "LeakError: NaN reached the output" in text
    assert "none of I & II | III is <read>" in text
    assert "00017: signal ends early" in text
    assert "0123456789abcdef with uncommitted changes" in text
    assert "nothing: the network reads measured leads only" in text
    assert "12 min 34 s" in text
    for note in make.NOTES:
        assert note in text


def test_banners_stay_when_the_main_table_is_not_asked_for(tmp_path):
    reports.write(make.crowded(), tmp_path, only=["data"])
    text = (tmp_path / "index.html").read_text()
    assert "Synthetic data." in text
    assert "Main table" not in text


def test_labels_are_means_over_lead_draws_and_undefined_stays_undefined():
    (section,) = reports.get("labels").sections(make.two_models())
    groups = [part for part in section.parts if isinstance(part, reports.Group)]
    settings = ["1 random lead", "2 random leads", "12 leads", "lead I", "lead II", "leads I+II"]
    assert [group.title for group in groups] == [
        f"PTB-XL Super, {setting} (3 labels)" for setting in settings
    ]
    of = {row["label"]: row for row in groups[0].parts[0].rows}
    assert [of["MI"]["0"], of["MI"]["1"]] == pytest.approx([0.733, 0.583])
    assert of["MI"]["positives"] == 21
    assert [of["RARE"]["0"], of["RARE"]["1"]] == [None, None]


def test_files_beside_the_page(tmp_path):
    study = make.crowded()
    drawn = reports.write(study, tmp_path)
    figure = {f"lead_curve.{kind}" for kind in ("csv", "png", "svg")}
    tables = {f"main_table.{kind}" for kind in ("csv", "md", "tex")} | {
        f"{name}.csv" for name in ("comparisons", "cells", "labels", "provenance", "commits")
    }
    tables |= {f"{name}.{kind}" for name in ("data", "models", "table1") for kind in ("md", "tex")}
    tables |= {"datasets.csv", "models.csv"}
    assert (
        {path.name for path in drawn}
        == {path.name for path in tmp_path.iterdir()}
        == {"index.html", "provenance.md"} | figure | tables
    )
    with (tmp_path / "labels.csv").open() as file:
        assert len(list(csv.reader(file))) == len(study.labels) + 1


def test_counts_are_whole_in_the_files_beside(tmp_path):
    reports.write(make.two_models(), tmp_path, only=["cells"])
    first = next(csv.DictReader((tmp_path / "cells.csv").open()))
    assert (first["seed"], first["setting"], first["n_records"]) == ("0", "1@seed0", "198")
