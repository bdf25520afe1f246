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
from ecgbench.results.study import Run
from tests import invented

CONTRACT = invented.CONTRACT | {
    "filter": {"kind": "firwin-filtfilt", "low": 0.05, "high": 47.0},
    "policy": "native",
    "absent": "nothing: the network reads measured leads only",
}
COMMAND = Command(
    command="ecgbench run --models laef --leads 1,2,12,I,II,I+II --seeds 5",
    started=1735787045.0,
    seconds=754.0,
    ended=False,
    computed=7,
    reused=0,
    device="cuda",
)
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
    commands=(COMMAND, replace(COMMAND, seconds=246.0, ended=True, reused=7, device="cpu")),
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
    counts = {"n_records": 198, "n_patients": 190, "n_labels": 5, "n_undefined": 0}
    known = counts | {"se": 0.01, "df": 40.0, "share": 0.3}
    names = ("task", "model", "leads", "value", "std")
    made = dict(zip(names, (task, model, leads, value, std)))
    made |= known if there else dict.fromkeys(known, math.nan)
    made |= {
        "policy": "native" if model == "laef" else "zero",
        "weights": "released",
        "seen": "no",
        "metric": "auroc",
        "low": value - 0.02,
        "high": value + 0.02,
        "share_label": "MI" if there else "",
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
    facts = {"title": title, "parameters": parameters, "contract": CONTRACT, "windows": 2}
    facts |= {"paper": "Someone 2024, arXiv:2401.00001"}
    known = {k: v for k, v in invented.model_facts(name).items() if k != "origin"}
    return ModelFacts(**known | facts | more)


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


NAMES = ("task", "model", "leads", "policy", "weights", "seen", "status", "metric", "value")


def cells(rows: list[dict[str, Any]], reason: dict[tuple[str, str], str]) -> pd.DataFrame:
    made = []
    for r in rows:
        for seed in _seeds(r):
            setting = r["leads"] if seed is None else f"{r['leads']}@seed{seed}"
            why = "" if r["status"] == "ok" else reason.get((r["model"], r["leads"]), "it broke")
            cell = {name: r[name] for name in (*NAMES, "low", "high")}
            cell |= {"fit_seed": 0, "fold": "official", "setting": setting, "seed": seed}
            cell |= {"reason": why, "n_records": 198, "windows": 2, "seconds": 1.5, "key": "k" * 12}
            made.append(cell | {"path": f"cells/{r['task']}/{r['model']}/{setting}/{'k' * 12}"})
    return pd.DataFrame(made)


def labels(of_cells: pd.DataFrame, names: tuple[str, ...]) -> pd.DataFrame:
    made = []
    for cell in of_cells[of_cells["status"] == "ok"].to_dict("records"):
        for i, name in enumerate(names):
            value = math.nan if name == "RARE" else float(cell["value"]) + 0.01 * i
            same = ("setting", "fit_seed", "fold", *NAMES[:2], *NAMES[3:6], "metric")
            one = {k: cell[k] for k in same}
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
) -> Run:
    """A Run around rows of the main table; `parts` replaces whole fields."""
    of_cells = cells(rows, reason or {})
    study = Run(
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


def two_models() -> Run:
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
    for at, name in enumerate(("laef", "stmem")):
        for leads, n in numbers.items():
            tested = {"p": n[4], "p_holm": n[4], "not_significantly_worse": leads == "12"}
            more = {"best": True} if n[at] == max(n[:2]) else tested
            rows.append(row("ptbxl_super", name, leads, n[at], n[at + 2], **more))
    return build(rows)


def crowded() -> Run:
    """Three tasks (one evaluation-only), four columns (one model under two policies, one random),
    ties, a skip, a failure, a gap.
    """
    rows = []
    worse, tied = {"p": 0.002, "p_holm": 0.006}, {"p": 1.0, "p_holm": 1.0}
    same = {"not_significantly_worse": True}
    random = {"weights": "random"}
    for name in ("ptbxl_all", "ptbxl_diag", "demo"):
        odd_at_12 = {"status": "failed"} if name == "demo" else {"value": 0.51}
        rows += [
            row(name, "laef", "1", 0.7441, 0.014, best=True),
            row(name, "laef", "12", 0.95002, p=0.4, p_holm=0.8, **same),
            row(name, "stmem", "1", 0.6196, 0.004, **worse),
            row(name, "stmem", "12", 0.95004, best=True),
            row(name, "stmem", "1", 0.6196, 0.004, policy="native", **worse),
            row(name, "stmem", "12", 0.95004, policy="native", **tied, **same),
            row(name, "odd", "1", status="skipped", **random),
            row(name, "odd", "12", **odd_at_12, **random),
        ]
    reason = {
        ("odd", "1"): "none of I & II | III is <read>",
        ("odd", "12"): "LeakError: NaN reached the output",
    }
    title = "A&B_<script>alert(1)</script> $x$ | 50%"
    odd = model("odd", title, 41_000, weights="random", weights_sha256=None)
    models = [model("laef", "LAEF", 7_104_000), model("stmem", "ST-MEM", 88_500_000), odd]
    tasks = [
        task("ptbxl_all", "PTB-XL All"),
        task("ptbxl_diag", "PTB-XL Diag", evaluation_only=True),
        task("demo", "Demo", dataset="demo"),
    ]
    counts = {"limit": 60, "records": 60, "records_release": 180, "quarantined": ()}
    synthetic = dataset("demo", "Demo", synthetic=True, doi="", **counts)
    parts = {
        "models": models,
        "tasks": tasks,
        "datasets": [dataset(), synthetic],
        "notes": [*GRAVE_NOTES, *NOTES],
    }
    return build(rows, reason, **parts)
