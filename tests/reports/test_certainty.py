"""What a report says of certainty: asterisks, why something is not tested, and what becomes of
untrained encoders.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ecgbench import reports
from ecgbench.core.note import Note, Notes
from ecgbench.results.study import Run
from tests import by_hand as make

SIX = (0.717, 0.702, 0.694, 0.679, 0.656, 0.663)
FORMS = ("md", "tex", "html")


def written(study: Run, folder: Path) -> dict[str, str]:
    """The main table in Markdown and LaTeX, and the page."""
    reports.write(study, folder)
    texts = {kind: (folder / f"main_table.{kind}").read_text() for kind in ("md", "tex")}
    return texts | {"html": (folder / "index.html").read_text()}


def line(texts: dict[str, str], kind: str, leads: str) -> list[str]:
    """The scores of the first row at a setting, as they are written."""
    if kind == "html":
        section = texts["html"].partition('<section id="main_table">')[2]
        row = section.partition(f">{leads}</th>")[2].partition("</tr>")[0]
        cells = re.findall("<td[^>]*>(.*?)</td>", row, re.DOTALL)
        return [
            re.sub("</?button[^>]*>|^<span>|</span>$", "", cell.partition("<small")[0].strip())
            for cell in cells
            if "<span" in cell
        ]
    between, end = (r"\|", r" \|") if kind == "md" else ("&", r" \\\\")
    row = re.search(rf"^.*?{between} {leads} {between} (.*?){end}$", texts[kind], re.MULTILINE)
    assert row
    cells = [cell.strip() for cell in re.split(rf" {between} ", row[1])]
    cells = [cell for cell in cells if cell]  # where no leads are drawn there is no spread
    if kind == "md":
        return [cell.partition(r" \[")[0] for cell in cells]
    return [re.sub(r"\\shortstack\{(.*)\\\\\{\\tiny.*", r"\1", cell) for cell in cells]


def beaten(**more: object) -> Run:
    """Two trained columns, and an untrained one that scores higher than both."""
    rows = []
    for leads, at in (("1", 0.0), ("12", 0.1)):
        spread = {"std": 0.01} if leads == "1" else {}
        rows += [
            make.row("ptbxl_super", "laef", leads, 0.8 + at, best=True, **spread),
            make.row("ptbxl_super", "stmem", leads, 0.7 + at, p=0.002, p_holm=0.002, **spread),
            make.row("ptbxl_super", "odd", leads, 0.85 + at, weights="random", **spread),
        ]
    rows += [make.row("ptbxl_super", "odd", "2", status="failed", weights="random")]
    odd = make.model("odd", "Odd", 41_000, weights="random", weights_sha256=None)
    trained = [make.model("laef", "LAEF", 7_104_000), make.model("stmem", "ST-MEM", 88_500_000)]
    return make.build(rows, models=[*trained, odd], **more)


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Six trained models, none of them significantly worse than the best."""
    same = {"p": 0.3, "p_holm": 1.0, "not_significantly_worse": True}
    rows = [
        make.row("ptbxl_super", f"m{at}", "12", value, **({"best": True} if not at else same))
        for at, value in enumerate(SIX)
    ]
    models = [make.model(f"m{at}", f"Model {at}", 1_000_000) for at in range(len(SIX))]
    return written(make.build(rows, models=models), tmp_path_factory.mktemp("six"))


@pytest.mark.parametrize("kind", FORMS)
def test_whatever_is_not_significantly_worse_has_an_asterisk(six, kind):
    """At any rank: the paper's asterisk is no prize for the second and the third."""
    sign = {"md": r"\*", "tex": "*", "html": '<span class="star">*</span>'}[kind]
    cells = line(six, kind, "12 leads")
    assert [cell.endswith(sign) for cell in cells] == [False] + [True] * 5
    assert "not significantly worse than the best of the row" in six[kind]


def test_an_untrained_column_has_a_difference_with_an_interval_and_no_test():
    sections = {section.name: section for section in reports.sections("main_table", beaten())}
    (row,) = [
        row
        for row in sections["comparisons"].parts[0].rows
        if row["model"].text == "Odd" and row["leads"] == "12"
    ]
    assert (row["difference"].text, row["difference"].small) == ("−5.0", "[−6.0, −4.0]")
    assert (row["p"], row["p_holm"]) == (None, None)
    assert row["not_significantly_worse"] is None
    assert [note.kind for note in row["note"]] == ["untrained"]


def test_a_fine_tuned_column_from_a_random_start_is_trained():
    study = beaten(provenance=replace(make.PROVENANCE, protocol="finetune"))
    sections = reports.sections("main_table", study)
    section = next(one for one in sections if one.name == "main_table")
    assert "‡" not in section.parts[0].marks
    (best,) = [s.parts[0].numbers for s in sections if s.name == "best"]
    assert set(best["best_model"]) == {"odd"}


@pytest.fixture(scope="module")
def untested(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Scores that have a value and a reason not to test them, beside one that has no value."""
    few = Note("test", "not tested: 4.2 degrees of freedom, fewer than 6")
    label = Note("test", "not tested: 61% of the variance comes from the label a; b")
    limited = Note("", "limited: the records chosen favour rare labels")
    rows = [
        make.row("ptbxl_super", "m0", "12", 0.9, best=True, note=Notes([limited])),
        make.row("ptbxl_super", "m1", "12", 0.8, note=Notes([limited, few])),
        make.row("ptbxl_super", "m2", "12", 0.7, note=Notes([label])),
        make.row("ptbxl_super", "m3", "12", status="failed"),
        make.row("ptbxl_super", "m4", "12", 0.6, note=Notes([few])),
    ]
    models = [make.model(f"m{at}", f"Model {at}", 1_000_000) for at in range(5)]
    return written(make.build(rows, models=models), tmp_path_factory.mktemp("untested"))


@pytest.mark.parametrize("kind", FORMS)
def test_a_reason_not_to_test_is_a_numbered_footnote_at_its_score(untested, kind):
    number = {
        "md": r"<sup>(\d)</sup>",
        "tex": r"\\textsuperscript\{(\d)\}",
        "html": r'<sup><a href="#main_table-(\d)" aria-label="Note \1">\1</a></sup>',
    }[kind]
    cells = line(untested, kind, "12 leads")
    notes = [found[1] if (found := re.search(number, cell)) else "" for cell in cells]
    assert notes == ["1", "2", "3", "4", "5"]
    below = {
        "md": "- <sup>{}</sup> {}\n",
        "tex": r"\textsuperscript{{{}}} {}",
        "html": '<li id="main_table-{}">{}</li>',
    }[kind]
    reason = "not tested: 4.2 degrees of freedom, fewer than 6"
    assert untested[kind].count(below.format(5, reason)) == 1
