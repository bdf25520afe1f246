"""A run as it is read: seeds averaged, shared draws, paired differences, statuses; every number
recomputed from the files by hand.
"""

import csv
import json
import math
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

import ecgbench
from ecgbench import metrics
from ecgbench.cards.cell import Cell, Scoring, Training
from ecgbench.cards.plan import Request, plan_of
from ecgbench.core import provenance
from ecgbench.core.files import as_json, as_parquet
from ecgbench.core.folders import publish, read_table
from ecgbench.core.keys import key
from ecgbench.core.seeds import rng
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import BadSetting, Damaged, EcgbenchError, MissingData
from ecgbench.reports import write
from ecgbench.results.compare import MAIN_COLUMNS
from ecgbench.results.origin import PUBLISHED, UNCOMMITTED
from ecgbench.results.study import Run, read
from ecgbench.study import invocation
from ecgbench.study.jobs import Execution
from ecgbench.study.scores import score_table, with_wins
from ecgbench.study.store import Store, cells_of
from tests import invented
from tests.invented import fit_facts, fit_folder

LABELS = ("NORM", "MI", "RARE")
RECORDS = [f"r{i:02}" for i in range(60)]
PATIENTS = [f"p{i // 2 if i < 12 else i:02}" for i in range(60)]
"""The first twelve records are of six patients."""
TARGET = np.array([[i % 3 == 0, i % 5 < 2, False] for i in range(60)], np.int8)
"""RARE has no positive: undefined."""
SKILL = {"good": 1.0, "fair": 0.9, "weak": 0.3, "poor": 0.1}
SCORING = Scoring(draws=200)
ALL = range(len(RECORDS))
COPIES = ("records", "records_prepared", "records_release")
YOUDEN = Path(__file__).parents[1] / "plugins" / "youden.py"

OutcomeOf = Callable[[Cell], Any]
"""What becomes of a cell: the positions of its records, or (file, reason), or None for nothing
stored.
"""


def planned(models: Iterable[str], leads: str = "1,12", seeds: int = 3, **more: Any) -> Request:
    tasks = more.get("tasks", ("toy",))
    return Request(
        models=tuple(models),
        tasks=tasks,
        leads=parse_leads(leads),
        seeds=seeds,
        fit_seeds=tuple(more.get("fits", (0,))),
        weights="random",
        policies=("zero",),
        scoring=more.get("scoring", SCORING),
        name="toy",
        parents=dict.fromkeys(tasks, "toy"),
    )


def facts(plan: Request) -> dict[str, Any]:
    tasks = {c.task: 3 for c in plan_of(plan).cells}
    data = invented.dataset_facts("toy", invented.Data(tasks=tasks, records=60, title="Toy data"))
    data |= {"synthetic": True, "test_patients": 54, "patients": sorted(set(PATIENTS))}
    return {
        "models": {name: invented.model_facts(name) for name in plan.models},
        "datasets": {"toy": data | dict.fromkeys(COPIES, 90)},
        "provenance": invented.invocation_facts(),
    }


def predictions(cell: Cell, rows: Iterable[int]) -> pd.DataFrame:
    noise = rng("test", cell.identity).standard_normal(TARGET.shape)
    probability = 1 / (1 + np.exp(-(SKILL.get(cell.fit.model, 0.5) * (2 * TARGET - 1) + noise)))
    columns = {f"probability:{n}": probability[:, i] for i, n in enumerate(LABELS)}
    columns |= {f"target:{n}": TARGET[:, i] for i, n in enumerate(LABELS)}
    table = pd.DataFrame({"record": RECORDS, "patient": PATIENTS, **columns})
    return table.iloc[list(rows)].reset_index(drop=True)


def store_cell(run: Store, cell: Cell, rows: Iterable[int], about: dict[str, str]) -> None:
    """As a run does."""
    rows = list(rows)
    table = predictions(cell, rows)
    about |= {"dataset_name": "toy", "study": key(run.existing_plan().shared())}
    note = invented.cell_note(cell, len(rows), about)
    note |= {"seconds": 0.0, "excluded": 60 - len(rows), "fit": fit_folder("toy", cell.fit.model)}
    publish(
        run.cell_folder(cell),
        {
            # every second cell as an earlier version stored it, without wins
            "predictions.parquet": as_parquet(
                with_wins(["auroc"], table) if len(cell.identity) % 2 else table
            ),
            "scores.parquet": as_parquet(score_table(("auroc",), table)),
            "cell.json": as_json(note),
        },
    )


def made(
    path: Path,
    plan: Request,
    outcome_of: OutcomeOf = lambda cell: ALL,
    about: dict[str, Any] | None = None,
) -> Store:
    run, about = Store(path), about or facts(plan)
    run.add_request(plan)
    models = {name: run.add_facts("models", one) for name, one in about["models"].items()}
    datasets = [run.add_facts("datasets", one) for one in about["datasets"].values()]
    run.add_facts("invocations", about["provenance"])
    for cell in plan_of(plan).cells:
        outcome = outcome_of(cell)
        if isinstance(outcome, tuple):
            run.give_reason(cell, *outcome)
        elif outcome is not None:
            store_cell(
                run, cell, outcome, {"model": models[cell.fit.model], "dataset": datasets[0]}
            )
    return run


def fit_of(run: Store, model: str) -> Path:
    return run.path / fit_folder("toy", model)


def fit_document(model: str, **said: Any) -> str:
    facts = fit_facts("toy", model)
    return as_json({"key": key(facts), "key_facts": facts, **said})


def folders(run: Store, model: str, setting: str) -> list[Path]:
    return sorted(p.parent for p in run.path.glob(f"cells/*/{model}/{setting}/*/DONE"))


def macro(target: np.ndarray, probability: np.ndarray) -> float:
    """RARE is undefined and left out."""
    return float(np.mean([roc_auc_score(target[:, k], probability[:, k]) for k in range(2)]))


def line(study: Run, model: str, leads: str, task: str = "toy") -> pd.Series:
    return study.main.set_index(["model", "leads", "task"]).loc[(model, leads, task)]


def test_seeds_are_averaged_and_the_spread_is_over_draws_of_leads(tmp_path: Path) -> None:
    plan = planned(["good"], fits=(0, 1))
    made(tmp_path, plan)
    row = line(read(tmp_path), "good", "1")
    by_cell: dict[int, list[float]] = {}
    for c in plan_of(plan).cells:
        if c.setting.typed == "1":
            table = predictions(c, ALL)
            scores = macro(TARGET, table[[f"probability:{n}" for n in LABELS]].to_numpy())
            by_cell.setdefault(c.setting.seed, []).append(scores)
    # two fits; the spread is over the three draws of leads alone
    by_seed = [sum(v) / 2 for v in by_cell.values()]
    mean = sum(by_seed) / 3
    assert row["value"] == pytest.approx(mean, abs=1e-12)
    assert row["std"] == pytest.approx(
        math.sqrt(sum((v - mean) ** 2 for v in by_seed) / 2), abs=1e-12
    )
    full = line(read(tmp_path), "good", "12")
    assert math.isnan(full["std"])  # two fits, one draw of leads
    counts = row[["n_records", "n_patients", "n_labels", "n_undefined"]]
    assert list(counts) == [60, 54, 3, 1]


@pytest.mark.parametrize("fits", [pytest.param((0,), marks=pytest.mark.long), (0, 1)])
def test_every_printed_number_is_that_of_an_independent_computation(
    tmp_path: Path, recompute: ModuleType, fits: tuple[int, ...]
) -> None:
    run = made(tmp_path / "run", planned(SKILL, tasks=("toy", "other"), fits=fits))
    study = read(run.path)
    assert list(study.main.columns) == list(MAIN_COLUMNS)
    write(study, tmp_path / "report")
    found = recompute.recompute(run.path, tmp_path / "report")
    tables = {table.split(".")[0] for table in found}
    assert tables == {"cells", "labels", "main_table", "comparisons"}
    assert found["comparisons.p_holm"][0] == 2 * 2 * 3
    assert found["labels.low"][0] == 4 * 2 * 4 * 3 * len(fits)
    for column, (_, apart) in found.items():
        assert apart < 1e-9 if column.endswith("df") else apart < 1e-12, column


def test_every_table_says_whether_a_model_met_the_source_of_a_task(tmp_path: Path) -> None:
    plan = planned(["good", "fair", "weak"], leads="12", seeds=1)
    about = facts(plan)
    for name, corpora in (("good", ["Toy data"]), ("fair", ["Toy data (train)"]), ("weak", [])):
        about["models"][name] |= {"corpora": corpora}
    made(tmp_path, plan, about=about)
    study = read(tmp_path)
    expected = {"good": "yes", "fair": "part", "weak": "unknown"}
    for table in (study.main, study.cells, study.labels):
        assert dict(zip(table["model"], table["seen"])) == expected


def test_best_and_asterisk_of_each_task_and_setting(tmp_path: Path) -> None:
    made(tmp_path, planned(SKILL, tasks=("toy", "other")))
    study = read(tmp_path)
    for (task, leads), part in study.main.groupby(["task", "leads"], sort=False):
        best = part.loc[part["value"].idxmax()]
        assert list(part.loc[part["best"], "model"]) == [best["model"]]
        assert best[["p", "p_holm", "not_significantly_worse"]].isna().all()
        for _, row in part[part["model"] != best["model"]].iterrows():
            found = _compared(study, str(task), str(leads), row["model"])
            assert row["p"] == found["p"]
            assert row["p"] <= row["p_holm"]
            assert row["not_significantly_worse"] == (found["low"] <= 0 <= found["high"])
            assert row["not_significantly_worse"] == (row["p"] >= 0.05)
            assert (found["best_model"], found["best_weights"]) == (best["model"], "released")
            assert found["n_patients"] == 54
    assert (study.main["not_significantly_worse"] == True).any()  # noqa: E712
    assert (study.main["p"] < 0.05).any()


def test_fits_of_a_random_start_are_trained_and_frozen_random_encoders_are_not(
    tmp_path: Path,
) -> None:
    plan = planned(["good", "fair"], leads="12", seeds=1)
    about = facts(plan)
    about["models"]["good"]["weights"] = "random"
    made(tmp_path / "frozen", plan, about=about)
    frozen = read(tmp_path / "frozen")
    assert list(frozen.main["best"]) == [False, True]
    assert frozen.main["p"].isna().all()
    assert len(frozen.comparisons) == 1
    assert [note.kind for note in frozen.main["note"][0]] == ["untrained"]
    tuned = replace(plan, training=Training(protocol="finetune"))
    made(tmp_path / "tuned", tuned, about=about)
    tuned_study = read(tmp_path / "tuned")
    assert list(tuned_study.main["best"]) == [True, False]
    assert any(
        n.startswith("RANDOM START: Good was fine-tuned") for n in map(str, tuned_study.notes)
    )
    for model in about["models"].values():
        model["weights"] = "random"
    made(tmp_path / "nobody", plan, about=about)
    nobody = read(tmp_path / "nobody")
    assert not nobody.main["best"].any()
    assert nobody.comparisons.empty
    assert "No column is trained: there is no best, and nothing is tested." in map(
        str, nobody.notes
    )


def _compared(study: Run, task: str, leads: str, model: str) -> pd.Series:
    return study.comparisons.set_index(["task", "leads", "model"]).loc[(task, leads, model)]


def _partly(cell: Cell) -> Any:
    """good: all; fair: 12 failed; weak: skipped throughout; poor: one draw of three not
    computed.
    """
    if cell.fit.model == "weak":
        return "skipped", "policy native is not for it"
    if cell.fit.model == "fair" and cell.setting.typed == "12":
        return "failed", "RuntimeError: it broke"
    return None if cell.fit.model == "poor" and str(cell.setting) == "1@seed2" else ALL


def test_cells_without_a_number_keep_their_reason_and_cost_nobody_else(tmp_path: Path) -> None:
    run = made(tmp_path / "run", planned(SKILL), _partly)
    study = read(run.path)
    status = {(r["model"], r["leads"]): r["status"] for _, r in study.main.iterrows()}
    assert {k for k, v in status.items() if v == "skipped"} == {("weak", "1"), ("weak", "12")}
    assert {k for k, v in status.items() if v == "failed"} == {("fair", "12"), ("poor", "1")}
    gaps = study.main[study.main["status"] != "ok"]
    assert gaps[["value", "std", "low", "high", "n_records", "p", "p_holm"]].isna().all(axis=None)
    assert not gaps["best"].any()
    assert gaps["not_significantly_worse"].isna().all()
    assert set(study.comparisons["model"]) == {"fair", "poor"}
    fair = _compared(study, "toy", "1", "fair")
    # `poor` is not finished and its two pairs count, `weak` was skipped
    assert fair["p_holm"] == pytest.approx(min(1, 3 * fair["p"]))
    reason = {
        (c["model"], c["setting"]): c["reason"]
        for _, c in study.cells.iterrows()
        if c["status"] != "ok"
    }
    assert reason["fair", "12"] == "RuntimeError: it broke"
    assert reason["poor", "1@seed2"].startswith("not computed yet")
    assert any(n.startswith("NOT FINISHED: 1 of 16 cells") for n in map(str, study.notes))
    assert any(
        n.startswith("INCOMPLETE: 1 failed and 4 skipped of 16 cells")
        for n in map(str, study.notes)
    )
    write(study, tmp_path / "report")
    rows = list(csv.DictReader((tmp_path / "report" / "main_table.csv").open()))
    counts = [(r["n_records"], r["n_patients"], r["n_labels"], r["n_undefined"]) for r in rows]
    # whole, though pandas holds them as floats
    assert set(counts) == {("60", "54", "3", "1"), ("", "", "", "")}
    page = (tmp_path / "report" / "index.html").read_text()
    assert "1 (1 of 3 draws)" in page
    assert "RuntimeError: it broke" in page


def test_what_a_fit_says_of_itself_stands_at_its_rows(tmp_path: Path) -> None:
    """Once in the notes, at every score in the tables; where it is damaged, its cells are."""
    run, said = made(tmp_path / "run", planned(["good", "fair"])), "may not have converged: 97"
    for model, marks in (("good", []), ("fair", [said])):
        publish(fit_of(run, model), {"fit.json": fit_document(model, marks=marks)})
    study = read(run.path)
    assert set(zip(study.main["model"], map(str, study.main["note"]))) == {
        ("good", ""),
        ("fair", said),
    }
    assert [n for n in map(str, study.notes) if said in n] == [f"Fit of Fair (Toy): {said}."]
    write(study, tmp_path / "report")
    for name, mark in (("main_table.md", "<sup>1</sup>"), ("main_table.tex", "script{1}")):
        text = (tmp_path / "report" / name).read_text()
        assert text.count(mark) >= len(study.main) // 2, "at the scores, and before the words"
        assert said in text
    assert "#main_table-1" in (tmp_path / "report" / "index.html").read_text()
    document = fit_of(run, "good") / "fit.json"
    document.write_bytes(document.read_bytes().replace(b"[", b"{"))
    again = read(run.path)
    assert set(again.main.set_index("model").loc["good", "status"]) == {"damaged"}
    assert set(again.main.set_index("model").loc["fair", "status"]) == {"ok"}
    assert all(str(document) in why for why in again.cells["reason"] if why)


def test_a_run_whose_only_model_could_not_be_built_is_still_reported(tmp_path: Path) -> None:
    plan = planned(["good"])
    run = made(tmp_path / "run", plan, lambda cell: ("failed", "ImportError: no such thing"))
    for kind in ("models", "datasets"):
        shutil.rmtree(run.path / kind)
    write(read(run.path), tmp_path / "report")
    assert "ImportError: no such thing" in (tmp_path / "report" / "index.html").read_text()


def test_a_run_is_only_read(tmp_path: Path) -> None:
    run = made(tmp_path / "run", planned(["good", "fair"]))

    def files() -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in run.path.rglob("*")}

    before = files()
    study = read(run.path)
    write(study, tmp_path / "report")
    assert files() == before
    (folder,) = folders(run, "good", "12")
    (folder / "predictions.parquet").unlink()
    with pytest.raises(Damaged, match="is not what"):
        study.result("toy", "good", "12", "zero").predictions()


def test_more_draws_or_another_bootstrap_give_other_intervals(tmp_path: Path) -> None:
    plan = planned(["good"], leads="12", seeds=1)
    run = made(tmp_path, plan)
    lows = [read(tmp_path).main["low"][0]]
    drawn = replace(SCORING, bootstrap="multinomial")
    others = [
        drawn,
        replace(drawn, draws=300),
        replace(SCORING, bootstrap="records"),
        replace(SCORING, absent="half"),
    ]
    for scoring in others:
        run.add_request(replace(plan, scoring=scoring))
        lows.append(read(tmp_path).main["low"][0])
    assert len(set(lows)) == 5


def youden(target: Any, score: Any) -> float:
    """By scikit-learn."""
    alarms, found, _ = roc_curve(target, score)
    return float((found - alarms).max())


def test_any_metric_can_be_read_from_stored_predictions(tmp_path: Path) -> None:
    made(tmp_path, planned(["good", "fair"]))
    try:
        study = ecgbench.read(tmp_path, metrics=["auroc", str(YOUDEN)])
        alone = study.of("Youden")
    finally:
        metrics.ROOM.forget()
    assert (list(study.metrics), alone.metric) == (["auroc", "youden"], "youden")
    pd.testing.assert_frame_equal(study.of("auroc").main, read(tmp_path).main)
    for r in study.results:
        table = r.predictions()
        expected = [youden(table[f"target:{n}"], table[f"probability:{n}"]) for n in ("NORM", "MI")]
        who = {"task": "toy", "model": r.cell.fit.model, "setting": str(r.cell.setting)}
        own = (alone.labels[list(who)] == pd.Series(who)).all(axis=1)
        labels = alone.labels[own].set_index("label")
        np.testing.assert_allclose(
            labels.loc[["NORM", "MI"], "value"], expected, rtol=0, atol=1e-12
        )
        assert np.isnan(labels.loc["RARE", "value"])
        cell = alone.cells[(alone.cells[list(who)] == pd.Series(who)).all(axis=1)].iloc[0]
        assert cell["value"] == pytest.approx(np.mean(expected), abs=1e-12)
        assert cell["low"] < cell["value"] < cell["high"]
    assert set(alone.comparisons["metric"]) == {"youden"}
    assert len(alone.comparisons) == len(study.of("auroc").comparisons) == 2
    words = "Intervals of Youden index: 95 %, bootstrap over patients"
    assert any(words in note for note in map(str, study.notes))
    with pytest.raises(BadSetting, match="auroc, youden"):
        study.of("nothing")


HALF = """import numpy as np
from ecgbench.cards.rooms import MetricCard
CARD = MetricCard(title="Half", summary="", range=(0, 9), direction="lower", chance=None, source="")
def value(target, score):
    return np.where(np.ptp(target, axis=0) > 0, {}, np.nan)
def influence(target, score): return score - score.mean(0)
"""


def test_numbers_are_those_of_the_metric_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    plan = planned(["good"], "12", scoring=replace(SCORING, metrics=("auroc", "half")))
    run = made(tmp_path / "run", plan)
    (folder,) = folders(run, "good", "12")
    content: dict[str, Any] = {
        n: (folder / n).read_bytes() for n in ("predictions.parquet", "cell.json")
    }
    predicted, read_values = read_table(folder, "predictions.parquet").to_pandas(), []
    try:
        for body in ("score.mean(0)", "5 + score.mean(0)"):
            metrics.ROOM.forget()
            file.write_text(HALF.format(body))
            metrics.resolve(str(file))
            if not read_values:
                shutil.rmtree(folder)
                scores = as_parquet(score_table(("auroc", "half"), predicted))
                publish(folder, {**content, "scores.parquet": scores})
            study = read(run.path)
            cell = study.of("half").cells.iloc[0]
            assert cell["low"] <= cell["value"] <= cell["high"]
            said = any(
                n.startswith("Half: its file gives other values") for n in map(str, study.notes)
            )
            read_values.append((cell["value"], said))
    finally:
        metrics.ROOM.forget()
    (old, quiet), (new, loud) = read_values
    assert new == pytest.approx(old + 5)
    assert (quiet, loud) == (False, True)


def test_a_metric_that_entered_by_path_is_left_out_where_its_path_is_not_given(
    tmp_path: Path,
) -> None:
    made(tmp_path, planned(["good"], scoring=replace(SCORING, metrics=("auroc", "youden"))))
    study = read(tmp_path)
    assert list(study.metrics) == ["auroc"]
    assert any(
        "youden" in note and "--metrics auroc,./youden.py" in note for note in map(str, study.notes)
    )
    made(tmp_path / "alone", planned(["good"], scoring=replace(SCORING, metrics=("youden",))))
    with pytest.raises(BadSetting, match=r"--metrics ./youden.py"):
        read(tmp_path / "alone")


def test_what_lies_beside_a_cell_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    made(tmp_path, planned(["good"]))
    study = read(tmp_path)
    one = study.result("toy", "good", "1@seed2", "zero")
    whole = one.predictions()
    expected = predictions(one.cell, ALL)
    pd.testing.assert_frame_equal(whole[list(expected)], expected)
    assert set(one.scores()["metric"]) == {"auroc"}
    with pytest.raises(MissingData, match=f"remove {one.folder} "):
        one.features()
    with pytest.raises(MissingData, match="1@seed7"):
        study.result("toy", "good", "1@seed7", "zero")


def test_no_run_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="ecgbench run --out") as caught:
        read(tmp_path / "none")
    assert isinstance(caught.value, EcgbenchError)


def test_each_note_is_said_once_and_only_where_it_is_true(tmp_path: Path) -> None:
    plan = planned(["good", "fair"])
    about = facts(plan)
    for model in about["models"].values():
        model["weights"] = "random"
    made(tmp_path / "a", plan, about=about)
    found = read(tmp_path / "a").notes
    notes = list(map(str, found))
    assert len(set(notes)) == len(notes)
    assert [n.kind for n in found[:2]] == ["SYNTHETIC DATA", "RANDOM WEIGHTS"]
    assert any("unknown in the test set" in n and n.endswith("RARE.") for n in notes)
    untrue = ("NOT FINISHED", "INCOMPLETE", "LIMITED", "SEEN BEFORE")
    assert not any(n.startswith(untrue) or "fewer than 5 test positives" in n for n in notes)
    assert any(n.startswith("Std is") and "of one fit" in n for n in notes)
    made(tmp_path / "b", planned(["good"], leads="12"))
    alone = list(map(str, read(tmp_path / "b").notes))
    assert not any("Std is" in n or "Random leads" in n or "Holm" in n for n in alone)


def test_a_model_that_was_pre_trained_on_the_tested_data_is_named(tmp_path: Path) -> None:
    plan = planned(["good", "fair", "weak", "poor"])
    told = facts(plan)["models"]
    told["poor"] |= {"weights": "best.pt", "corpora": ["not stated"]}
    told["good"] |= {"weights": "released", "corpora": ["Toy data"]}
    told["good"]["weights_source"] = {"own": True, "licence": "MIT; trained here"}
    told["fair"] |= {"weights": "released", "corpora": ["HEEDB", "Toy data (folds 1-8)"]}
    # random: it has seen nothing
    told["weak"] |= {"weights": "random", "corpora": ["Toy data"]}
    study = read(made(tmp_path, plan, about=facts(plan) | {"models": told}).path)
    notes = list(map(str, study.notes))
    unknown = next(n for n in notes if n.startswith("NOT KNOWN WHETHER SEEN"))
    assert unknown.endswith("are among those that Poor was pre-trained on (not stated).")
    named = [n.partition(" was pre-trained on ")[0] for n in notes if n.startswith("SEEN")]
    assert named == ["SEEN BEFORE: Good", "SEEN IN PART: Fair"]
    assert any(n.startswith("OWN WEIGHTS: those of Good") for n in notes)


@pytest.mark.parametrize("spoil", [lambda text: text[:30], lambda text: text.replace("true", "1")])
@pytest.mark.parametrize("kind", ["models", "datasets"])
def test_nothing_is_said_of_cells_whose_facts_are_damaged(
    kind: str, spoil: Callable[[str], str], tmp_path: Path
) -> None:
    """Also of facts that were edited, so that a run at random passes for a released model."""
    made(tmp_path, planned(["good"], leads="12"))
    (file,) = (tmp_path / kind).glob("*.json")
    file.write_text(spoil(file.read_text()).replace("released", "random"))
    study = read(tmp_path)
    assert list(study.cells["status"]) == ["damaged"]
    assert study.cells["reason"][0].startswith(f"{file} is not what")
    file.unlink()
    assert read(tmp_path).cells["reason"][0].startswith(f"{file} is gone")


@pytest.mark.parametrize("text", ["{", "[]", '{"started": "x"}', '{"started": 1.0}'])
def test_a_damaged_note_of_a_command_is_one_line(text: str, tmp_path: Path) -> None:
    made(tmp_path, planned(["good"], leads="12"))
    (file,) = (tmp_path / "invocations").glob("*.json")
    file.write_text(text)
    with pytest.raises(Damaged, match=rf"^{file} .* remove .*$"):
        read(tmp_path)


CLEAN, OTHER = (
    {"version": "0.1.0", "commit": letter * 40, "dirty": False} for letter in ("a", "b")
)
DIRTY = {**CLEAN, "dirty": True}


def coded(folder: Path, name: str, **said: Any) -> None:
    """A finished folder whose document says more, or something else."""
    kept = {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "DONE"}
    shutil.rmtree(folder)
    publish(folder, kept | {name: as_json(json.loads(kept.get(name, "{}")) | said).encode()})


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A run of two models, every part of which clean commits computed; so is what reads it."""
    monkeypatch.setattr(provenance, "code", lambda: CLEAN)
    run = made(tmp_path / "run", planned(["good", "fair"], seeds=1))
    for folder in cells_of(run.path):
        coded(folder, "cell.json", code=CLEAN, features_code=[CLEAN])
    for model in ("good", "fair"):
        said = {"code": [CLEAN], "features_code": [CLEAN], "seconds": 2.0}
        publish(fit_of(run, model), {"fit.json": fit_document(model, **said)})
    return run


def test_every_commit_that_took_part_is_named_with_its_cells(clean: Store) -> None:
    """A fit that one commit began and another finished, and features of a third checkout."""
    (one,) = folders(clean, "good", "12")
    coded(one, "cell.json", features_code=[CLEAN, DIRTY], seconds=1.5)
    coded(fit_of(clean, "fair"), "fit.json", code=[CLEAN, OTHER])
    study = read(clean.path)
    origins = study.provenance.origins
    told = {(o.code.commit, o.code.dirty): (o.cells, o.fits, o.features) for o in origins}
    assert told == {
        ("a" * 40, False): (4, 4, 4),
        ("a" * 40, True): (0, 0, 1),
        ("b" * 40, False): (0, 2, 0),
    }
    assert (study.provenance.seconds_cells, study.provenance.seconds_fits) == (1.5, 4.0)
    assert [
        n
        for n in map(str, study.notes)
        if n.startswith("UNCOMMITTED CHANGES: 1 of 4 finished cells")
    ]
    said = {
        (r["model"], r["leads"]) for _, r in study.main.iterrows() if UNCOMMITTED in str(r["note"])
    }
    assert said == {("good", "12")}
    assert list(study.cells["uncommitted"]).count(True) == 1
    write(study, clean.path / "report")
    for name in ("main_table.md", "main_table.tex", "index.html"):
        assert UNCOMMITTED in (clean.path / "report" / name).read_text(), name


def test_all_commands_are_listed_those_that_were_killed_too(
    clean: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "command", lambda: "ecgbench run --out mine")
    monkeypatch.setattr(invocation, "EVERY", 0.0)
    executions = (Execution(device=device) for device in ("cuda", "cpu"))
    killed, done = (invocation.Invocation(clean, execution) for execution in executions)
    killed.note(3, 0)
    done.note(1, 3, ended=True)
    write(read(clean.path), clean.path / "report", only=["provenance"])
    rows = list(csv.DictReader((clean.path / "report" / "provenance.csv").open()))
    assert [(r["device"], r["computed"], r["reused"], r["ended"]) for r in rows] == [
        ("cpu", "1", "", "true"),  # as an earlier version stored it
        ("cuda", "3", "0", "false"),
        ("cpu", "1", "3", "true"),
    ]
    assert "1 did not end" in (clean.path / "report" / "index.html").read_text()
    assert f"commit {'a' * 40}." in (clean.path / "report" / "provenance.md").read_text()


def test_what_is_published_says_so_and_is_clean(
    clean: Store, here: Callable[..., Any], tmp_path: Path
) -> None:
    for folder in folders(clean, "fair", "12"):
        document = json.loads((folder / "cell.json").read_text())
        facts = {**document["key_facts"], "source": "sha256 of a plug-in"}
        coded(folder, "cell.json", key=key(facts), key_facts=facts)
    typed = "ecgbench run --data /home/someone/ecg --out=/home/someone/fair"
    invocation.Invocation(clean, Execution(command=typed)).note(1, 3, ended=True)
    done = here("report", clean.path, "--publish", "--to", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("provenance.csv", "provenance.md", "index.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "ecgbench run --data ecg --out=fair" in text, name
        assert "/home/someone" not in text, name
    for name in ("main_table.md", "main_table.tex", "index.html"):
        text = (tmp_path / "out" / name).read_text()
        assert text.count(PUBLISHED) == 1, name
        assert "known by the hashes of their files: fair" in text, name


def _nothing(run: Store) -> None:
    """The run stays as it is."""


def _forget_a_fit(run: Store) -> None:
    shutil.rmtree(fit_of(run, "good"))


def _lose_a_cell(run: Store) -> None:
    shutil.rmtree(folders(run, "good", "12")[0])


def _change_a_cell(run: Store) -> None:
    coded(folders(run, "good", "12")[0], "cell.json", code=DIRTY)


NO_CHECKOUT = {"version": "0.1.0", "commit": None, "dirty": None}
REFUSED: list[tuple[Callable[[Store], None], dict[str, Any], Sequence[str], str]] = [
    (_lose_a_cell, CLEAN, (), "1 of 4 cells are not computed yet; run: ecgbench run"),
    (_change_a_cell, CLEAN, (), "1 of 4 cells were computed from a checkout with uncommitted"),
    (_forget_a_fit, CLEAN, (), "commit of 2 of 4 cells, of their fits or of their features"),
    (_nothing, DIRTY, (), "this checkout of ecgbench has uncommitted changes; commit them"),
    (_nothing, NO_CHECKOUT, (), "runs from no checkout"),
    (_nothing, CLEAN, ("--only", "main_table"), "a published report is whole"),
]


@pytest.mark.parametrize(("spoil", "writer", "words", "said"), REFUSED)
def test_what_may_not_be_published_is_one_line_and_nothing_is_written(
    clean: Store,
    here: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Store], None],
    writer: dict[str, Any],
    words: tuple[str, ...],
    said: str,
) -> None:
    spoil(clean)
    monkeypatch.setattr(provenance, "code", lambda: writer)
    done = here("report", clean.path, "--publish", *words, "--to", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
