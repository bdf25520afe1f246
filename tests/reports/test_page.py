"""The page says what the rows say; what it is made of is in test_hostile_reports.py."""

from dataclasses import replace

import pytest

from ecgbench import reports
from ecgbench.reports import records
from ecgbench.results.study import Run
from tests import by_hand as make


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


def test_a_run_without_numbers_says_how_far_it_is():
    asked = [make.row("ptbxl_super", "laef", leads, status="failed") for leads in ("1", "12")]
    study = make.build(asked)
    study.cells["status"] = "missing"
    assert "6 cells" in reports.summary(study, None)[0]
    assert rows("cells", study)[0]["leads"] == "1, 12"
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
