"""The main table: the CSV is the study, the other forms are that CSV spelled; ranks, signs, escapes
and gaps in between.
"""

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from ecgbench import metrics, reports
from ecgbench.results.study import Run
from tests import by_hand as make


@pytest.fixture
def texts(tmp_path: Path) -> "Iterator[object]":
    """CSV, Markdown and LaTeX of a study."""

    def write(study: Run) -> list[str]:
        reports.write(study, tmp_path, only=["main_table"])
        return [(tmp_path / f"main_table.{kind}").read_text() for kind in ("csv", "md", "tex")]

    return write


def section(name: str, study: Run) -> reports.Section:
    """A section of the reports of the main table and the lead curve."""
    found = [s for r in ("main_table", "lead_curve") for s in reports.sections(r, study)]
    return next(s for s in found if s.name == name)


def table(study: Run) -> reports.Table:
    return section("main_table", study).parts[0]


def scored(row: reports.Row) -> list[reports.Score]:
    return [value for value in row.values() if isinstance(value, reports.Score)]


def test_csv_is_exactly_the_study(texts):
    study = make.crowded()
    text = texts(study)[0]
    read = list(csv.DictReader(text.splitlines()))
    assert text.splitlines()[0] == ",".join(study.main.columns)
    assert len(read) == len(study.main)
    for row, (_, true) in zip(read, study.main.iterrows()):
        for name in ("value", "std", "low", "high", "p", "p_holm"):
            # reads back bit for bit
            assert row[name] == ("" if math.isnan(true[name]) else repr(float(true[name])))
        assert row["n_records"] == (
            "" if math.isnan(true["n_records"]) else str(int(true["n_records"]))
        )
        assert (row["best"], row["leads"], row["status"]) == (
            str(bool(true["best"])).lower(),
            true["leads"],
            true["status"],
        )
    assert "\r" not in text
    assert text == texts(make.crowded())[0]


def test_every_number_of_the_other_forms_is_one_of_the_csv(texts):
    study = make.crowded()
    _, md, tex = texts(study)
    known = {
        f"{100 * v:.1f}"
        for name in ("value", "std", "low", "high")
        for v in study.main[name].dropna()
    }
    cells = [
        cell
        for line in md.splitlines()
        if line.startswith("| ") and "Task" not in line
        for cell in line.split("|")[3:-1]
    ]
    rows = [
        cell
        for line in tex.splitlines()
        if line.endswith(r"\\") and re.search(r"\d\.\d|--", line)
        for cell in line.split("&")[2:]
    ]
    found = re.findall(
        r"\d+\.\d+", " ".join(cells) + " ".join(row for row in rows if "M)" not in row)
    )
    assert len(found) > 60
    assert set(found) <= known


def test_intervals_stand_in_the_cells_of_markdown_and_latex(texts):
    """A score, its asterisk and its interval; the heads say how large each model is."""
    _, md, tex = texts(make.two_models())
    cells = [
        c.strip() for c in next(x for x in md.splitlines() if "| 12 leads |" in x).split("|")[3:-1]
    ]
    assert cells == [r"92.3\* \[90.3, 94.3\]", "", r"92.6 \[90.6, 94.6\]", ""]
    assert r"\shortstack{92.3*\\{\tiny [90.3, 94.3]}} &  & \shortstack{92.6" in tex


def four(**more: object) -> Run:
    """Four trained columns with a tie that rounding hides, at twelve leads and at I, and an
    untrained one that scores higher.
    """
    values = {"a": 0.95002, "b": 0.95004, "c": 0.95004, "d": 0.4, "odd": 0.97}
    rows = [
        make.row("ptbxl_super", name, leads, value, best=name == best, **more)
        | ({"weights": "random"} if name == "odd" else {})
        for leads, best in (("12", "b"), ("I", "nobody"))
        for name, value in values.items()
    ]
    return make.build(rows, models=[make.model(name, name.upper(), 10**6) for name in values])


@pytest.mark.parametrize(
    ("direction", "ranks"), [("higher", [2, 1, 1, None, None]), ("lower", [2, 3, 3, 1, None])]
)
def test_places_are_of_unrounded_values_of_trained_columns_where_a_test_is_possible(
    direction: str, ranks: list[int | None]
) -> None:
    """Ties share a place; what is at chance or worse has none, nor any score of a setting in which
    nothing could be tested, nor of fewer than four columns.
    """
    study = four()
    chance = 0.5 if direction == "higher" else None
    card = replace(study.metrics["auroc"], direction=direction, chance=chance)
    at_12, at_i = table(replace(study, metrics={"auroc": card})).rows
    assert [score.rank for score in scored(at_12)] == ranks
    assert {score.rank for score in scored(at_i)} == {None}
    few = table(make.crowded()).rows
    assert {score.rank for row in few for score in scored(row)} == {None}


def test_tables_travel_with_the_banners_of_the_page(texts):
    _, md, tex = texts(make.crowded())
    assert "<sup>2</sup> failed: LeakError: NaN reached the output" in md
    for said in ("SYNTHETIC DATA", "RANDOM WEIGHTS", "LIMITED", "INCOMPLETE"):
        assert f"{said}: " in tex
        assert f"{said}: " in md


@pytest.mark.parametrize("study", [make.crowded(), make.two_models()])
def test_latex_is_well_formed(study, texts):
    tex = texts(study)[2]
    body = re.sub(r"(?<!\\)%.*", "", tex)
    stack: list[str] = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", body):
        if what == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    bare = re.sub(r"\\[{}]", "", body.replace(r"\\", ""))
    assert bare.count("{") == bare.count("}")
    assert bare.replace(r"\$", "").count("$") % 2 == 0
    for one in body.split(r"\begin{tabular}")[1:]:
        columns = len(re.match(r"\{(\w+)\}", one)[1])
        rows = [line for line in one.splitlines() if line.endswith(r"\\")]
        assert rows
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}


def test_survival_is_of_skill_above_chance_and_undefined_where_there_is_none():
    kept = {r["model"].text: r for r in section("survival", make.two_models()).parts[0].rows}
    assert kept["ST-MEM"]["1"].text == f"{100 * (0.573 - 0.5) / (0.926 - 0.5):.0f}"
    none = section("survival", make.crowded()).parts[0].rows[3]
    assert none["model"].text.startswith("A&B")
    assert none["1"] is None


def test_a_second_metric_has_its_own_table_and_rows(texts):
    study = make.two_models()
    other = study.main.assign(metric="auprc", value=study.main["value"] / 2)
    cards = {**study.metrics, "auprc": metrics.card("auprc")}
    both = replace(study, main=pd.concat([study.main, other], ignore_index=True), metrics=cards)
    csv_text, md, tex = texts(both)
    assert len(csv_text.splitlines()) == 1 + 2 * len(study.main)
    for text in (md, tex):
        assert "Macro AUROC" in text
        assert "36.1" in text
