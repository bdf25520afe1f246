"""Tasks that are columns of another's predictions: their labels' scores add up, to the last bit."""

import csv
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ecgbench import reports
from ecgbench.results.study import Study, read

pytestmark = pytest.mark.usefixtures("one_thread")
PARTS = ("ptbxl_diag", "ptbxl_form", "ptbxl_rhythm")


@pytest.fixture(scope="module")
def run(
    typed: Callable[..., int], _made_ptbxl: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("columns") / "run"
    words = ("--data", str(_made_ptbxl), "--tasks", ",".join(("ptbxl_all", *PARTS)))
    assert typed(out, *words, "--leads", "1,12", "--seeds", "1") == 0
    return out


def lines(study: Study) -> list[dict[str, object]]:
    (section,) = reports.get("evaluated_only").sections(study)
    return list(section.parts[0].rows)


def test_71_is_44_and_19_and_12_less_4_on_our_own_predictions(run: Path, tmp_path: Path) -> None:
    study = read(run)
    reports.write(study, tmp_path, only=["evaluated_only"])
    kept = list(csv.DictReader((tmp_path / "evaluated_only.csv").open()))
    assert [r["labels"] for r in kept] == ["71", "44", "19", "12", "71"] * 2
    assert [r["part"] for r in kept[:5]] == ["whole", *PARTS, "sum of the parts"]
    for summed, whole in zip(kept[4::5], kept[::5]):
        assert (summed["shared_equal"], summed["sum_equal"]) == ("true", "true")
        assert summed["auroc_sum"] == whole["auroc_sum"]
        assert 0 < int(whole["defined"]) == int(summed["defined"]) < 71
    assert [r["equal"] for r in lines(study) if r["equal"]] == [
        "labels in 1 of 1 cell, sum in 1 of 1 cell",
        "labels in 1 of 1 cell, sum in 1 of 1 cell",
    ]


def test_the_sums_again_by_scikit_learn(run: Path, tmp_path: Path) -> None:
    study = read(run)
    reports.write(study, tmp_path, only=["evaluated_only"])
    kept = {
        (r["part"], r["setting"]): float(r["auroc_sum"])
        for r in csv.DictReader((tmp_path / "evaluated_only.csv").open())
    }
    for part, task in (("whole", "ptbxl_all"), *((p, p) for p in PARTS)):
        table = study.result(task, "tiny", "12", "zero").predictions()
        labels = [c.removeprefix("target:") for c in table if c.startswith("target:")]
        values = [
            roc_auc_score(table[f"target:{label}"], table[f"probability:{label}"])
            for label in labels
            if table[f"target:{label}"].nunique() == 2
        ]
        assert kept[part, "12"] == pytest.approx(sum(values), abs=1e-9)


def test_one_bit_is_seen(run: Path) -> None:
    study = read(run)
    labels = study.labels.copy()
    hit = (labels["task"] == "ptbxl_form") & (labels["setting"] == "12") & labels["value"].notna()
    at = labels.index[hit][0]
    labels.loc[at, "value"] = np.nextafter(labels.loc[at, "value"], 2)
    said = [r["equal"] for r in lines(replace(study, labels=labels)) if r["equal"]]
    assert said[0] == "labels in 1 of 1 cell, sum in 1 of 1 cell"
    assert said[1].startswith("labels in 0 of 1 cell")


def test_other_records_are_not_compared_and_a_part_alone_has_no_sum(run: Path) -> None:
    study = read(run)
    fewer = study.labels.assign(
        n=study.labels["n"].where(study.labels["task"] != "ptbxl_form", other=3)
    )
    assert {r["equal"] for r in lines(replace(study, labels=fewer)) if r["equal"]} == {
        "not compared: scored on other records (run --set scoring.rows=labelled)"
    }
    two = replace(study, tasks=[t for t in study.tasks if t.name != "ptbxl_diag"])
    assert [r["equal"] for r in lines(two) if r["equal"]][1] == (
        "labels in 1 of 1 cell; only 31 labels, so no sum"
    )
    none = replace(study, tasks=study.tasks[:1])
    (section,) = reports.get("evaluated_only").sections(none)
    assert "no task together with one" in section.parts[0].texts[0]


def test_as_a_person_types_it(run: Path, tmp_path: Path, here: Callable[..., object]) -> None:
    page = tmp_path / "page"
    words = (
        "--only",
        "main_table",
        "--set",
        "report.rows=all",
        "--against",
        "paper,FMB",
        "--set",
        f"report.beside={run}",
    )
    done = here("report", run, "--to", page, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr  # type: ignore[attr-defined]
    assert {p.name for p in page.glob("*.md")} == {"main_table.md", "evaluated_only.md"}
    assert "prints no score of these models" in (page / "index.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--against", "papre"), "unknown source 'papre'; did you mean paper?"),
        (
            ("--set", "report.beside=runs/x"),
            "--set report.beside=runs/x: say what with: --against paper",
        ),
        (("--against", "fmb", "--set", "report.beside=nowhere"), "nowhere"),
        (("--set", "report.rows=some"), "report.rows=some: all"),
    ],
)
def test_bad_words_are_answered_in_one_line(
    run: Path, tmp_path: Path, here: Callable[..., object], words: tuple[str, ...], said: str
) -> None:
    done = here("report", run, "--to", tmp_path / "page", *words, cwd=tmp_path)
    assert done.returncode == 2  # type: ignore[attr-defined]
    assert said in done.stderr  # type: ignore[attr-defined]
    assert not (tmp_path / "page").exists()


def test_the_mean_of_the_whole_is_the_score_of_the_main_table(run: Path) -> None:
    study = read(run)
    value = study.main.set_index(["task", "leads"])["value"]
    for row in lines(study):
        if row["task"] == "PTB-XL All":
            assert math.isclose(float(str(row["auroc_mean"])), value["ptbxl_all", row["leads"]])
