"""What the shipped weights of LAEF score on genuine PTB-XL: `python docs/laef_scores.py RUN [RUN ...] --to out`.

Each RUN is a folder of `ecgbench run` that holds LAEF (`laef`) and the same network untrained (`untrained_laef`, examples/); the commands
stand in models/laef/README.md. Writes scores.csv and differences.csv and prints the tables of the model card: per task and number of leads
both scores, the difference over shared draws of patients with its 95 % interval, and p after Holm's correction over the numbers of leads.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.results import store, study
from ecgbench.results.store import Store
from ecgbench.stats.paired import holm, paired_difference

OURS, UNTRAINED = "laef", "untrained_laef"
COLUMNS = (
    "run",
    "protocol",
    "train_leads",
    "task",
    "leads",
    "model",
    "policy",
    "weights",
    "macro_auroc",
    "low",
    "high",
    "std",
    "n_patients",
)


def main() -> None:
    """Read the runs, write scores.csv and differences.csv, print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    asked = parser.parse_args()
    scores, differences = zip(*(read(run) for run in asked.runs))
    asked.to.mkdir(parents=True, exist_ok=True)
    whole = pd.concat(differences, ignore_index=True)
    pd.concat(scores, ignore_index=True).to_csv(asked.to / "scores.csv", index=False)
    whole.to_csv(asked.to / "differences.csv", index=False)
    for (run, task), part in whole.groupby(["run", "task"], sort=False):
        print(f"\n{run}, {task}\n")
        print("\n".join(table(part)))


def read(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of a run, and its paired differences, LAEF minus untrained, each under its native policy."""
    found = study.read(path)
    plan = Store(path).plan()
    assert plan is not None
    facts = {"run": path.name, "protocol": plan.training.protocol, "train_leads": plan.training.leads}
    scores = found.main.assign(**facts)[list(COLUMNS)]
    made = []
    for (task, leads), part in found.main.groupby(["task", "leads"], sort=False):
        native = {m: part[(part["model"] == m) & (part["policy"] == "native")] for m in (OURS, UNTRAINED)}
        ours, other = (float(native[m]["macro_auroc"].iloc[0]) for m in (OURS, UNTRAINED))
        draws = [replicates(found.cells, path, task, leads, m) for m in (OURS, UNTRAINED)]
        d = paired_difference(ours, other, *draws)
        made.append({
            "task": task, "leads": leads, "laef": ours, "untrained": other, "difference": d.difference, "low": d.low, "high": d.high,
            "p": d.p,
        })  # fmt: skip
    differences = pd.DataFrame(made).assign(**facts)
    for _, rows_of in differences.groupby("task"):
        differences.loc[rows_of.index, "p_holm"] = holm(rows_of["p"])
    return scores, differences


def replicates(cells: pd.DataFrame, run: Path, task: str, leads: str, model: str) -> np.ndarray:
    """(draw,) macro AUROC on each draw of patients, the mean over seeds."""
    mine = cells[(cells["task"] == task) & (cells["model"] == model) & (cells["policy"] == "native")]
    mine = mine[[setting.split("@")[0] == str(leads) for setting in mine["setting"]]]
    return np.mean([store.read_array(run / p, "replicates.npy")[:, 0] for p in mine["path"]], axis=0)


def table(part: pd.DataFrame) -> list[str]:
    """As Markdown, macro AUROC x 100."""
    lines = ["| leads | LAEF | untrained | difference [95 %] | p | p (Holm) |", "|--:|--:|--:|--:|--:|--:|"]
    for row in part.itertuples(index=False):
        span = f"{100 * row.difference:+.1f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
        lines.append(f"| {row.leads} | {100 * row.laef:.1f} | {100 * row.untrained:.1f} | {span} | {row.p:.3f} | {row.p_holm:.3f} |")
    return lines


if __name__ == "__main__":
    main()
