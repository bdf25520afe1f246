"""Hand-made studies: numbers a reader can check by eye, with ties, gaps, skips, failures and text
that means harm.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench import metrics
from ecgbench.core.note import Note, Notes
from ecgbench.results.compare import COMPARISON_COLUMNS, MAIN_COLUMNS, UNTRAINED
from ecgbench.results.facts import (
    Code,
    Command,
    DatasetFacts,
    ModelFacts,
    Origin,
    Provenance,
    TaskFacts,
)
from ecgbench.results.reader import LABEL_COLUMNS
from ecgbench.results.study import Study

CONTRACT = {
    "name": "paper",
    "fs": 100.0,
    "seconds": 5.0,
    "leads": ["I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6"],
    "unit": "mV",
    "filter": {"kind": "firwin-filtfilt", "low": 0.05, "high": 47.0},
    "normalisation": "minmax-per-lead",
    "fill": "before",
    "policy": "native",
    "absent": "nothing: the network reads measured leads only",
}
PROVENANCE = Provenance(
    command="ecgbench run --models laef,stmem --leads 1,2,12,I,II,I+II --seeds 5",
    version="0.1.0",
    commit="0123456789abcdef",
    dirty=True,
    python="3.11.9",
    packages={"numpy": "2.1.0", "torch": "2.13.0"},
    platform="Linux x86_64",
    device="cpu",
    protocol="linear",
    contract="paper",
    draw="record",
    bootstrap="multinomial",
    draws=1000,
    metrics=("auroc",),
    seeds=(0, 1, 2, 3, 4),
    fit_seeds=(0,),
    epochs=100,
    plan_hash="feedc0de" * 8,
    commands=(
        Command(
            command="ecgbench run --models laef --leads 1,2,12,I,II,I+II --seeds 5",
            started=1735787045.0,
            seconds=754.0,
            ended=False,
            computed=7,
            reused=0,
            device="cuda",
        ),
        Command(
            command="ecgbench run --models laef,stmem --leads 1,2,12,I,II,I+II --seeds 5",
            started=1735787945.0,
            seconds=246.0,
            ended=True,
            computed=29,
            reused=7,
            device="cpu",
        ),
    ),
    origins=(
        Origin(
            code=Code(version="0.1.0", commit="0123456789abcdef", dirty=True),
            cells=36,
            fits=36,
            features=7,
        ),
    ),
    seconds_cells=30.0,
    seconds_fits=300.0,
)
NOTES = [
    Note("", "Std is the spread over 5 lead draws of one fit, not over repeated training."),
    Note("", "A & B: 3 labels have < 5 test positives (_x_, 50 %)."),
]
GRAVE_NOTES = [
    Note("SYNTHETIC DATA", "Demo is generated."),
    Note("RANDOM WEIGHTS", "A&B_<script>alert(1)</script> ran untrained."),
    Note("LIMITED", "Demo, --limit 60."),
    Note("INCOMPLETE", "1 failed and 6 skipped of 24 cells."),
]


def row(
    task: str, model: str, leads: str, value: float = math.nan, std: float = math.nan, **more: Any
) -> dict[str, Any]:
    """One row of the main table; an interval of +-0.02, 40 degrees of freedom and 198 records of
    190 patients unless said otherwise.
    """
    there = not math.isnan(value)
    untrained = there and more.get("weights") == "random"
    made = {
        "task": task,
        "model": model,
        "leads": leads,
        "policy": "native" if model == "laef" else "zero",
        "weights": "released",
        "seen": "no",
        "metric": "auroc",
        "value": value,
        "std": std,
        "low": value - 0.02,
        "high": value + 0.02,
        "se": 0.01 if there else math.nan,
        "df": 40.0 if there else math.nan,
        "share": 0.3 if there else math.nan,
        "share_label": "MI" if there else "",
        "n_records": 198 if there else math.nan,
        "n_patients": 190 if there else math.nan,
        "n_labels": 5 if there else math.nan,
        "n_undefined": 0 if there else math.nan,
        "p": math.nan,
        "p_holm": math.nan,
        "best": False,
        # nothing is said of what was not tested
        "not_significantly_worse": None if math.isnan(more.get("p", math.nan)) else False,
        "note": Notes([UNTRAINED] if untrained else []),
        "status": "ok",
        "n_leads": int(leads) if leads.isdigit() else leads.count("+") + 1,
        "named": not leads.isdigit(),
    }
    return made | more


def model(name: str, title: str, parameters: int, **more: Any) -> ModelFacts:
    facts: dict[str, Any] = {
        "name": name,
        "title": title,
        "summary": "a network",
        "paper": "Someone 2024, arXiv:2401.00001",
        "licence": "MIT",
        "parameters": parameters,
        "weights": "released",
        "weights_sha256": "ab" * 32,
        "contract": CONTRACT,
        "windows": 2,
    }
    return ModelFacts(**facts | more)


def task(
    name: str, title: str, dataset: str = "ptbxl", evaluation_only: bool = False, n_labels: int = 5
) -> TaskFacts:
    return TaskFacts(
        name=name, title=title, dataset=dataset, evaluation_only=evaluation_only, n_labels=n_labels
    )


def dataset(name: str = "ptbxl", title: str = "PTB-XL", **more: Any) -> DatasetFacts:
    facts: dict[str, Any] = {
        "version": "1.0.3",
        "licence": "CC BY 4.0",
        "doi": "10.13026/kfzx-aw45",
        "synthetic": False,
        "records": 2000,
        "records_prepared": 1998,
        "records_release": 21799,
        "limit": None,
        "test_records": 198,
        "test_patients": 190,
        "digest": "cafe" * 16,
        "quarantined": ({"record": "00017", "reason": "signal ends early"},),
        "flat": 3,
    }
    return DatasetFacts(name=name, title=title, **facts | more)


def _seeds(r: dict[str, Any]) -> list[int | None]:
    return list(range(5)) if r["leads"].isdigit() and r["leads"] != "12" else [None]


def cells(rows: list[dict[str, Any]], reason: dict[tuple[str, str], str]) -> pd.DataFrame:
    made = []
    for r in rows:
        for seed in _seeds(r):
            names = (
                "task",
                "model",
                "leads",
                "policy",
                "weights",
                "seen",
                "status",
                "metric",
                "value",
                "low",
                "high",
            )
            cell = {name: r[name] for name in names} | {"fit_seed": 0, "fold": "official"}
            setting = r["leads"] if seed is None else f"{r['leads']}@seed{seed}"
            why = "" if r["status"] == "ok" else reason.get((r["model"], r["leads"]), "it broke")
            cell |= {
                "setting": setting,
                "seed": seed,
                "reason": why,
                "n_records": 198,
                "windows": 2,
                "seconds": 1.5,
                "key": "k" * 12,
            }
            made.append(cell | {"path": f"cells/{r['task']}/{r['model']}/{setting}/{'k' * 12}"})
    return pd.DataFrame(made)


def labels(of_cells: pd.DataFrame, names: tuple[str, ...]) -> pd.DataFrame:
    made = []
    for cell in of_cells[of_cells["status"] == "ok"].to_dict("records"):
        for i, name in enumerate(names):
            value = math.nan if name == "RARE" else float(cell["value"]) + 0.01 * i
            one = {
                k: cell[k]
                for k in (
                    *("task", "model", "setting", "fit_seed", "fold"),
                    *("policy", "weights", "seen", "metric"),
                )
            }
            one |= {"label": name, "value": value, "low": value - 0.03, "high": value + 0.03}
            made.append(one | {"n": 198, "positives": 40 - 19 * i})
    return pd.DataFrame(made, columns=list(LABEL_COLUMNS))


def comparisons(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The rows that are tested, and those whose note says why they are not, against the best of
    their task and setting: its score minus theirs, +-0.01 or, where it may be chance, +-1.
    """
    best = {(r["task"], r["leads"]): r for r in rows if r["best"]}
    made = []
    for r in rows:
        top = best.get((r["task"], r["leads"]))
        if top is None or r["best"] or r["status"] != "ok" or not (r["p"] == r["p"] or r["note"]):
            continue
        gap = top["value"] - r["value"]
        reach = 1.0 if r["not_significantly_worse"] else min(0.01, abs(gap) / 2)
        one = {name: r[name] for name in COMPARISON_COLUMNS if name in r}
        one |= {
            "best_model": top["model"],
            "best_policy": top["policy"],
            "best_weights": top["weights"],
            "difference": gap,
            "n_records": 198,
            "n_patients": 190,
        }
        made.append(one | {"low": gap - reach, "high": gap + reach})
    return pd.DataFrame(made, columns=list(COMPARISON_COLUMNS))


def build(
    rows: list[dict[str, Any]], reason: dict[tuple[str, str], str] | None = None, **parts: Any
) -> Study:
    """A Study around rows of the main table; `parts` replaces whole fields."""
    of_cells = cells(rows, reason or {})
    study = Study(
        path=Path("runs/hand-made"),
        main=pd.DataFrame(rows, columns=list(MAIN_COLUMNS)),
        cells=of_cells,
        labels=labels(of_cells, ("NORM", "MI", "RARE")),
        comparisons=comparisons(rows),
        metrics={"auroc": metrics.card("auroc")},
        tasks=[task("ptbxl_super", "PTB-XL Super")],
        models=[model("laef", "LAEF", 7_104_000), model("stmem", "ST-MEM", 88_500_000)],
        datasets=[dataset()],
        notes=list(NOTES),
        provenance=PROVENANCE,
        results=[],
    )
    return replace(study, **parts)


def two_models() -> Study:
    """LAEF and ST-MEM on PTB-XL Super at 1, 2, 12, I, II, I+II: the report of the README."""
    nan = math.nan
    numbers = {
        "1": (0.723, 0.573, 0.006, 0.005, 0.002),
        "2": (0.786, 0.684, 0.006, 0.003, 0.002),
        "12": (0.923, 0.926, nan, nan, 0.41),
        "I": (0.731, 0.602, nan, nan, 0.002),
        "II": (0.758, 0.634, nan, nan, 0.002),
        "I+II": (0.824, 0.7, nan, nan, 0.002),
    }
    rows = []
    for name, at in (("laef", 0), ("stmem", 1)):
        for leads, n in numbers.items():
            best = n[at] == max(n[:2])
            verdict = (
                {}
                if best
                else {
                    "p": n[4],
                    "p_holm": n[4],
                    "not_significantly_worse": leads == "12",
                }
            )
            rows.append(row("ptbxl_super", name, leads, n[at], n[at + 2], best=best, **verdict))
    return build(rows)


def crowded() -> Study:
    """Three tasks (one evaluation-only), four columns (one model under two policies, one random),
    ties, a skip, a failure, a gap.
    """
    rows = []
    for name in ("ptbxl_all", "ptbxl_diag", "demo"):
        rows += [
            row(name, "laef", "1", 0.7441, 0.014, best=True),
            row(name, "laef", "12", 0.95002, not_significantly_worse=True, p=0.4, p_holm=0.8),
            row(name, "stmem", "1", 0.6196, 0.004, p=0.002, p_holm=0.006),
            row(name, "stmem", "12", 0.95004, best=True),
            row(name, "stmem", "1", 0.6196, 0.004, policy="native", p=0.002, p_holm=0.006),
            row(
                name,
                "stmem",
                "12",
                0.95004,
                policy="native",
                best=False,
                not_significantly_worse=True,
                p=1.0,
                p_holm=1.0,
            ),
            row(name, "odd", "1", status="skipped", weights="random"),
            row(name, "odd", "12", 0.51, weights="random")
            if name != "demo"
            else row(name, "odd", "12", status="failed", weights="random"),
        ]
    reason = {
        ("odd", "1"): "none of I & II | III is <read>",
        ("odd", "12"): "LeakError: NaN reached the output",
    }
    odd = model(
        "odd",
        "A&B_<script>alert(1)</script> $x$ | 50%",
        41_000,
        weights="random",
        weights_sha256=None,
    )
    models = [model("laef", "LAEF", 7_104_000), model("stmem", "ST-MEM", 88_500_000), odd]
    tasks = [
        task("ptbxl_all", "PTB-XL All"),
        task("ptbxl_diag", "PTB-XL Diag", evaluation_only=True),
        task("demo", "Demo", dataset="demo"),
    ]
    synthetic = dataset(
        "demo",
        "Demo",
        synthetic=True,
        limit=60,
        doi="",
        records=60,
        records_release=180,
        quarantined=(),
    )
    parts = {
        "models": models,
        "tasks": tasks,
        "datasets": [dataset(), synthetic],
        "notes": [*GRAVE_NOTES, *NOTES],
    }
    return build(rows, reason, **parts)
