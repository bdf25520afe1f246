"""The printed scores: whole, named as ours are, and what the sources say of them, recomputed."""

from collections import Counter

import pandas as pd
import pytest

from ecgbench import datasets, models, published, suites
from ecgbench.published import FOLDER
from ecgbench.study import plan_file


def table(name: str) -> pd.DataFrame:
    """A shipped file, read without the package's reader."""
    return pd.read_csv(FOLDER / name, dtype={"leads": str})


def test_every_task_and_model_is_there_once_and_named_as_in_the_rooms() -> None:
    plan = plan_file.load(suites.path("paper")).request()
    assert tuple(published.TASKS) == plan.tasks
    assert set(published.MODELS) == set(plan.models)
    assert {name: models.ROOM.card(name).title for name in published.MODELS} == published.MODELS
    cards = [datasets.ROOM.card(name) for name in datasets.ROOM.names()]
    tasks = {task.name: task for card in cards for task in card.tasks}
    assert {name: tasks[name].title for name in published.TASKS} == published.TASKS
    assert {n for n in published.TASKS if tasks[n].parent} == set(published.EVALUATED_ONLY)
    paper = Counter((r.task, r.model, r.leads) for r in published.printed("paper"))
    leads = ("1", "2", "12", "I", "II")
    assert set(paper) == {
        (task, model, n) for task in published.TASKS for model in published.MODELS for n in leads
    }
    assert set(paper.values()) == {1}
    fmb = Counter((r.task, r.model, r.trained) for r in published.printed("fmb"))
    assert (len(fmb), set(fmb.values())) == (17 * 26, {1})
    assert {task for task, _, _ in fmb} == set(published.TASKS) - {"hefei"}
    assert all(0 < r.value < 1 for name in published.SOURCES for r in published.printed(name))


def test_where_the_paper_contradicts_itself() -> None:
    """All of it that its own tables can show; whoever changes a table or a claim changes this."""
    wrong = {c.says: c for c in published.claims("paper") if c.agrees != "yes"}
    assert len(wrong) == 24
    told = {
        "average gain of +3.2 with one and two leads": "+4.4 at L = 1 and +0.9 at L = 2, +2.65",
        "both print EchoNext at L = 12": "ST-MEM 83.0 and 81.3, ECG-CPC 79.1 and 83.0",
        "averages over 18 tasks at lead I": "MERL 57.4 (printed 57.8)",
    }
    for says, found in told.items():
        assert found in wrong[says].found


def test_claims_again_with_pandas() -> None:
    """From the files alone, by another way."""
    wide = table("paper/extended.csv").pivot(
        index=["task", "leads"], columns="model", values="auroc"
    )
    gain = (wide["laef"] - wide.drop(columns="laef").max(axis=1)).round(1).unstack()
    assert ((gain["1"] > 0).sum(), (gain["2"] > 0).sum(), (gain["2"] >= 0).sum()) == (17, 14, 15)
    assert gain["1"].mean() == pytest.approx(4.4389, abs=1e-4)
    assert gain["2"].mean() == pytest.approx(0.8667, abs=1e-4)
    every = wide.unstack("task")
    count = {"ptbxl_diag": 44, "ptbxl_form": 19, "ptbxl_rhythm": 12, "ptbxl_all": -71}
    shared = {
        (model, leads): sum(n * every.loc[leads, (model, task)] for task, n in count.items()) / 4
        for model in published.MODELS
        for leads in ("1", "2", "12")
    }
    over = {f"{published.MODELS[m]} {v:.0f} (L = {n})" for (m, n), v in shared.items() if v > 101.9}
    found = {c.says: c.found for c in published.claims("paper")}
    said = found["PTB-XL Diag, Form and Rhythm are subsets of the labels of All"]
    assert all(text in said for text in over - {"LAEF 103 (L = 2)"})
    assert {"LAEF 109 (L = 1)", "LAEF 107 (L = 12)", "MERL 240 (L = 1)"} <= over
    single = table("paper/lead_i_ii.csv").query("task != 'average'")
    means = single.groupby(["leads", "model"])["auroc"].mean()
    assert means["I", "laef"] - means["I", "ecgjepa"] == pytest.approx(0.4333, abs=1e-4)
    assert "+0.43" in found["+0.2 over ECG-JEPA at lead I"]


def test_the_benchmarks_fine_tuning_left_one_encoder_as_it_was() -> None:
    scores = table("fmb/scores.csv").pivot(index=["model", "task"], columns="mode", values="auroc")
    gain = (scores["finetuning"] - scores["linear"]).groupby("model")
    mean, most = gain.mean().dropna(), gain.agg(lambda d: d.abs().max()).dropna()
    assert mean["stmem"] == pytest.approx(0.0002, abs=5e-5)
    assert most["stmem"] == pytest.approx(0.0055, abs=5e-5)
    assert mean.drop("stmem").min() > 10 * mean["stmem"]
    tuned, intervals = published.claims("fmb")
    assert "mean +0.02, largest 0.55; of the other models +0.3 to +18.4" in tuned.found
    assert "16 of 442 scores lie outside their own interval (ZZU pECG)" in intervals.found
