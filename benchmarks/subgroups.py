"""Do the intervals of differences between groups of patients hold what they promise? Simulated test
sets of known truth.

`python benchmarks/subgroups.py [--studies 1000] [--to FILE.csv]`. A group and the rest, three
labels, two lead settings. Scores of the positives lie `skill` standard deviations above the
others, so that the true AUROC is Phi(skill / sqrt 2); the skill is lower in the group, and more so
at the fewer leads. The noise of the two settings goes together. Patients have one record, or 1 to 4
whose scores and labels go together; under `both sides` a tenth of the patients with several records
have records in the group and in the rest. Labels are those that the report would compare, at least
20 patients with and without on both sides; sets without such a label are drawn anew.

Each line: how often the 95 % interval held the truth, of the difference and of its change with
fewer leads, and how wide it was in points.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ecgbench.core.seeds import rng
from ecgbench.results.subgroups import LEAST
from ecgbench.stats.auroc import placements, wins
from ecgbench.stats.components import Components
from ecgbench.stats.subgroups import gap, usable

GROUPS = (60, 120, 400)
"""Patients in the group; the rest has 600."""
REST, PREVALENCE, TOGETHER = 600, 0.45, 0.6
SKILL = {"group": (1.4, 0.6), "rest": (1.6, 1.0)}
"""At twelve leads and at fewer."""
WEIGHTS = {"difference": np.array([0.0, 1.0]), "change": np.array([-1.0, 1.0])}


def study(name: str, patients: int, clusters: bool, both: bool, number: int):
    """(target, patients, scores (setting, record, label), in the group) of one test set."""
    random = rng("subgroups", name, patients, number)
    many = patients + REST
    size = random.integers(1, 5, many) if clusters else np.ones(many, int)
    whose = np.repeat(np.arange(many), size)
    inside = whose < patients
    if both:
        moved = random.random(many) < 0.1
        inside = np.where(moved[whose], random.random(len(whose)) < 0.5, inside)
    shape = len(whose), 3

    def normal():
        own = random.standard_normal(shape)
        return (
            np.sqrt(TOGETHER) * random.standard_normal((many, 3))[whose]
            + np.sqrt(1 - TOGETHER) * own
        )

    target = (normal() < ndtri(PREVALENCE)).astype(np.int8)
    common, scores = normal(), []
    for at in range(2):
        skill = np.where(inside, SKILL["group"][at], SKILL["rest"][at])[:, None]
        noise = np.sqrt(0.6) * common + np.sqrt(0.4) * normal()
        scores.append(skill * target + noise)
    return target, whose.astype(str), np.stack(scores), inside


def truth(name: str) -> float:
    """Of the difference at the fewer leads, or of its change."""
    gaps = [
        ndtr(SKILL["group"][at] / np.sqrt(2)) - ndtr(SKILL["rest"][at] / np.sqrt(2))
        for at in range(2)
    ]
    return float(WEIGHTS[name] @ gaps)


def held(patients: int, clusters: bool, both: bool, studies: int) -> list[dict[str, object]]:
    """The lines of one kind of test set."""
    name = "both sides" if both else "clusters" if clusters else "one record"
    counts = {w: [0, 0.0] for w in WEIGHTS}
    done = number = 0
    while done < studies:
        target, whose, scores, inside = study(name, patients, clusters, both, number)
        number += 1
        sides = inside, ~inside
        good = np.logical_and(*(usable(target[s], whose[s], LEAST) for s in sides))
        if not good.any():
            continue
        made = [
            Components(
                target[s][:, good],
                whose[s],
                np.stack(
                    [
                        placements(target[s][:, good], wins(target[s][:, good], x[s][:, good]))
                        for x in scores
                    ]
                ),
            )
            for s in sides
        ]
        done += 1
        for what, weights in WEIGHTS.items():
            low, high = gap(*made, weights).as_difference()
            counts[what][0] += low <= truth(what) <= high
            counts[what][1] += high - low
    return [
        {
            "test set": name,
            "patients in the group": patients,
            "what": what,
            "held": f"{inside / studies:.3f}",
            "width": f"{100 * width / studies:.1f}",
            "studies": studies,
        }
        for what, (inside, width) in counts.items()
    ]


def main() -> None:
    """Print a line for each kind of test set, and write them as CSV."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--studies", type=int, default=1000)
    asked.add_argument("--to", type=Path)
    said, started = asked.parse_args(), time.monotonic()
    lines = []
    for clusters, both in ((False, False), (True, False), (True, True)):
        for patients in GROUPS:
            lines += held(patients, clusters, both, said.studies)
            print(lines[-2], lines[-1], f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    table = pd.DataFrame(lines)
    print(table.to_string(index=False))
    if said.to:
        table.to_csv(said.to, index=False)


if __name__ == "__main__":
    main()
