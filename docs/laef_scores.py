"""What the shipped weights of LAEF score on genuine PTB-XL: `python docs/laef_scores.py RUN [RUN
...] --to out`.

Each RUN is a folder of `ecgbench run` that holds LAEF (`laef`) and the same network untrained
(`untrained_laef`, examples/); the commands stand in models/laef/README.md. Writes scores.csv and
differences.csv and prints the tables of the model card: per task and number of leads both scores,
the difference with its 95 % interval (docs/intervals.md), and p after Holm's correction over the
numbers of leads.
"""

import argparse
from pathlib import Path

import pandas as pd

import ecgbench
from ecgbench.cells import OFFICIAL
from ecgbench.errors import MissingData
from ecgbench.results.scorer import Scorer
from ecgbench.results.store import Store
from ecgbench.results.study import Study
from ecgbench.stats.paired import Difference, holm

OURS, UNTRAINED = "laef", "untrained_laef"
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
    """Scores of a run, and its paired differences, LAEF minus untrained, each under its native
    policy.

    MissingData where a number of leads has no score of one of the two.
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
    for (task, leads), part in rows.groupby(["task", "leads"], sort=False):
        native = part[(part["policy"] == "native") & (part["status"] == "ok")].set_index("model")[
            "value"
        ]
        if not {OURS, UNTRAINED} <= set(native.index):
            raise MissingData(
                f"{path} has no score of {OURS} and {UNTRAINED} at {leads} leads on {task}; "
                f"finish the run with its command"
            )
        d = difference(study, score, task, leads)
        differences.append(
            {
                "task": task,
                "leads": leads,
                "laef": native[OURS],
                "untrained": native[UNTRAINED],
                "difference": d.difference,
                "low": d.low,
                "high": d.high,
                "p": d.p,
            }
        )
    frame = pd.DataFrame(differences).assign(**facts)
    for _, of_task in frame.groupby("task"):
        frame.loc[of_task.index, "p_holm"] = holm(of_task["p"])
    return rows.assign(**facts)[list(COLUMNS)], frame


def difference(study: Study, score: Scorer, task: str, leads: str) -> Difference:
    """LAEF less untrained, over the same patients, draws of leads and fits."""
    rows = [
        [
            score(r, study.metric)
            for r in study.results
            if (r.cell.task, r.cell.fit.model, r.cell.policy, r.cell.setting.typed)
            == (task, model, "native", str(leads))
        ]
        for model in (OURS, UNTRAINED)
    ]
    return score.evidence(rows).pairs[0]


def table(part: pd.DataFrame) -> list[str]:
    """As Markdown, macro AUROC x 100."""
    lines = [
        "| leads | LAEF | untrained | difference [95 %] | p | p (Holm) |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for row in part.itertuples(index=False):
        span = f"{100 * row.difference:+.1f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
        lines.append(
            f"| {row.leads} | {100 * row.laef:.1f} | {100 * row.untrained:.1f} | {span} | "
            f"{row.p:.2g} | {row.p_holm:.2g} |"
        )
    return lines


if __name__ == "__main__":
    main()
