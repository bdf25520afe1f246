"""What the shipped weights of LAEF score on genuine PTB-XL: `python tools/laef_scores.py RUN [RUN
...] --to out`.

Each RUN is a folder of `ecgbench run` that holds LAEF (`laef`) and what it is compared with; the
commands stand in models/laef/README.md. Writes scores.csv and differences.csv and prints the tables
of the model card: per task and number of leads the score of LAEF as it reads natively, that of
every other row, the difference with its 95 % interval (docs/explanation/intervals.md), and p after
Holm's correction over the numbers of leads.
"""

import argparse
from pathlib import Path

import pandas as pd

import ecgbench
from ecgbench.core.division import OFFICIAL
from ecgbench.errors import MissingData
from ecgbench.results.scorer import Scorer
from ecgbench.results.study import Run
from ecgbench.stats.paired import Difference, holm
from ecgbench.study.store import Store

OURS = ("laef", "native")
"""Model and policy."""
NUMBERS = ("value", "low", "high", "std", "n_patients")
COLUMNS = (
    "run",
    "protocol",
    "train_leads",
    "task",
    "leads",
    "model",
    "policy",
    "weights",
    "metric",
    *NUMBERS,
)


def main() -> None:
    """Read the runs, write scores.csv and differences.csv, print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    scores, differences = zip(*(read(run) for run in options.runs))
    options.to.mkdir(parents=True, exist_ok=True)
    whole = pd.concat(differences, ignore_index=True)
    pd.concat(scores, ignore_index=True).to_csv(options.to / "scores.csv", index=False)
    whole.to_csv(options.to / "differences.csv", index=False)
    for (run, task), part in whole.groupby(["run", "task"], sort=False):
        print(f"\n{run}, {task}\n")
        print("\n".join(table(part)))


def read(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of a run, and its paired differences: LAEF under its native policy minus every other
    row.

    MissingData where LAEF has no score at a number of leads.
    """
    study, plan = ecgbench.read(path), Store(path).plan()
    assert plan is not None  # `read` has refused a folder without one
    patients = {(d.name, OFFICIAL): tuple(d.patients) for d in study.datasets}
    score = Scorer(run=path, scoring=plan.scoring, patients=patients)
    facts = {
        "run": path.name,
        "protocol": plan.training.protocol,
        "train_leads": plan.training.leads,
    }
    rows = study.main[study.main["metric"] == study.metric]
    differences = []
    for (task, leads), part in rows[rows["status"] == "ok"].groupby(["task", "leads"], sort=False):
        values = part.set_index(["model", "policy"])["value"]
        if OURS not in values:
            raise MissingData(
                f"{path} has no score of {OURS[0]} at {leads} leads on {task}; finish the run with "
                f"its command"
            )
        for other in values.index:
            if other == OURS:
                continue
            d = difference(study, score, task, leads, other)
            differences.append(
                {
                    "task": task,
                    "leads": leads,
                    "other": other[0],
                    "policy": other[1],
                    "laef": values[OURS],
                    "score": values[other],
                    "difference": d.difference,
                    "low": d.low,
                    "high": d.high,
                    "p": d.p,
                }
            )
    frame = pd.DataFrame(differences).assign(**facts)
    for _, of_pair in frame.groupby(["task", "other", "policy"]):
        frame.loc[of_pair.index, "p_holm"] = holm(of_pair["p"])
    return rows.assign(**facts)[list(COLUMNS)], frame


def difference(
    study: Run, score: Scorer, task: str, leads: str, other: tuple[str, str]
) -> Difference:
    """LAEF less another row, over the same patients, draws of leads and fits."""
    rows = [
        [
            score(r, study.metric)
            for r in study.results
            if (r.cell.task, (r.cell.fit.model, r.cell.policy), r.cell.setting.typed)
            == (task, row, str(leads))
        ]
        for row in (OURS, other)
    ]
    return score.evidence(rows).pairs[0]


def table(part: pd.DataFrame) -> list[str]:
    """As Markdown, macro AUROC x 100."""
    lines = [
        "| leads | other | LAEF | other's | difference [95 %] | p | p (Holm) |",
        "|--:|---|--:|--:|--:|--:|--:|",
    ]
    for row in part.itertuples(index=False):
        span = f"{100 * row.difference:+.1f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
        lines.append(
            f"| {row.leads} | {row.other}, {row.policy} | {100 * row.laef:.1f} | "
            f"{100 * row.score:.1f} | {span} | {row.p:.2g} | {row.p_holm:.2g} |"
        )
    return lines


if __name__ == "__main__":
    main()
