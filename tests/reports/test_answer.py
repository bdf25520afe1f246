"""Better than guessing or not: the three answers, against intervals computed here, in folds too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ecgbench import reports
from ecgbench.results.guessing import BETTER, NOT, OPEN
from ecgbench.results.study import Study, read
from tests.results.made_run import Data, Made, write


def made(path: Path, skill: Any, **more: Any) -> Study:
    known = {"leads": "I,12", "models": ("good",), "records": 400, "tasks": {"a": 3}} | more
    data = {"real": Data(tasks=known.pop("tasks"), records=known.pop("records"))}
    write(path, Made(data=data, skill=skill, **known))
    return read(path)


def opened(study: Study) -> tuple[Any, pd.DataFrame]:
    first, *tables = reports.get("main_table").sections(study)[0].parts
    (answer,) = (t for t in tables if t.name == "answer")
    return first, answer.numbers.set_index(["leads", "label"])


def test_named_leads_open_with_an_answer_and_each_label_has_its_own(tmp_path: Path) -> None:
    lost = {("I", "A1"): 0.0}
    shown, found = opened(made(tmp_path / "run", lambda *of: 1.2, lost=lost))
    assert set(found.index.get_level_values("leads")) == {"I"}
    assert found.loc[("I", "A0"), "answer"] == BETTER
    assert found.loc[("I", "A1"), "answer"] in (NOT, OPEN)
    macro = found.loc[("I", "macro")]
    by = f"{100 * (macro['value'] - 0.5):.1f}"
    assert shown.sentence.startswith(f"With lead I, Good is better than guessing, by {by} points: ")
    assert "By diagnosis, better than guessing: A0 and A2; " in shown.sentence
    assert "keeps" not in shown.sentence


def test_a_few_sets_of_leads_are_named(tmp_path: Path) -> None:
    lost = {("II", f"A{k}"): 0.0 for k in range(3)}
    shown, found = opened(made(tmp_path / "run", lambda *of: 1.2, leads="I,II,12", lost=lost))
    words = {OPEN: "with II it cannot be told", NOT: "with II it is not"}
    what = words[found.loc[("II", "macro"), "answer"]]
    assert shown.sentence == f"Of 2 sets of leads, Good is better than guessing with I; {what}."


def test_where_no_set_can_be_told_the_sentence_says_so_once(tmp_path: Path) -> None:
    study = made(tmp_path / "run", lambda *of: 1.2, leads="I,II,12", records=24)
    shown, found = opened(study)
    assert {*found["answer"]} == {OPEN}
    none = "With none of the 2 sets of leads can it be told whether Good is better than guessing."
    assert shown.sentence == none


@pytest.mark.parametrize("skill", [1.2, 0.05])
def test_patients_needed_are_explained_where_one_is_printed(skill: float, tmp_path: Path) -> None:
    study = made(tmp_path / "run", lambda *of: skill)
    parts = reports.get("main_table").sections(study)[0].parts[1:]
    (notes,) = (part.notes for part in parts if part.name == "answer")
    told = opened(study)[1]["answer"] != OPEN
    assert ("in 4 of 5 studies" in notes[0]) == (not told.all())
    assert told.all() == (skill > 1)


def test_random_leads_alone_ask_no_such_question(tmp_path: Path) -> None:
    study = made(tmp_path / "run", lambda *of: 1.2, leads="1,12")
    parts = reports.get("main_table").sections(study)[0].parts
    assert [part.name for part in parts[1:]] == ["opening"]


def test_own_recordings_ask_it_of_every_setting(tmp_path: Path) -> None:
    study = made(tmp_path / "run", lambda *of: 1.2, leads="12")
    study = replace(study, datasets=[replace(d, licence="own recordings") for d in study.datasets])
    _, found = opened(study)
    assert found.loc[("12", "macro"), "answer"] == BETTER


def test_random_leads_of_own_recordings_are_no_names(tmp_path: Path) -> None:
    study = made(tmp_path / "run", lambda *of: 1.2, leads="1,12")
    study = replace(study, datasets=[replace(d, licence="own recordings") for d in study.datasets])
    shown, _ = opened(study)
    words = "Of 2 sets of leads, Good is better than guessing with 1 random lead and 12 leads."
    assert shown.sentence == words


def test_each_set_of_leads_has_the_records_that_have_these_leads(tmp_path: Path) -> None:
    study = made(tmp_path / "run", lambda *of: 0.0, leads="I,II")
    fewer, columns = study.labels["setting"] == "II", ["positives", "n"]
    study.labels.loc[fewer, columns] //= 4
    _, found = opened(study)
    for setting in ("I", "II"):
        mine = study.labels[study.labels["setting"] == setting].set_index("label")
        assert dict(found.loc[setting]["positives"].dropna()) == dict(mine["positives"])


def test_synthetic_data_random_and_own_weights_are_called_so(tmp_path: Path) -> None:
    study = made(tmp_path / "run", lambda *of: 1.2)
    own = {"own": True, "file": "good.safetensors", "sha256": "ab", "licence": "MIT"}
    study.models[0] = replace(study.models[0], weights_source=own)
    study = replace(study, datasets=[replace(d, synthetic=True) for d in study.datasets])
    shown, _ = opened(study)
    assert "Good (own weights)" in shown.sentence
    assert "(synthetic)" in shown.sentence
    assert "all data are synthetic" in shown.sentence
    for table in (study.main, study.cells):
        table["weights"] = "random"
    shown, _ = opened(replace(study))
    assert "(random weights)" in shown.sentence
    assert "every encoder that has a number is untrained" in shown.sentence


def test_a_label_over_folds_has_the_interval_of_all_its_patients(tmp_path: Path) -> None:
    """The mean of the ends of five small test sets is more than twice as wide."""
    study = made(tmp_path / "run", lambda *of: 0.6, folds=5)
    _, found = opened(study)
    for label in ("A0", "A1", "A2"):
        row, each = found.loc[("I", label)], study.labels
        each = each[(each["label"] == label) & (each["setting"] == "I")]
        assert row["value"] == pytest.approx(each["value"].mean())
        width = (each["high"] - each["low"]).mean()
        assert 0.3 * width < row["high"] - row["low"] < 0.6 * width
        assert row["low"] < row["value"] < row["high"]
        assert row["positives"] == each["positives"].sum()


def test_many_sets_of_leads_are_counted_and_verdicts_are_a_grid(tmp_path: Path) -> None:
    """Every mark has its numbers; as many rows as sets."""
    leads = "12,I,II,III,aVR,aVL,aVF,V1,V2,V3"
    study = made(
        tmp_path / "run", lambda m, of: {"good": 1.5, "weak": 0.7}[m], leads=leads,
        models=("good", "weak"), tasks={"a": 2},
    )  # fmt: skip
    shown, found = opened(study)
    assert shown.sentence == "Of 9 sets of leads, Good is better than guessing with 9."
    assert len(found) == 27
    sections = {s.name: s for s in reports.get("main_table").sections(study)}
    grid = sections["verdicts"].parts[0]
    assert grid.grid
    assert [row["leads"] for row in grid.rows] == leads.split(",")
    marks = {(row["0"].text, row["1"].text) for row in grid.rows}
    assert marks == {("★", "✗")}
    main = study.main.set_index(["leads", "model"])["value"]
    for row in grid.rows:
        for column, model in (("0", "good"), ("1", "weak")):
            assert f"{100 * main[row['leads'], model]:.1f} [" in row[column].small
    parts = reports.get("non_inferiority").sections(study)[0].parts
    kept = next(p for p in parts if p.kind == "table")
    numbers = next(p for p in parts if p.kind == "group").parts[0].numbers
    yes = {"yes": "✓", "no": "✗", "undecided": "?", "cancelled": "!"}
    numbers = numbers[numbers["against"] == "its own 12 leads"]
    for one in numbers.to_dict("records"):
        row = next(r for r in kept.rows if r["leads"] == one["leads"])
        cell = row["0" if one["model"] == "good" else "1"]
        assert cell.text == yes.get(one["margin_0.02"], "·")
    reports.write(study, tmp_path / "out")
    for suffix in ("md", "tex"):  # for a paper the table is not folded away
        text = (tmp_path / "out" / f"non_inferiority.{suffix}").read_text(encoding="utf-8")
        assert text.count("V3") == 3, "of each model, and of one against the best"
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    ids = [part.partition('"')[0] for part in page.split('popovertarget="')[1:]]
    assert len(ids) == len(set(ids)) >= 2 * 10 + 2 * 9
    assert all(page.count(f'id="{one}" popover') == 1 for one in ids)


def test_a_grid_keeps_the_order_of_the_leads_where_a_column_lacks_some(tmp_path: Path) -> None:
    leads = "12,I,II,III,aVR,aVL,aVF,V1,V2,V3"
    study = made(
        tmp_path / "run", lambda *of: 1.2, leads=leads, models=("good", "weak"),
        lacking=[("a", "good", "II")],
    )  # fmt: skip
    grid = reports.get("non_inferiority").sections(study)[0].parts[1]
    assert [row["leads"] for row in grid.rows] == leads.split(",")[1:]


def test_empty_sections_are_one_line_and_one_lead_has_no_curve(tmp_path: Path) -> None:
    study = made(tmp_path / "run", lambda *of: 1.2, leads="I")
    reports.write(study, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "twelve leads at fewer" not in page
    assert "against the number of measured leads" not in page
    assert not (tmp_path / "out" / "lead_curve.png").exists()
    assert (tmp_path / "out" / "lead_curve.csv").read_text(encoding="utf-8").count("\n") == 2
