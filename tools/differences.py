"""The generated parts of docs/explanation/differences.md, which the site takes; and what they
need of predictions: `python tools/differences.py RUN [--window RUN]`.

RUN is a folder of `ecgbench run`; each of its AUROCs is given its interval in four ways, from
the stored predictions. --window: the same run with `--set scoring.draw=window`. Writes
tools/differences.csv.
Everything else is computed from the files of reports/ptbxl-2000 and ecgbench/published.
"""

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import published
from ecgbench.core.files import put
from ecgbench.core.seeds import rng
from ecgbench.reports import csv_text

HERE = Path(__file__).parent
MEASURED = HERE / "differences.csv"
SHIPPED = HERE.parent / "reports" / "ptbxl-2000"
MAIN = ("laef", "native")
"""Column of the shipped report whose numbers are quoted."""
NOT = "not measured"
DRAWS, AGAIN = 1000, 20
"""Draws of a bootstrap, and how often it is made anew to see how far its ends move."""
PLACED, PATIENTS, RECORDS, REFERENCE = (
    "placements (ours)",
    "patients drawn",
    "records drawn",
    "records drawn, a lost label counts 0.5 (the reference benchmark)",
)
WINDOW = "leads drawn anew in every window"
COLUMNS = (
    *("task", "leads", "way", "value", "low", "high", "lost", "ends"),
    *("labels", "undefined", "records", "patients"),
)


def rows(file: str) -> list[dict[str, str]]:
    """A CSV of the shipped report."""
    with (SHIPPED / file).open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


# --- what the shipped report tells


@dataclass(frozen=True)
class Halved:
    """A row of the shipped report with labels without both values as 0.5."""

    task: str
    leads: str
    ours: float
    theirs: float
    undefined: int


def halved() -> list[Halved]:
    """Task by lead setting of the quoted column, means over lead draws."""
    typed = {(r["task"], r["setting"]): r["leads"] for r in rows("cells.csv")}
    cells: dict[tuple[str, str], list[float | None]] = {}
    for row in rows("labels.csv"):
        if (row["model"], row["policy"]) == MAIN:
            value = float(row["value"]) if row["value"] else None
            cells.setdefault((row["task"], row["setting"]), []).append(value)
    made: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    for (task, setting), values in cells.items():
        there = [v for v in values if v is not None]
        ours = fmean(there)
        theirs = fmean([0.5 if v is None else v for v in values])
        lost = len(values) - len(there)
        made.setdefault((task, typed[task, setting]), []).append((ours, theirs, lost))
    return [
        Halved(task, leads, fmean(o for o, _, _ in m), fmean(t for _, t, _ in m), m[0][2])
        for (task, leads), m in made.items()
    ]


def lost_labels() -> list[tuple[str, float, float]]:
    """Task, labels that a draw of records loses on average at 12 leads, and how far the mean of
    its draws falls below where a lost label counts 0.5; from the counts of positives.
    """
    tasks: dict[str, list[tuple[float, float]]] = {}
    for row in rows("labels.csv"):
        if (row["model"], row["policy"]) == MAIN and row["setting"] == "12" and row["value"]:
            n, k = int(row["n"]), int(row["positives"])
            gone = (1 - k / n) ** n + (k / n) ** n
            tasks.setdefault(row["task"], []).append((gone, float(row["value"])))
    return [
        (task, sum(p for p, _ in found), sum(p * (v - 0.5) for p, v in found) / len(found))
        for task, found in tasks.items()
    ]


def best_three(values: Sequence[float | None]) -> list[int | None]:
    """1, 2, 3 for the three highest distinct values, equal values alike; None for the rest, and for
    all if nothing is compared.
    """
    ranks = pd.Series(values, dtype=float).rank(method="dense", ascending=False)
    several = ranks.count() > 1
    return [int(rank) if several and rank <= 3 else None for rank in ranks]


def reranked() -> tuple[int, int]:
    """Cells of the shipped main table whose rank the printed decimals would change, and cells."""
    lines: dict[tuple[str, str], list[float | None]] = {}
    for row in rows("main_table.csv"):
        own = None if row["weights"] == "random" else float(row["value"])
        lines.setdefault((row["task"], row["leads"]), []).append(own)
    changed = sum(
        a != b
        for values in lines.values()
        for a, b in zip(best_three(values), best_three([v and round(v, 3) for v in values]))
    )
    return changed, sum(map(len, lines.values()))


# --- what predictions tell


def measure(run: Path, window: Path | None) -> list[dict[str, Any]]:
    """Rows of tools/differences.csv."""
    from ecgbench import read
    from ecgbench.results.scorer import Scorer
    from ecgbench.study.store import Store

    study = read(run)
    scoring = Store(run).existing_plan().scoring
    patients = {
        (d.name, r.cell.fit.fold): d.patients for d in study.datasets for r in study.results
    }
    kinds = {PLACED: "none", PATIENTS: "multinomial", RECORDS: "records"}
    made: list[dict[str, Any]] = []
    for result in study.results:
        own = result.predicted()
        target, probability = own.target, own.probability
        typed = result.cell.setting.typed
        same: dict[str, Any] = {"task": result.cell.task, "leads": typed}
        same |= {"labels": target.shape[1], "records": len(own.records)}
        same |= {"patients": len({*own.patients.tolist()})}
        for way, kind in kinds.items():
            scorer = Scorer(
                run=run,
                scoring=replace(scoring, bootstrap=kind, draws=DRAWS),  # type: ignore[arg-type]
                patients=patients,
            )
            found = scorer(result, "auroc")
            macro = found.table.iloc[0]
            numbers = {name: float(macro[name]) for name in ("value", "low", "high")}
            undefined = int(np.isnan(found.table["value"].iloc[1:]).sum())
            made.append(same | {"way": way, "undefined": undefined} | numbers)
        made.append(
            same | {"way": REFERENCE, "undefined": undefined} | _reference(target, probability)
        )
    return made + (_windows(study, read(window)) if window else [])


def _reference(target: np.ndarray, probability: np.ndarray) -> dict[str, float]:
    """The interval of the reference benchmark: records drawn with replacement, every label in the
    mean, 0.5 for one that a draw loses.

    lost: labels with a value that a draw loses, on average. ends: standard deviation of an end of
    the interval over AGAIN bootstraps.
    """
    from ecgbench.stats.bootstrap import label_replicates, percentile_interval

    n = len(target)
    ends, lost, value = [], 0.0, float("nan")
    for again in range(AGAIN):
        counts = rng("differences", again).multinomial(n, np.full(n, 1 / n), size=DRAWS)
        labels = label_replicates(target, probability, counts.astype(np.int32))
        halves = np.where(np.isfinite(labels), labels, 0.5)
        ends.append(percentile_interval(halves.mean(axis=1)))
        if not again:
            own = label_replicates(target, probability, np.ones((1, n), np.int32))[0]
            value = float(np.where(np.isfinite(own), own, 0.5).mean())
            lost = float(np.isnan(labels[:, np.isfinite(own)]).sum(axis=1).mean())
    low, high = ends[0]
    return {
        "value": value,
        "low": low,
        "high": high,
        "lost": lost,
        "ends": float(np.std(ends, axis=0, ddof=1).mean()),
    }


def _windows(study: Any, other: Any) -> list[dict[str, Any]]:
    ours = {(r["task"], r["leads"]): r for r in study.main.to_dict("records")}
    made = []
    for row in other.main.to_dict("records"):
        if (row["task"], row["leads"]) in ours and row["leads"] != "12":
            names = {n: row[n] for n in ("task", "leads", "value", "low", "high")}
            counts = {"records": int(row["n_records"]), "patients": int(row["n_patients"])}
            labels = {"labels": int(row["n_labels"]), "undefined": int(row["n_undefined"])}
            made.append({**names, "way": WINDOW, **counts, **labels})
    return made


def measured() -> list[dict[str, Any]]:
    """tools/differences.csv; numbers as numbers."""
    with MEASURED.open(newline="", encoding="utf-8") as text:
        return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(text)]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


# --- the page


def points(fraction: float, sign: bool = False) -> str:
    """In points, with a true minus."""
    return f"{100 * fraction:{'+' if sign else ''}.1f}".replace("-", "−")


def title(task: str) -> str:
    """As printed in tables."""
    return published.TASKS[task]


def of(way: str) -> dict[tuple[str, str], dict[str, Any]]:
    """(task, leads) -> the measured row."""
    return {
        (r["task"], str(r["leads"]).removesuffix(".0")): r for r in measured() if r["way"] == way
    }


def wide(way: str, than: str) -> str:
    """How wide the intervals of one way are, as shares of those of another."""
    mine, others = of(way), of(than)
    shares = [
        (mine[c]["high"] - mine[c]["low"]) / (others[c]["high"] - others[c]["low"]) for c in mine
    ]
    return f"{min(shares):.2f} to {max(shares):.2f} times as wide"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |"
        for line in [head, ["---"] * len(head), *lines]
    )


def differences() -> str:
    """What differs, how far it moves the numbers, and the option that brings theirs back."""
    return table(
        ("what", "theirs", "ours", "how far it moves the numbers", "their way"),
        [*_of_scores(), *_of_intervals(), *_of_input(), *_of_training()],
    )


def _of_scores() -> Iterator[Sequence[str]]:
    shown = [h for h in halved() if h.leads.isdigit()]
    moved: dict[str, list[Halved]] = {}
    for h in shown:
        if h.undefined:
            moved.setdefault(h.task, []).append(h)
    still = [title(t) for t in dict.fromkeys(h.task for h in shown) if t not in moved]
    listed = "; ".join(
        f"{title(task)} ({of[0].undefined} labels) "
        + ", ".join(f"{points(h.theirs - h.ours, True)} at L = {h.leads}" for h in of)
        for task, of in moved.items()
    )
    yield (
        "a label without both values in the test set",
        "counts 0.5 in the mean",
        "left out of the mean, and named",
        f"{listed}; {', '.join(still)} 0.0",
        "`--set scoring.absent=half`",
    )
    changed, cells = reranked()
    yield (
        "ranks",
        "on unrounded values; of two that are equal in print one comes first",
        "on unrounded values; equal values share a rank",
        f"printed decimals would change {changed} of {cells} ranks of the report; of the paper's "
        f"colours they give all but 5",
        "none needed",
    )
    yield (
        "number of labels",
        "PTB 22 (paper) or 18 (reference benchmark), ZZU pECG 58, Hefei 29, not named",
        "PTB 18; ZZU pECG and Hefei are counted on the complete release",
        f"{NOT}; such a task is footnoted and in no mean of `--against`",
        "none",
    )
    yield (
        "labels of PTB-XL Diag, Form, Rhythm",
        "the paper's means cannot be columns of the same predictions (below)",
        "columns of the predictions of All; `labels.csv` of a report shows that the scores of a "
        "label are equal",
        "nothing: labels are equal to the last bit",
        "none",
    )


def _of_intervals() -> Iterator[Sequence[str]]:
    yield (
        "what is drawn",
        "records",
        "patients; by default nothing is drawn, intervals are from placements "
        "([intervals](intervals.md))",
        f"drawing records, intervals are {wide(RECORDS, PATIENTS)} as with patients; drawing "
        f"patients, {wide(PATIENTS, PLACED)} as from placements",
        "`--set scoring.bootstrap=records`",
    )
    counted = ", ".join(
        f"{title(task)} loses {lost:.2f} labels a draw, the mean of its draws falls by "
        f"{points(down)}"
        for task, lost, down in lost_labels()
    )
    shifted = [
        (of(REFERENCE)[cell]["value"] - of(REFERENCE)[cell]["low"])
        / (of(REFERENCE)[cell]["high"] - of(REFERENCE)[cell]["value"])
        for cell in of(REFERENCE)
    ]
    yield (
        "a label that a draw loses",
        "counts 0.5 in that draw",
        "none is lost without draws; with them it is left out of that draw",
        f"from the counts of positives: {counted}. Their intervals reach {min(shifted):.1f} to "
        f"{max(shifted):.1f} times as far below the score as above it",
        "none",
    )
    ends = [row["ends"] for row in of(REFERENCE).values()]
    yield (
        "number of draws",
        f"{DRAWS:,}, without a seed (reference benchmark)",
        "none; with a bootstrap 1,000, seeded",
        f"an end of a drawn interval moves by {points(min(ends))} to {points(max(ends))} (standard "
        f"deviation over {AGAIN} bootstraps)",
        "`--set scoring.bootstrap=records`",
    )
    yield (
        "asterisk",
        "draws of differences in pairs; the code of the test is not public",
        "the paired difference from placements, none with too little evidence "
        "([intervals](intervals.md))",
        NOT,
        "`--set scoring.bootstrap=records` draws both sides alike",
    )


def _of_input() -> Iterator[Sequence[str]]:
    placed = of(PLACED)
    moved = [
        f"{title(task)} at L = {leads} {points(row['value'] - placed[task, leads]['value'], True)}"
        for (task, leads), row in of(WINDOW).items()
    ]
    yield (
        "random leads",
        "the paper does not say whether per record or per window",
        "one subset per record, the same in all its windows and for all models",
        f"drawn in every window: {', '.join(moved)} (one draw of leads)" if moved else NOT,
        "`--set scoring.draw=window`",
    )
    excluded = sum(int(row["excluded"]) for row in rows("cells.csv") if row["excluded"])
    windows = {r["model"]: float(r["windows"]) for r in rows("cells.csv") if r["windows"]}
    yield (
        "windows",
        "one after the other, rest dropped; a record shorter than one disappears unsaid",
        "the same windows; a shorter record is counted and named",
        f"the report leaves out {excluded} records (windows averaged: "
        + ", ".join(f"{t} {windows[n]:g}" for n, t in published.MODELS.items() if n in windows)
        + ")",
        "none needed",
    )
    yield (
        "resampler",
        "resampy on each crop",
        "a polyphase filter over the record",
        f"0.7 to 2.5 % of the signal's rms, by model ([models](../reference/models.md)); "
        f"scores: {NOT}",
        "none",
    )
    aside = "quarantined" in (SHIPPED / "main_table.md").read_text(encoding="utf-8")
    yield (
        "NaN",
        "becomes 0 in a batch and in the outputs",
        "a recording with one is put aside and named; one in an output stops the run",
        NOT if aside else "nothing: no recording of the report was put aside",
        "none",
    )
    yield (
        "precision",
        "16 bit mixed, but for ECG-CPC and S4",
        "float32",
        f"features by at most 1 % ([performance](performance.md)); scores: {NOT}",
        "`--set training.precision=bf16`",
    )


def _of_training() -> Iterator[Sequence[str]]:
    tuned = published.claims(published.FMB)[0].found.partition(". ")[0]
    yield (
        "groups of parameters",
        "by the beginning of their names; those of ST-MEM match none, its encoder is not trained",
        "a run stops unless every parameter to be trained is in exactly one group",
        f"in their scores, {tuned}; ours: {NOT}",
        "`--protocol linear` for ST-MEM",
    )
    yield (
        "seeds",
        "none (reference benchmark): one run, not repeatable",
        "derived from words; the same command gives the same numbers",
        f"{NOT}; `--set training.seeds=0,1,2` shows the spread",
        "none",
    )
    yield (
        "head",
        "fine-tuning, 100 epochs",
        "a converged logistic regression on the frozen encoder, unless asked otherwise "
        "([probe](probe.md))",
        f"{NOT} on the report",
        "`--protocol finetune`, `--protocol linear`",
    )
    tested = [row for row in rows("comparisons.csv") if row["p"]]
    lost = [row for row in tested if float(row["p"]) < 0.05 <= float(row["p_holm"])]
    yield (
        "several comparisons",
        "no correction is mentioned",
        "p after Holm's correction stands beside p",
        f"{len(lost)} of {len(tested)} tested differences of the report have p < 0.05 before, and "
        f"not after correction within task and lead setting",
        "none needed",
    )


def intervals() -> str:
    """The same predictions under each way."""
    lines = []
    for (task, leads), placed in of(PLACED).items():
        for way in (PLACED, PATIENTS, RECORDS, REFERENCE):
            row = of(way)[task, leads]
            undefined = f"{row['undefined']:.0f} of {row['labels']:.0f}"
            lines.append(
                (
                    title(task) if row["way"] == placed["way"] else "",
                    leads if row["way"] == placed["way"] else "",
                    way,
                    points(row["value"]),
                    f"[{points(row['low'])}, {points(row['high'])}]",
                    undefined if row["way"] == placed["way"] else "",
                )
            )
    head = ("task", "leads", "way", "AUROC × 100", "95 % interval", "labels without both values")
    return table(head, lines)


def claims() -> str:
    """What the sources say and their own numbers do not give."""
    lines = [
        (published.source(name).title, claim.where, claim.says, claim.found, claim.agrees)
        for name in published.SOURCES
        for claim in published.claims(name)
        if claim.agrees != "yes"
    ]
    return table(("source", "where", "it says", "its tables give", "agrees"), lines)


BLOCKS = {"differences": differences, "intervals": intervals, "claims": claims}
"""Parts of docs/explanation/differences.md."""


def main() -> None:
    """Write tools/differences.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--window", type=Path)
    options = parser.parse_args()
    rows = measure(options.run, options.window)
    put(MEASURED, csv_text(pd.DataFrame(rows, columns=COLUMNS, dtype=object)))


if __name__ == "__main__":
    main()
