"""Do 95 % intervals hold what they promise? Coverage of a known AUROC, and the family error of
comparisons with the best.

`python benchmarks/intervals.py [--simulations 2000] [--seed 0]`. Studies are simulated with several
records per patient whose labels and scores resemble one another, and go through the functions that
score a run. A score is `shift * label + noise` with a standard normal noise that a patient's
records share in part, so the AUROC over pairs of independent patients is exactly Phi(shift /
sqrt(2)), however many records a patient has and whichever labels they carry. Printed with the Monte
Carlo standard error.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ecgbench.cells import Cell, Fit
from ecgbench.ecg.draw import Fixed
from ecgbench.ecg.leads import ALL
from ecgbench.results.compare import Row, Scored, compare
from ecgbench.results.score import Draws, score
from ecgbench.seeds import rng
from ecgbench.stats.paired import holm, holm_with_best, p_value

Floats = NDArray[np.float64]
NORMAL = NormalDist()
DRAWS = 1000


@dataclass(frozen=True, kw_only=True)
class Design:
    """A population from which studies are drawn."""

    name: str
    patients: int
    records: tuple[float, ...]
    """Probability of 1, 2, ... records, of a patient with nothing particular."""
    prevalence: tuple[float, ...]
    """Per label."""
    auroc: tuple[float, ...]
    """True AUROC per label."""
    label_share: float = 0.8
    """Share of a label's latent variance that the records of a patient have in common."""
    score_share: float = 0.6
    """The same for the noise of the scores; half of it is shared by the labels too."""
    return_of_the_sick: float = 0.0
    """Correlation between the first label's latent and the number of records."""

    @property
    def truth(self) -> float:
        """Macro AUROC."""
        return float(np.mean(self.auroc))


DESIGNS = (
    Design(
        name="one label, 250 patients, 1-4 records",
        patients=250,
        records=(0.25,) * 4,
        prevalence=(0.3,),
        auroc=(0.8,),
    ),
    Design(
        name="macro of five labels, 200 patients, the sick return",
        patients=200,
        records=(0.4, 0.3, 0.2, 0.1),
        prevalence=(0.2, 0.25, 0.3, 0.35, 0.4),
        auroc=(0.7, 0.75, 0.8, 0.85, 0.9),
        return_of_the_sick=0.6,
    ),
    Design(
        name="beyond: rare label (5 %), 300 patients, 1-2 records",
        patients=300,
        records=(0.7, 0.3),
        prevalence=(0.05,),
        auroc=(0.9,),
    ),
)


@dataclass(frozen=True, eq=False)
class Study:
    """One simulated test set."""

    patients: list[str]
    target: NDArray[np.int8]
    """(record, label)."""
    scores: list[Floats]
    """Per model (record, label)."""

    def table(self, model: int, units: Sequence[str]) -> pd.DataFrame:
        """Predictions of a model as a run stores them, of records that are drawn by `units`."""
        columns = {f"target:{k}": y for k, y in enumerate(self.target.T)}
        columns |= {f"probability:{k}": s for k, s in enumerate(self.scores[model].T)}
        return pd.DataFrame({"record": range(len(units)), "patient": list(units), **columns})


def simulate(
    design: Design, random: np.random.Generator, models: int = 1, alike: float = 0.0
) -> Study:
    """A study with models of equal skill, whose noise has the share `alike` of its variance in
    common.
    """
    labels, n = len(design.prevalence), design.patients
    latent = random.standard_normal((n, labels))
    busy = _mix(design.return_of_the_sick**2, latent[:, 0], random.standard_normal(n))
    cuts = [NORMAL.inv_cdf(c) for c in np.cumsum(design.records)[:-1]]
    owner = np.repeat(np.arange(n), 1 + np.searchsorted(cuts, busy))
    own = random.standard_normal((len(owner), labels))
    target = _mix(design.label_share, latent[owner], own) > [
        NORMAL.inv_cdf(1 - p) for p in design.prevalence
    ]
    shift = np.sqrt(2) * np.array([NORMAL.inv_cdf(a) for a in design.auroc])
    shared = _noise(design, owner, random)
    scores = [
        shift * target + _mix(alike, shared, _noise(design, owner, random)) for _ in range(models)
    ]
    return Study([f"P{i}" for i in owner], target.astype(np.int8), scores)


def _mix(share: float, common: Floats, own: Floats) -> Floats:
    """Standard normal of which `share` of the variance is common."""
    return np.sqrt(share) * common + np.sqrt(1 - share) * own


def _noise(design: Design, owner: NDArray[np.int64], random: np.random.Generator) -> Floats:
    labels = len(design.prevalence)
    of_patient = _mix(
        0.5,
        random.standard_normal((design.patients, 1)),
        random.standard_normal((design.patients, labels)),
    )
    return _mix(design.score_share, of_patient[owner], random.standard_normal((len(owner), labels)))


def studies(
    design: Design, simulations: int, seed: int, models: int = 1, alike: float = 0.0
) -> Iterator[tuple[str, Study]]:
    """Named studies, in which every label has both values; progress goes to stderr."""
    start = time.perf_counter()
    for i in range(simulations):
        name = f"{design.name} {models} {seed} {i}"
        study = simulate(design, rng("coverage", name), models, alike)
        if (np.ptp(study.target, axis=0) == 0).any():
            raise ValueError(f"{name}: a label without both values; the design is too small")
        yield name, study
        if (i + 1) % max(1, simulations // 20) == 0:
            print(
                f"\r  {i + 1}/{simulations} studies, {time.perf_counter() - start:.0f} s",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print("\r" + " " * 40, end="\r", file=sys.stderr)


def coverage(
    design: Design, simulations: int, seed: int = 0, draws: int = DRAWS
) -> dict[str, tuple[float, float]]:
    """Share of studies below whose interval the truth lies, and above: per bootstrap; `records`
    draws records as if each were a patient.
    """
    missed = {kind: [0, 0] for kind in ("bayesian", "multinomial", "records")}
    for name, study in studies(design, simulations, seed):
        for kind, count in missed.items():
            units = (
                [str(i) for i in range(len(study.patients))]
                if kind == "records"
                else study.patients
            )
            drawn: Literal["bayesian", "multinomial"] = (
                "multinomial" if kind == "multinomial" else "bayesian"
            )
            macro = score(
                "auroc", study.table(0, units), _draws(name, units, draws, drawn)
            ).table.iloc[0]
            count[0] += design.truth < macro["low"]
            count[1] += design.truth > macro["high"]
    return {
        kind: (below / simulations, above / simulations) for kind, (below, above) in missed.items()
    }


def family_error(design: Design, models: int, simulations: int, seed: int = 0) -> dict[str, float]:
    """Share of studies in which models of equal skill are told apart at 5 %, by what is compared
    with what.

    `named`: Holm over the comparisons with a model named beforehand. `best, m - 1`: Holm over those
    with the best one, as if it had been. `best, all pairs`: the same with the family of all pairs.
    `report`: what `compare` writes into the main table. `asterisk`: an uncorrected interval that
    leaves out 0.
    """
    wrong = dict.fromkeys(("named", "best, m - 1", "best, all pairs", "report", "asterisk"), 0)
    draws = max(DRAWS, 100 * models * (models - 1) // 2)
    for name, study in studies(design, simulations, seed, models, alike=0.6):
        drawn = _draws(name, study.patients, draws, "bayesian")
        rows = [_row(study, k, drawn) for k in range(models)]
        estimates, replicates = [r.score for r in rows], [r.replicates for r in rows]
        best = int(np.argmax(estimates))
        compare(rows, lambda one, names: one)
        wrong["named"] += _told_apart(holm(_against(0, estimates, replicates)))
        wrong["best, m - 1"] += _told_apart(holm(_against(best, estimates, replicates)))
        wrong["best, all pairs"] += _told_apart(holm_with_best(estimates, replicates, best))
        wrong["report"] += _told_apart([r.p_holm for r in rows])
        wrong["asterisk"] += any(
            r.difference is not None and not r.difference.not_significant for r in rows
        )
    return {what: count / simulations for what, count in wrong.items()}


def _against(chosen: int, estimates: Sequence[float], replicates: Sequence[Floats]) -> list[float]:
    others = [k for k in range(len(estimates)) if k != chosen]
    return [
        p_value(replicates[chosen] - replicates[k], estimates[chosen] - estimates[k])
        for k in others
    ]


def _told_apart(p: Sequence[float] | Floats) -> bool:
    return bool((np.asarray(p) <= 0.05).any())


def _draws(
    name: str, units: Sequence[str], draws: int, kind: Literal["bayesian", "multinomial"]
) -> Draws:
    return Draws(dataset=name, patients=tuple(sorted(set(units))), draws=draws, bootstrap=kind)


def _row(study: Study, model: int, draws: Draws) -> Row:
    fit = Fit(task="simulated", model=f"m{model}", contract="paper", weights="random", seed=0)
    cell = Cell(fit=fit, task="simulated", setting=Fixed(ALL), policy="zero")
    scores = score("auroc", study.table(model, study.patients), draws)
    scored = Scored(
        cell=cell,
        metric="auroc",
        table=scores.table,
        replicates=scores.replicates,
        records=draws.dataset,
    )
    return Row(
        task="simulated",
        model=f"m{model}",
        leads="12",
        policy="zero",
        metric="auroc",
        cells=[scored],
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simulations", type=int, default=2000, help="studies per line (2000)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(
        f"{options.simulations} studies per line, {DRAWS} draws, percentile intervals; in "
        f"brackets the standard error, points"
    )
    print(
        "\ncoverage of the 95 % interval, %                        truth    bootstrap    covered  "
        "    truth below / above"
    )
    for design in DESIGNS:
        for kind, (below, above) in coverage(design, options.simulations, options.seed).items():
            covered = _points(1 - below - above, options.simulations)
            print(
                (
                    f"{design.name:<56}{design.truth:.3f}    {kind:<12} {covered}  "
                    f"{100 * below:.2f} "
                    f"/ {100 * above:.2f}"
                ),
                flush=True,
            )
    print("\nmodels of equal skill told apart at 5 %, % of studies")
    for design, models in [(DESIGNS[0], 2), (DESIGNS[0], 5), (DESIGNS[0], 8), (DESIGNS[1], 5)]:
        print(f"{models} models; {design.name}")
        for what, share in family_error(design, models, options.simulations, options.seed).items():
            print(f"    {what:<18}{_points(share, options.simulations)}", flush=True)


def _points(share: float, simulations: int) -> str:
    return f"{100 * share:5.2f} ({100 * np.sqrt(share * (1 - share) / simulations):.2f})"


if __name__ == "__main__":
    main()
