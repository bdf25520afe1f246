"""The page: one file that asks nothing of a network, escapes what it is told, and says what the rows say."""

import csv
import runpy
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from ecgbench.reports import main_table, page

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("make_study.py"))))

VOID = {"meta", "link", "br", "img", "hr", "input", "base"}
EVIL = '"><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>{{ 7 * 7 }}'


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


def read(study) -> Reader:
    return Reader(page.html(page.facts(study)))


@pytest.mark.parametrize("study", [make.two_models(), make.crowded(), make.build([make.row("ptbxl_super", "laef", "1", status="failed")])])
def test_self_contained_and_balanced(study):
    reader = read(study)
    assert reader.open == []
    tags = {tag for tag, _ in reader.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    beside = {"main_table.csv", "lead_curve.csv", "comparisons.csv", "labels.csv", "cells.csv"}
    ids = {attrs["id"] for _, attrs in reader.seen if "id" in attrs}
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
    css = (page.TEMPLATES / "page.css").read_text()
    assert "url(" not in css
    assert "@import" not in css


def test_hostile_text_is_text():
    source = {"file": EVIL, "sha256": "cd" * 32, "licence": EVIL, "terms": EVIL}
    more = {"objective": EVIL, "corpora": [EVIL], "weights_source": source, "contract": make.CONTRACT | {"absent": EVIL}}
    model = make.model("laef", EVIL, 7_104_000, summary=EVIL, paper=EVIL, **more)
    data = make.dataset(title=EVIL, doi='10.1/"><script>', quarantined=[{"record": EVIL, "reason": EVIL}])
    told = make.PROVENANCE | {"command": EVIL, "packages": {EVIL: EVIL}}
    row = make.row("ptbxl_super", "laef", "1", 0.7, 0.01)
    parts = {"models": [model], "datasets": [data], "provenance": told, "notes": [EVIL], "tasks": [make.task("ptbxl_super", EVIL)]}
    reader = read(make.build([row, make.row("ptbxl_super", "laef", "2", status="failed")], {("laef", "2"): EVIL}, **parts))
    tags = [tag for tag, _ in reader.seen]
    assert "script" not in tags
    assert "img" not in tags
    assert reader.text.count("<script>alert(1)</script>") > 8
    assert "49" not in reader.text.replace("0.49", "")  # no template inside a template
    assert reader.open == []


def test_findings_say_what_the_rows_say():
    found = page.facts(make.two_models())["findings"]
    assert (
        found[0] == "12 leads: ST-MEM is best with 92.6, 0.3 points above LAEF, a difference that could be chance (p = 0.410 after Holm)."
    )
    assert "1 random lead: LAEF is best with 72.3, 15.0 points above ST-MEM, a difference that is larger than chance explains" in found[1]
    assert found[-1].startswith("Of the skill above chance at 12 leads: LAEF keeps 53 % with 1 random lead and 68 % with 2 random leads;")
    lone = page.facts(make.build([make.row("ptbxl_super", "laef", "12", 0.9, best=True)]))["findings"]
    assert lone == ["12 leads: LAEF has macro AUROC 90.0."]
    untested = [make.row("ptbxl_super", name, "12", auroc) for name, auroc in (("laef", 0.9), ("stmem", 0.8))]
    assert page.facts(make.build(untested))["findings"] == ["12 leads: LAEF is best with 90.0, 10.0 points above ST-MEM; not tested."]


def test_weights_of_our_own_are_called_so_wherever_a_number_is_shown():
    study = make.two_models()
    study.models[0]["weights_source"] = {"own": True, "file": "laef.safetensors"}
    assert {head["label"] for head in page.facts(study)["table"]["columns"]} == {"LAEF (own weights)", "ST-MEM"}


@pytest.mark.parametrize(("p_holm", "said"), [(0.06, "could be chance"), (0.04, "is larger than chance explains")])
def test_a_sentence_follows_p_after_holm_and_says_among_whom(p_holm: float, said: str) -> None:
    """The interval of the difference excludes 0 in both."""
    rows = [make.row("ptbxl_super", "laef", "12", 0.9, best=True), make.row("ptbxl_super", "merl", "12", 0.8, p=0.03, p_holm=p_holm)]
    rows.append(make.row("ptbxl_super", "stmem", "12", 0.7, p=0.002, p_holm=0.006, weights="random"))
    (found,) = page.facts(make.build(rows))["findings"]
    assert found.startswith("12 leads: LAEF is best of the trained with 90.0, 10.0 points above merl, a difference that " + said), found
    assert found.endswith("Untrained, for reference: ST-MEM 70.0."), found


def test_untrained_encoders_and_synthetic_data_win_nothing():
    rows = [make.row("demo", name, "12", auroc, weights="random") for name, auroc in (("laef", 0.9), ("stmem", 0.8))]
    rows[0]["best"], rows[1]["p"] = True, 0.002
    demo = {"tasks": [make.task("demo", "Demo", dataset="demo")], "datasets": [make.dataset("demo", "Demo", synthetic=True)]}
    numbers = "12 leads: macro AUROC LAEF 90.0, ST-MEM 80.0."
    why = "This run shows the harness at work: every encoder is untrained and all data are synthetic, so no number here says"
    assert page.facts(make.build(rows, **demo))["findings"] == [f"{why} anything about a model or a patient.", numbers]
    trained = [row | {"weights": "released"} for row in rows]
    assert page.facts(make.build(trained, **demo))["findings"][0].count("all data are synthetic") == 1
    untrained = [row | {"task": "ptbxl_super"} for row in rows]
    assert page.facts(make.build(untrained))["findings"][1:] == [numbers]
    mixed = [untrained[0], untrained[1] | {"weights": "released"}]
    said = page.facts(make.build(mixed))["findings"]
    assert said == ["12 leads: ST-MEM has macro AUROC 80.0. Untrained, for reference: LAEF 90.0."]


def test_a_run_without_numbers_says_how_far_it_is():
    rows = [make.row("ptbxl_super", "laef", leads, status="failed") for leads in ("1", "12")]
    waiting = dict.fromkeys([("laef", "1"), ("laef", "12")], "not computed yet; the same command goes on")
    study = make.build(rows, waiting)
    assert page.facts(study)["findings"] == ["Nothing is computed yet: 6 cells to go."]
    assert page.facts(study)["gaps"][0]["settings"] == "1, 12"
    assert "failed" not in page.html(page.facts(study))
    mixed = make.build(rows, {("laef", "1"): "not computed yet"})
    assert page.facts(mixed)["findings"] == ["No cell of this run has a number: 5 not computed yet and 1 failed."]


def test_comparisons_are_those_of_the_study():
    study = make.two_models()
    text = read(study).text
    assert len(page.facts(study)["comparisons"]) == len(study.comparisons) == 6
    assert "1 ST-MEM LAEF +15.0 [+14.0, +16.0] 0.002 0.002 190 yes" in text
    assert "12 LAEF ST-MEM +0.3 [−99.7, +100.3] 0.410 0.410 190 no" in text


def test_many_tasks_are_counted():
    names = [f"t{i}" for i in range(5)]
    rows = [make.row(n, "laef", "1", 0.8 - 0.1 * (n == "t4"), best=n != "t4", p=0.01 if n == "t4" else float("nan")) for n in names]
    rows += [make.row(n, "stmem", "1", 0.75, p=0.01, not_significantly_worse=n == "t0", best=n == "t4") for n in names]
    found = page.facts(make.build(rows, tasks=[make.task(n, n.upper()) for n in names]))["findings"]
    assert found == [
        "1 random lead, 5 tasks: LAEF is best on 4 (on 3 of them by more than chance explains); "
        "ST-MEM is best on 1 (on 1 of them by more than chance explains)."
    ]


def test_sections_of_the_crowded_study():
    facts = page.facts(make.crowded())
    text = read(make.crowded()).text
    assert [banner["word"] for banner in facts["banners"]] == ["Synthetic data", "Random weights", "Limited", "Incomplete"]
    assert all(text.count(note.partition(": ")[2]) == 1 for note in make.GRAVE_NOTES)  # a banner is not repeated under the table
    assert "LeakError: NaN reached the output" in text
    assert "none of I & II | III is <read>" in text
    assert "00017: signal ends early" in text
    assert "0123456789abcdef with uncommitted changes" in text
    assert "nothing: the network reads measured leads only" in text
    assert "12 min 34 s" in text
    for note in make.NOTES:
        assert note in text


def test_labels_are_means_over_lead_draws_and_undefined_stays_undefined():
    study = make.two_models()
    blocks = page.facts(study)["labels"]
    assert [block["leads"] for block in blocks] == ["1", "2", "12", "I", "II", "I+II"]
    rows = {row["label"]: row for row in blocks[0]["rows"]}
    assert rows["MI"]["auroc"] == pytest.approx([0.733, 0.583])
    assert rows["MI"]["positives"] == 21
    assert rows["RARE"]["auroc"] == [None, None]


def test_files_beside_the_page(tmp_path):
    study = make.crowded()
    drawn = page.draw(page.facts(study), tmp_path)
    assert [path.name for path in drawn] == ["index.html", "main_table.csv", "lead_curve.csv", "comparisons.csv", "cells.csv", "labels.csv"]
    assert (tmp_path / "main_table.csv").read_text() == main_table.csv_text(main_table.facts(study))
    with (tmp_path / "labels.csv").open() as file:
        assert len(list(csv.reader(file))) == len(study.labels) + 1


def test_counts_are_whole_in_the_files_beside(tmp_path):
    study = make.two_models()
    page.draw(page.facts(study), tmp_path)
    first = next(csv.DictReader((tmp_path / "cells.csv").open()))
    assert (first["seed"], first["setting"], first["n_records"]) == ("0", "1@seed0", "198")
