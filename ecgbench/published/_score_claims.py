"""Claims of the paper about its tables of scores."""

from collections.abc import Iterator
from statistics import fmean

from ecgbench.published._claim import HALF, Claim, pts, signed
from ecgbench.published._scores import OURS, Scores, impossible, recoloured
from ecgbench.published.tables import (
    AVERAGE,
    EVALUATED_ONLY,
    FMB,
    MODELS,
    TASKS,
    main,
    printed,
    source,
)

_WINDOWS = {
    **dict.fromkeys(("ecgfounder", "merl", "ecgcpc", "stmem"), 4),
    **dict.fromkeys(("laef", "hubertecg"), 2),
    **dict.fromkeys(("ecgfmked", "ecgjepa"), 1),
}
"""Windows of a 10 s record whose probabilities are averaged, from the length of their inputs."""


def of_random_leads(scores: Scores) -> Iterator[Claim]:
    """Those on the extended table and Table 1, in the order of the text."""
    yield from _first(scores)
    yield from _gains(scores)
    yield _top_three(scores)
    yield _exception(scores)
    yield from _tables(scores)
    yield _colours(scores)
    yield _columns(scores)
    yield from _of_the_benchmark(scores)
    yield _panels(scores)


def of_single_leads(scores: Scores, single: Scores) -> Iterator[Claim]:
    """Those on the table of leads I and II; `scores`: of the extended table."""
    yield from _averages(single)
    yield from _margins(single)
    yield _both_protocols(scores, single)
    yield _random(scores, single)


def _first(scores: Scores) -> Iterator[Claim]:
    for leads, said, words in (("1", 17, "one random lead"), ("2", 14, "two random leads")):
        gains = scores.gains(leads)
        alone = sum(gain > 0 for gain in gains.values())
        tied = [TASKS[task] for task, gain in gains.items() if gain == 0]
        more = f"; {alone + len(tied)} with the tie on {', '.join(tied)}" if tied else ""
        yield Claim(
            where="abstract, introduction, results",
            says=f"with {words} LAEF is first on {said} of 18",
            found=f"alone at the top on {alone} of {len(gains)}{more}",
            agrees="no" if alone != said else "in part" if tied else "yes",
        )


def _gains(scores: Scores) -> Iterator[Claim]:
    one, two = (list(scores.gains(leads).values()) for leads in "12")
    founder = [
        scores.value(task, leads) - scores.value(task, leads, "ecgfounder")
        for leads in "12"
        for task in scores.tasks
    ]
    yield Claim(
        where="abstract, introduction",
        says="average gain of +3.2 with one and two leads",
        found=(
            f"over the best other model {signed(fmean(one))} at L = 1 and {signed(fmean(two))} "
            f"at L = 2, {signed(fmean(one + two), 2)} of both together; over ECGFounder alone "
            f"{signed(fmean(founder), 2)}"
        ),
        agrees="no",
    )
    for leads, said in (("1", {"hefei": 0.106}), ("2", {"ptbxl_super": 0.042, "hefei": 0.035})):
        gains = scores.gains(leads)
        top = sorted(gains, key=lambda task: -gains[task])[: len(said)]
        listed = [f"{TASKS[t]} {signed(g)}" for t, g in gains.items() if g >= min(said.values())]
        listed.sort(key=lambda text: -float(text.rpartition("+")[2]))
        figures = all(gains[task] == value for task, value in said.items())
        yield Claim(
            where="results",
            says="largest gains at L = {}: {}".format(
                leads, ", ".join(f"{TASKS[t]} {signed(g)}" for t, g in said.items())
            ),
            found=", ".join(listed),
            agrees="no" if not figures else "yes" if top == list(said) else "in part",
        )


def _top_three(scores: Scores) -> Claim:
    coloured = [task for task in scores.tasks if scores.rows[task, "12", OURS].rank]
    return Claim(
        where="results",
        says="at 12 leads LAEF is among the top three on most tasks",
        found=f"it has a colour on {len(coloured)} of {len(scores.tasks)}",
        agrees="yes" if 2 * len(coloured) > len(scores.tasks) else "no",
    )


def _exception(scores: Scores) -> Claim:
    behind = {
        leads: [TASKS[task] for task, gain in scores.gains(leads).items() if gain < 0]
        for leads in "12"
    }
    said = {"1": ["EchoNext"], "2": ["EchoNext"]}
    return Claim(
        where="results",
        says="EchoNext is the one exception, second at L = 1 and at L = 2",
        found="; ".join(f"L = {leads}: behind on {', '.join(t)}" for leads, t in behind.items()),
        agrees="yes" if behind == said else "in part" if behind["1"] == said["1"] else "no",
    )


def _tables(scores: Scores) -> Iterator[Claim]:
    """Table 1 beside the extended table."""
    apart: dict[tuple[str, str], list[str]] = {}
    for row in main():
        other = scores.rows[row.task, row.leads, row.model]
        if other.value != row.value:
            apart.setdefault((row.task, row.leads), []).append(
                f"{MODELS[row.model]} {pts(row.value)} and {pts(other.value)}"
            )
    for (task, leads), cells in apart.items():
        yield Claim(
            where="Table 1 and the extended table",
            says=f"both print {TASKS[task]} at L = {leads}",
            found=f"they differ: {', '.join(cells)}",
            agrees="no",
        )
    kept = {row.model for row in main()}
    out = [
        f"{MODELS[row.model]} is number {row.rank} on {TASKS[row.task]} at L = {row.leads}"
        for row in scores.rows.values()
        if row.rank and row.leads in ("1", "2") and row.model not in kept
    ]
    yield Claim(
        where="Table 1, caption",
        says="it shows the models with a top place at one or two leads",
        found=f"left out: {'; '.join(out)}" if out else "none is left out",
        agrees="no" if out else "yes",
    )


def _colours(scores: Scores) -> Claim:
    cells = recoloured(scores.rows)
    rows = dict.fromkeys(f"{TASKS[task]} at L = {leads}" for task, leads, _ in cells)
    return Claim(
        where="extended table",
        says="red, blue and green are the three best of a row",
        found=(
            f"the printed decimals give all colours but {len(cells)} of {len(scores.rows)} cells "
            f"({', '.join(rows)}): ties that unrounded values break"
        ),
        agrees="yes",
    )


def _columns(scores: Scores) -> Claim:
    over = [
        f"{MODELS[model]} {pts(mean, 0)} (L = {leads})"
        for (model, leads), mean in impossible(scores.rows).items()
    ]
    return Claim(
        where="extended table, dagger",
        says="PTB-XL Diag, Form and Rhythm are subsets of the labels of All",
        found=(
            f"71 All = 44 Diag + 19 Form + 12 Rhythm − 4 shared codes would ask of the shared four "
            f"a mean AUROC × 100 of: {', '.join(over)}; above 100 is not possible, so these means "
            f"are not of columns of the same predictions"
        ),
        agrees="no" if over else "yes",
    )


def _of_the_benchmark(scores: Scores) -> Iterator[Claim]:
    theirs = {(r.task, r.model): r.value for r in printed(FMB) if r.trained == "finetune"}
    apart = {
        (task, model): scores.value(task, "12", model) - theirs[task, model]
        for task in scores.tasks
        for model in MODELS
        if (task, model) in theirs
    }
    same = [cell for cell, d in apart.items() if abs(d) <= HALF + 1e-9]
    ptb = sum(task == "ptb" for task, _ in same)
    yield Claim(
        where="experimental setup, extended table",
        says="fine-tuned as in the reference benchmark",
        found=(
            f"at 12 leads {len(same)} of {len(apart)} scores of its seven models are that "
            f"benchmark's fine-tuned scores to the printed place; the others lie "
            f"{signed(min(apart.values()))} to {signed(max(apart.values()))} from them"
        ),
        agrees="in part",
    )
    yield Claim(
        where="table of datasets, extended table",
        says="PTB has 22 targets",
        found=(
            f"{ptb} of 7 of its scores at 12 leads are those of the reference benchmark, whose "
            f"code has {source(FMB).labels['ptb']}"
        ),
        agrees="open",
    )


def _panels(scores: Scores) -> Claim:
    trained = len([task for task in scores.tasks if task not in EVALUATED_ONLY])
    return Claim(
        where="supplement, CKA",
        says="across 15 datasets",
        found=f"{trained} of the {len(scores.tasks)} tasks have a fit of their own",
        agrees="no" if trained != 15 else "yes",
    )


def _averages(single: Scores) -> Iterator[Claim]:
    for leads in ("I", "II"):
        off = [
            f"{title} {pts(mean)} (printed {pts(said)})"
            for model, title in MODELS.items()
            if pts(mean := single.mean(leads, model))
            != pts(said := single.value(AVERAGE, leads, model))
        ]
        yield Claim(
            where="table of leads I and II, last rows",
            says=f"averages over 18 tasks at lead {leads}",
            found=f"from the rows: {', '.join(off)}; the others as printed",
            agrees="in part" if off else "yes",
        )


def _margins(single: Scores) -> Iterator[Claim]:
    for leads, said in (("I", 0.002), ("II", 0.007)):
        gap = single.mean(leads) - single.mean(leads, "ecgjepa")
        averages = single.value(AVERAGE, leads) - single.value(AVERAGE, leads, "ecgjepa")
        yield Claim(
            where="supplement, leads I and II",
            says=f"{signed(said)} over ECG-JEPA at lead {leads}",
            found=f"the rows give {signed(gap, 2)}, the printed averages {signed(averages)}",
            agrees="yes" if signed(gap) == signed(said) else "no",
        )
    behind = [
        single.mean(leads) - single.mean(leads, model)
        for leads in ("I", "II")
        for model in MODELS
        if model not in (OURS, "ecgjepa")
    ]
    yield Claim(
        where="supplement, leads I and II",
        says="all others trail by at least 8 points at either lead",
        found=f"by {pts(min(behind))} or more",
        agrees="yes" if min(behind) >= 0.08 else "no",
    )
    firsts = [sum(gain > 0 for gain in single.gains(leads).values()) for leads in ("I", "II")]
    yield Claim(
        where="supplement, leads I and II",
        says="LAEF is first on 11 of 18 at lead I and 10 of 18 at lead II",
        found=f"{firsts[0]} and {firsts[1]}",
        agrees="yes" if firsts == [11, 10] else "no",
    )


def _both_protocols(scores: Scores, single: Scores) -> Claim:
    places = ((scores, "1"), (scores, "2"), (single, "I"), (single, "II"))
    tops = [max(MODELS, key=lambda m: table.mean(leads, m)) for table, leads in places]
    return Claim(
        where="supplement, leads I and II",
        says="LAEF alone is first on average under both protocols",
        found=f"highest mean at L = 1, L = 2, I and II: {', '.join(MODELS[m] for m in tops)}",
        agrees="yes" if set(tops) == {OURS} else "no",
    )


def _random(scores: Scores, single: Scores) -> Claim:
    apart = {
        model: scores.mean("1", model) - fmean(single.mean(leads, model) for leads in ("I", "II"))
        for model in MODELS
    }
    listed = [
        f"{MODELS[m]} {signed(apart[m])} ({_WINDOWS[m]})"
        for m in sorted(MODELS, key=lambda m: -apart[m])
    ]
    return Claim(
        where="extended table and table of leads I and II",
        says="one random lead, and lead I or II, shown to the same fits",
        found=(
            f"mean over 18 tasks, random less the mean of I and II (windows averaged per record): "
            f"{', '.join(listed)}. A lead drawn anew for each window would produce such an order; "
            f"the tables do not say"
        ),
        agrees="open",
    )
