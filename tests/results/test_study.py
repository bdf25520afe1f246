"""A run as it is read: seeds averaged, shared draws, paired differences, statuses; every number
recomputed from the files by hand.
"""

import csv
import json
import math
import shutil
from collections.abc import Callable, Sequence
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
from ecgbench.core import provenance
from ecgbench.core.files import as_json
from ecgbench.core.folders import publish
from ecgbench.core.keys import key
from ecgbench.errors import BadSetting, Damaged
from ecgbench.reports import write as report
from ecgbench.results.compare import MAIN_COLUMNS
from ecgbench.results.origin import PUBLISHED, UNCOMMITTED
from ecgbench.results.study import Run, read
from ecgbench.study import invocation
from ecgbench.study.jobs import Execution
from ecgbench.study.store import Status, Store, cells_of
from tests.invented import Data, Made, fit_facts, fit_folder, make, request, write

SKILL = {"good": 2.0, "fair": 1.8, "weak": 0.6, "poor": 0.2}
TOY = Data(
    tasks={"toy": 3},
    records=108,
    per_patient=2,
    prevalence=0.4,
    title="Toy data",
    facts={"synthetic": True},
)
TWO = {"toy": replace(TOY, tasks={"toy": 3, "other": 3})}
LABELS = ("TOY0", "TOY1")
"""That are defined: nobody has TOY2."""
YOUDEN = Path(__file__).parents[1] / "plugins" / "youden.py"


def toy(models: str, leads: str = "1,12", **more: Any) -> Made:
    """Half of its cells are as an earlier version stored them."""
    usual: dict[str, Any] = {
        "data": {"toy": TOY},
        "seeds": 3,
        "skill": lambda model, leads: SKILL[model],
        "scoring": Scoring(draws=200),
        "shared": 0.0,
        "prevalence": {"TOY2": 0.0, "OTHER2": 0.0},
        "earlier": True,
    }
    return Made(models=models.split(), leads=leads, **usual | more)


def fit_of(run: Store, model: str) -> Path:
    return run.path / fit_folder("toy", model)


def fit_document(model: str, **said: Any) -> str:
    facts = fit_facts("toy", model)
    return as_json({"key": key(facts), "key_facts": facts, **said})


def folders(run: Store, model: str, setting: str) -> list[Path]:
    return sorted(p.parent for p in run.path.glob(f"cells/*/{model}/{setting}/*/DONE"))


def test_seeds_are_averaged_and_the_spread_is_over_draws_of_leads(tmp_path: Path) -> None:
    study = make(tmp_path, toy("good", fits=(0, 1)))
    main = study.main.set_index("leads")
    by_seed: dict[str, list[float]] = {}
    for r in study.results:
        table = r.predictions()
        scores = [roc_auc_score(table[f"target:{n}"], table[f"probability:{n}"]) for n in LABELS]
        by_seed.setdefault(str(r.cell.setting), []).append(float(np.mean(scores)))
    # two fits; the spread is over the three draws of leads alone
    each = [np.mean(scores) for setting, scores in by_seed.items() if setting != "12"]
    assert main.loc["1", ["value", "std"]].tolist() == pytest.approx(
        [np.mean(each), np.std(each, ddof=1)], abs=1e-12
    )
    assert math.isnan(main.loc["12", "std"])  # two fits, one draw of leads
    counts = main.loc["1", ["n_records", "n_patients", "n_labels", "n_undefined"]]
    assert list(counts) == [108, 54, 3, 1]


@pytest.mark.parametrize("fits", [pytest.param((0,), marks=pytest.mark.long), (0, 1)])
def test_every_printed_number_is_that_of_an_independent_computation(
    tmp_path: Path, recompute: ModuleType, fits: tuple[int, ...]
) -> None:
    study = make(tmp_path / "run", toy(" ".join(SKILL), data=TWO, fits=fits))
    assert list(study.main.columns) == list(MAIN_COLUMNS)
    report(study, tmp_path / "report")
    found = recompute.recompute(study.path, tmp_path / "report")
    tables = {table.split(".")[0] for table in found}
    assert tables == {"cells", "labels", "main_table", "comparisons"}
    assert found["comparisons.p_holm"][0] == 2 * 2 * 3
    assert found["labels.low"][0] == 4 * 2 * 4 * 3 * len(fits)
    for column, (_, apart) in found.items():
        assert apart < 1e-9 if column.endswith("df") else apart < 1e-12, column


def test_best_and_asterisk_of_each_task_and_setting(tmp_path: Path) -> None:
    study = make(tmp_path, toy(" ".join(SKILL), data=TWO))
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
    made, random = toy("good fair", "12"), {"weights": "random"}
    frozen = make(tmp_path / "frozen", made, good=random)
    assert list(frozen.main["best"]) == [False, True]
    assert frozen.main["p"].isna().all()
    assert len(frozen.comparisons) == 1
    assert [note.kind for note in frozen.main["note"][0]] == ["untrained"]
    tuned = make(
        tmp_path / "tuned", replace(made, training=Training(protocol="finetune")), good=random
    )
    assert list(tuned.main["best"]) == [True, False]
    assert any("RANDOM START" in note for note in map(str, tuned.notes))
    nobody = make(tmp_path / "nobody", made, good=random, fair=random)
    assert not nobody.main["best"].any()
    assert nobody.comparisons.empty
    assert any("nothing is tested" in note for note in map(str, nobody.notes))


def _compared(study: Run, task: str, leads: str, model: str) -> pd.Series:
    return study.comparisons.set_index(["task", "leads", "model"]).loc[(task, leads, model)]


def _partly(cell: Cell) -> tuple[Status, str] | None:
    """fair: 12 failed; weak: skipped throughout; poor: one draw of three not computed."""
    if cell.fit.model == "weak":
        return "skipped", "policy native is not for it"
    if cell.fit.model == "fair" and cell.setting.typed == "12":
        return "failed", "RuntimeError: it broke"
    pending = cell.fit.model == "poor" and str(cell.setting) == "1@seed2"
    return ("missing", "") if pending else None


def test_cells_without_a_number_keep_their_reason_and_cost_nobody_else(tmp_path: Path) -> None:
    study = make(tmp_path / "run", toy(" ".join(SKILL), gone=_partly))
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
    notes = "\n".join(map(str, study.notes))
    assert "NOT FINISHED: 1 of 16 cells" in notes
    assert "INCOMPLETE: 1 failed and 4 skipped of 16 cells" in notes
    report(study, tmp_path / "report")
    rows = list(csv.DictReader((tmp_path / "report" / "main_table.csv").open()))
    counts = [(r["n_records"], r["n_patients"], r["n_labels"], r["n_undefined"]) for r in rows]
    # whole, though pandas holds them as floats
    assert set(counts) == {("108", "54", "3", "1"), ("", "", "", "")}
    assert "RuntimeError: it broke" in (tmp_path / "report" / "index.html").read_text()


def test_what_a_fit_says_of_itself_stands_at_its_rows(tmp_path: Path) -> None:
    """Once in the notes, at every score in the tables; where it is damaged, its cells are."""
    run, said = write(tmp_path / "run", toy("good fair")), "may not have converged: 97"
    for model, marks in (("good", []), ("fair", [said])):
        publish(fit_of(run, model), {"fit.json": fit_document(model, marks=marks)})
    study = read(run.path)
    assert set(zip(study.main["model"], map(str, study.main["note"]))) == {
        ("good", ""),
        ("fair", said),
    }
    assert [n for n in map(str, study.notes) if said in n] == [f"Fit of Fair (Toy): {said}."]
    report(study, tmp_path / "report")
    for name in ("main_table.md", "main_table.tex"):
        assert said in (tmp_path / "report" / name).read_text()
    document = fit_of(run, "good") / "fit.json"
    document.write_bytes(document.read_bytes().replace(b"[", b"{"))
    again = read(run.path)
    assert set(again.main.set_index("model").loc["good", "status"]) == {"damaged"}
    assert set(again.main.set_index("model").loc["fair", "status"]) == {"ok"}
    assert all(str(document) in why for why in again.cells["reason"] if why)


def test_a_run_is_only_read(tmp_path: Path) -> None:
    run = write(tmp_path / "run", toy("good fair"))

    def files() -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in run.path.rglob("*")}

    before = files()
    study = read(run.path)
    report(study, tmp_path / "report")
    assert files() == before
    (folder,) = folders(run, "good", "12")
    (folder / "predictions.parquet").unlink()
    with pytest.raises(Damaged, match="is not what"):
        study.result("toy", "good", "12", "zero").predictions()


def youden(target: Any, score: Any) -> float:
    """By scikit-learn."""
    alarms, found, _ = roc_curve(target, score)
    return float((found - alarms).max())


def test_any_metric_can_be_read_from_stored_predictions(tmp_path: Path) -> None:
    write(tmp_path, toy("good fair"))
    try:
        study = ecgbench.read(tmp_path, metrics=["auroc", str(YOUDEN)])
        alone = study.of("Youden")
    finally:
        metrics.ROOM.forget()
    assert (list(study.metrics), alone.metric) == (["auroc", "youden"], "youden")
    pd.testing.assert_frame_equal(study.of("auroc").main, read(tmp_path).main)
    for r in study.results:
        table = r.predictions()
        expected = [youden(table[f"target:{n}"], table[f"probability:{n}"]) for n in LABELS]
        who = {"task": "toy", "model": r.cell.fit.model, "setting": str(r.cell.setting)}
        own = (alone.labels[list(who)] == pd.Series(who)).all(axis=1)
        labels = alone.labels[own].set_index("label")
        assert labels.loc[list(LABELS), "value"].tolist() == pytest.approx(expected, abs=1e-12)
        assert np.isnan(labels.loc["TOY2", "value"])
        cell = alone.cells[(alone.cells[list(who)] == pd.Series(who)).all(axis=1)].iloc[0]
        assert cell["value"] == pytest.approx(np.mean(expected), abs=1e-12)
        assert cell["low"] < cell["value"] < cell["high"]
    assert set(alone.comparisons["metric"]) == {"youden"}
    assert len(alone.comparisons) == len(study.of("auroc").comparisons) == 2
    with pytest.raises(BadSetting, match="auroc, youden"):
        study.of("nothing")


def test_a_metric_that_entered_by_path_is_left_out_where_its_path_is_not_given(
    tmp_path: Path,
) -> None:
    made = toy("good")

    def asked(run: Store, *names: str) -> Path:
        scoring = replace(made.scoring, metrics=names)
        run.add_request(request(replace(made, scoring=scoring)))
        return run.path

    study = read(asked(write(tmp_path / "run", made), "auroc", "youden"))
    assert list(study.metrics) == ["auroc"]
    assert any(
        "youden" in note and "--metrics auroc,./youden.py" in note for note in map(str, study.notes)
    )
    with pytest.raises(BadSetting, match=r"--metrics ./youden.py"):
        read(asked(Store(tmp_path / "alone"), "youden"))


def test_each_note_is_said_once_and_only_where_it_is_true(tmp_path: Path) -> None:
    random = {"weights": "random"}
    found = make(tmp_path / "a", toy("good fair"), good=random, fair=random).notes
    notes = list(map(str, found))
    assert len(set(notes)) == len(notes)
    assert [n.kind for n in found[:2]] == ["SYNTHETIC DATA", "RANDOM WEIGHTS"]
    assert any("one value in the test set" in n and n.endswith("TOY2.") for n in notes)
    untrue = ("NOT FINISHED", "INCOMPLETE", "LIMITED", "SEEN BEFORE")
    assert not any(n.startswith(untrue) or "fewer than 5 test positives" in n for n in notes)
    alone = list(map(str, make(tmp_path / "b", toy("good", "12")).notes))
    assert not any("Std is" in n or "Random leads" in n or "Holm" in n for n in alone)


def test_a_model_that_was_pre_trained_on_the_tested_data_is_named(tmp_path: Path) -> None:
    own = {"weights_source": {"own": True, "licence": "MIT; trained here"}}
    facts: dict[str, Any] = {
        "poor": {"weights": "best.pt", "corpora": ["not stated"]},
        "good": {"corpora": ["Toy data"], **own},
        "fair": {"corpora": ["HEEDB", "Toy data (folds 1-8)"]},
        # random: it has seen nothing
        "weak": {"weights": "random", "corpora": ["Toy data"]},
    }
    notes = list(map(str, make(tmp_path, toy("good fair weak poor"), **facts).notes))
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
    write(tmp_path, toy("good", "12"))
    (file,) = (tmp_path / kind).glob("*.json")
    file.write_text(spoil(file.read_text()).replace("released", "random"))
    study = read(tmp_path)
    assert list(study.cells["status"]) == ["damaged"]
    assert study.cells["reason"][0].startswith(f"{file} is not what")
    file.unlink()
    assert read(tmp_path).cells["reason"][0].startswith(f"{file} is gone")


@pytest.mark.parametrize("text", ["{", '{"started": 1.0}'])
def test_a_damaged_note_of_a_command_is_one_line(text: str, tmp_path: Path) -> None:
    write(tmp_path, toy("good", "12"))
    (file,) = (tmp_path / "invocations").glob("*.json")
    file.write_text(text)
    with pytest.raises(Damaged, match=str(file)):
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
    run = write(tmp_path / "run", toy("good fair", seeds=1))
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
    assert (study.provenance.seconds_cells, study.provenance.seconds_fits) == (4.5, 4.0)
    assert any(n.startswith("UNCOMMITTED CHANGES: 1 of 4") for n in map(str, study.notes))
    said = {
        (r["model"], r["leads"]) for _, r in study.main.iterrows() if UNCOMMITTED in str(r["note"])
    }
    assert said == {("good", "12")}
    assert list(study.cells["uncommitted"]).count(True) == 1
    report(study, clean.path / "report")
    for name in ("main_table.md", "main_table.tex", "index.html"):
        assert UNCOMMITTED in (clean.path / "report" / name).read_text(), name


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


NO_CHECKOUT = {"version": "0.1.0", "commit": None, "dirty": None}
REFUSED: list[tuple[Callable[[Store], object], dict[str, Any], Sequence[str], str]] = [
    (lambda run: shutil.rmtree(folders(run, "good", "12")[0]), CLEAN, (), "1 of 4 cells are not"),
    (lambda run: shutil.rmtree(fit_of(run, "good")), CLEAN, (), "commit of 2 of 4 cells"),
    (lambda run: None, DIRTY, (), "uncommitted"),
    (lambda run: None, NO_CHECKOUT, (), "no checkout"),
    (lambda run: None, CLEAN, ("--only", "main_table"), "whole"),
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
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert said in done.stderr
    assert not (tmp_path / "out").exists()
