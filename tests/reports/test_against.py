"""Scores beside printed ones: what differs is said, and takes the mean away."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ecgbench import published, reports
from ecgbench.errors import BadSetting
from ecgbench.reports import records
from ecgbench.results.facts import DatasetFacts, ModelFacts, TaskFacts
from ecgbench.results.options import Options
from ecgbench.results.study import Run
from tests import by_hand as make

PAPER = {(r.task, r.model, r.leads): r.value for r in published.printed("paper")}
ADDED = 0.01


def study(on: tuple[str, ...] = ("ptbxl_sub", "ptbxl_super"), **more: Any) -> Run:
    """LAEF and MERL fine-tuned as the paper says, a point above what it prints."""
    names = ("laef", "merl")
    rows = [
        make.row(task, name, leads, PAPER[task, name, leads] + ADDED)
        for task in on
        for name in names
        for leads in ("1", "12", "I")
    ]
    policies = {"laef": "native", "merl": "zero"}
    parts: dict[str, Any] = {
        "models": [
            make.model(n, published.MODELS[n], 1, contract={**make.CONTRACT, "policy": policies[n]})
            for n in names
        ],
        "tasks": [replace(make.task(t, published.TASKS[t]), paper=5) for t in on],
        "datasets": [make.dataset(records=21_700, excluded={"too short": 99}, quarantined=())],
        "provenance": replace(make.PROVENANCE, protocol="finetune"),
    }
    return make.build(rows, **parts | more)


def sections(of: Run, name: str) -> list[reports.Section]:
    of = replace(of, options=Options(against=(name,)))
    return reports.sections("against", of)


def tables(of: Run, name: str = "paper") -> dict[str, reports.Table]:
    (section,) = sections(of, name)
    return {part.name: part for part in section.parts if part.kind == "table"}


def means(of: Run, name: str = "paper") -> dict[tuple[str, str], tuple[float | None, str]]:
    numbers = tables(of, name)[f"against_{name}_means"].numbers
    assert numbers is not None
    return {(r["model"], r["leads"]): (r["mean_difference"], r["over"]) for r in records(numbers)}


def test_a_difference_and_its_mean_where_nothing_else_differs() -> None:
    of = study()
    numbers = tables(of)["against_paper"].numbers
    assert numbers is not None
    assert len(numbers) == 2 * 2 * 3
    for row in records(numbers):
        assert row["difference"] == pytest.approx(ADDED)
        assert row["theirs"] == PAPER[row["task"], row["model"], row["leads"]]
        assert (row["comparable"], row["differs"]) == (True, "")
    assert {where: over for where, (_, over) in means(of).items()} == dict.fromkeys(
        [(m, n) for m in ("laef", "merl") for n in ("1", "12", "I")], "2 tasks"
    )
    assert all(mean == pytest.approx(ADDED) for mean, _ in means(of).values())


def provenance(**more: Any) -> Callable[[Run], Run]:
    return lambda of: replace(of, provenance=replace(of.provenance, **more))


def models(**more: Any) -> Callable[[Run], Run]:
    def change(of: Run) -> Run:
        made: list[ModelFacts] = [replace(m, **more) for m in of.models]
        return replace(of, models=made)

    return change


def data(**more: Any) -> Callable[[Run], Run]:
    def change(of: Run) -> Run:
        made: list[DatasetFacts] = [replace(d, **more) for d in of.datasets]
        return replace(of, datasets=made)

    return change


def main(**more: Any) -> Callable[[Run], Run]:
    return lambda of: replace(of, main=of.main.assign(**more))


def counted(of: Run) -> Run:
    made: list[TaskFacts] = [replace(t, counted=False) for t in of.tasks]
    return replace(of, tasks=made)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (data(limit=2000, records=2000, records_prepared=21_799), "--limit 2000"),
        (data(left_out={"a flat lead": 7}), "7 records left out"),
        (data(quarantined=({"record": "1", "reason": "NaN"},)), "1 unreadable record"),
        (data(repaired=3), "3 records repaired"),
        (data(folds=5), "5 folds"),
        (counted, "labels not counted"),
        (main(weights="random"), "random weights"),
        (main(weights="/tmp/mine.safetensors"), "/tmp/mine.safetensors"),
        (models(weights_source={"own": True}), "own weights"),
        (provenance(protocol="linear"), "another protocol"),
        (provenance(epochs=3), "3 epochs, theirs 100"),
        (main(n_undefined=2), "undefined labels"),
    ],
)
def test_whatever_differs_is_said_and_leaves_no_mean(
    change: Callable[[Run], Run], said: str
) -> None:
    of = change(study())
    assert all(said in row["differs"] for row in tables(of)["against_paper"].rows)
    for mean, over in means(of).values():
        assert mean is None
        assert said in over


@pytest.mark.parametrize(
    ("change", "leads"),
    [
        (provenance(draw="window"), ["1"]),
        (provenance(seeds=(0, 1)), ["1"]),
        (main(policy="copy"), ["1", "I"]),
    ],
)
def test_how_leads_are_drawn_and_filled_matters_where_some_are_missing(
    change: Callable[[Run], Run], leads: list[str]
) -> None:
    lost = {n for (_, n), (mean, over) in means(change(study())).items() if mean is None}
    assert lost == set(leads)


def test_other_metrics_are_refused_and_other_models_told() -> None:
    of = study()
    other = replace(of, metrics={"auprc": of.metrics["auroc"]})
    with pytest.raises(BadSetting, match="--metrics auroc"):
        tables(other)
    (section,) = sections(study(("hefei",)), "fmb")
    assert "no score" in section.parts[1].texts[0]
