"""Confirmatory results: the hypotheses of a plan that was frozen before the test records were
scored, each with estimate, interval, p and verdict. Nothing of a run without such a plan.

A difference is of the same patients (`results.joint`), turned where lower values are better, so
that more is better. Superiority is shown where p after Holm in its family lies below alpha and the
difference above 0; non-inferiority where the difference plus the margin does, which at alpha 0.05
without correction is the rule that the whole 95 % interval lies above minus the margin. The guards
of `non_inferiority` hold here too.
"""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from ecgbench import reports as r
from ecgbench.core.text import counted, enumerated
from ecgbench.reports import _facts as facts
from ecgbench.results.compare import UNTESTED as NO
from ecgbench.results.compare import few, weak
from ecgbench.results.joint import Entry, Joint, joint, why_missing
from ecgbench.results.non_inferiority import estimated, lost_label, no_verdict
from ecgbench.results.study import Run
from ecgbench.stats.components import Estimate
from ecgbench.stats.paired import holm
from ecgbench.study import frozen
from ecgbench.study.frozen import NON_INFERIORITY, FrozenFile, Hypothesis

CARD = r.ReportCard(
    title="Planned hypotheses",
    summary="the hypotheses of a frozen plan, each with its verdict",
    reads="run",
    order=-1,
    exploratory=False,
)
SHOWN, OPPOSITE, NOT_SHOWN = "shown", "the opposite was shown", "not shown"


def rows(study: Run) -> pd.DataFrame:
    """Of each hypothesis, in the order of the plan; none where no plan was frozen."""
    kept = frozen.read(study.path)
    return pd.DataFrame() if kept is None else _rows(study, kept)


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """One section, where a plan was frozen."""
    kept = frozen.read(study.path)
    if kept is None:
        return []
    parts: list[r.Part] = [r.Notes(_sentences(study, rows), "plain"), _table(study, rows)]
    parts += [r.Facts(_facts(kept)), r.Notes(_NOTES)]
    title = f"Planned: {kept.plan.title}" if kept.plan.title else CARD.title
    return [r.Section(name="confirmatory", title=title, short=CARD.title, parts=parts)]


def _rows(study: Run, kept: FrozenFile) -> pd.DataFrame:
    """A row per hypothesis, in the order of the plan."""
    rows = [_row(study, h) for h in kept.plan.hypotheses]
    for family in dict.fromkeys(row["family"] for row in rows):
        own = [row for row in rows if row["family"] == family]
        # what is not tested counts as 1, so that the family stays as planned
        for row, p in zip(own, holm([1.0 if row["p"] is None else row["p"] for row in own])):
            row["p_holm"] = None if row["verdict"] else float(p)
    for row in rows:
        row["alpha"] = kept.plan.alpha
        lost = row.pop("lost")
        row["verdict"] = row.pop("verdict") or _verdict(row, lost)
    return pd.DataFrame(rows, dtype=object)


def _row(study: Run, h: Hypothesis) -> dict[str, Any]:
    """Without what its family says of it; `verdict`: why it is not tested, or ""."""
    first, second = _head(study, h.model, h.policy), _head(study, h.against_model, h.against_policy)
    row = asdict(h) | {"tasks": "+".join(h.tasks), **estimated(None)}
    row |= {"n_patients": None, "verdict": "", "lost": ""}
    if first is None or second is None:
        lost = h.model if first is None else h.against_model
        return row | {"verdict": f"{NO}{lost} has no row in this run"}
    row |= {"policy": first.policy, "against_policy": second.policy}
    if h.metric not in study.metrics:
        return row | {"verdict": f"{NO}the report was made without {h.metric}"}
    of = study.of(h.metric)
    entries = [Entry(*first.names, h.leads), Entry(*second.names, h.against_leads)]
    missing = why_missing(of, entries, h.tasks)
    if missing or study.scorer is None:
        why = next((f"{task}: {why}" for task, why in missing.items()), "the run cannot be read")
        return row | {"verdict": f"{NO}{why}"}
    together = joint(of, entries, h.tasks, paired=study.options.paired)
    higher = study.metrics[h.metric].direction == "higher"
    weights = (1 if higher else -1) * together.less(*entries)
    e = together.contrast(weights)
    untrained = [head.label for head in (first, second) if head.untrained]
    why = f"{NO}{untrained[0]} is untrained" if untrained else _why(study, h, together, e)
    row |= estimated(e) | {"n_patients": together.least_patients, "verdict": why}
    row["p"] = None if why else _p(h, e)
    if h.kind == NON_INFERIORITY and higher:
        row["lost"] = lost_label(together, weights)
    return row


def _head(study: Run, model: str, policy: str) -> facts.Head | None:
    mine = [h for h in facts.columns(study) if h.model == model and policy in ("", h.policy)]
    return mine[0] if len(mine) == 1 or (mine and policy) else None


def _why(study: Run, h: Hypothesis, together: Joint, e: Estimate) -> str:
    """Why there is no verdict; "" where there is one."""
    name = together.named(e)
    if why := few(together.least_patients) or weak(e.df, e.share if name else np.nan, name):
        return why
    if not np.isfinite(e.p):
        return f"{NO}no standard error"
    if h.kind != NON_INFERIORITY or h.margin is None:
        return ""
    chance = study.metrics[h.metric].chance
    low = np.nan if chance is None else together.contrast([0.0, 1.0]).as_share().low - chance
    if no_verdict(low, h.margin):
        return f"{NO}what it is compared with is not clearly above chance"
    return ""


def _p(h: Hypothesis, e: Estimate) -> float:
    """Of its own test."""
    if h.margin is None:
        return e.p
    above = e.shifted(h.margin)
    return above.p if above.value > 0 else 1.0


def _verdict(row: r.Row, lost: str) -> str:
    if not row["p_holm"] < row["alpha"]:
        return NOT_SHOWN
    above = row["difference"] + (row["margin"] or 0.0)
    if above > 0 and lost:
        return f"{NOT_SHOWN}: the label {lost} has surely lost much"
    return SHOWN if above > 0 else OPPOSITE


def _table(study: Run, rows: pd.DataFrame) -> r.Table:
    heads, titles = facts.heads_of(study), facts.titles_of(study)

    def side(row: r.Row, before: str) -> str:
        model, leads = row[f"{before}model"], facts.setting_words(row[f"{before}leads"])
        head = heads.get((model, row[f"{before}policy"]))
        return f"{head.label if head else model} with {leads}"

    def difference(row: r.Row) -> r.TableCell | str:
        sides = [(row[f"{of}model"], row[f"{of}policy"]) for of in ("", "against_")]
        marks = dict.fromkeys(heads[side].mark for side in sides if side in heads)
        cell = r.difference_cell(row)
        return replace(cell, mark="".join(marks)) if cell else ""

    def compared(row: r.Row) -> str:
        card = study.metrics.get(row["metric"])
        metric = f"macro {card.title}" if card else row["metric"]
        on = enumerated([titles.get(task, task) for task in row["tasks"].split("+")])
        return f"{side(row, '')} less {side(row, 'against_')}, {metric} on {on}"

    return r.Table(
        name="confirmatory",
        caption="Every hypothesis of the frozen plan; none is left out.",
        columns=[
            r.Column("family", kind="group"),
            r.Column("name"),
            r.Column("tasks", cell=compared),
            r.Column("difference", kind="number", note="points, 95 % interval", cell=difference),
            r.Column("margin", kind="number", spell=r.points, note="points"),
            r.Column("p", kind="number", spell=r.p_value),
            r.Column("p_holm", kind="number", spell=r.p_value, note="in its family"),
            r.Column("verdict"),
        ],
        rows=rows,
        summary="one row per frozen hypothesis",
    )


def _sentences(study: Run, rows: pd.DataFrame) -> list[str]:
    """What a reader takes away."""
    verdicts = rows["verdict"]
    counts = {SHOWN: int((verdicts == SHOWN).sum())}
    counts |= {"with the opposite shown": int((verdicts == OPPOSITE).sum())}
    counts |= {NOT_SHOWN: int(verdicts.str.startswith(NOT_SHOWN).sum())}
    counts |= {"without a test": int(rows["p_holm"].isna().sum())}
    texts = [
        *map(str, frozen.warnings(study.path)),
        f"Of {counted(len(rows), 'planned comparison')}: "
        f"{', '.join(f'{n} {word}' for word, n in counts.items())}. Not shown does not mean that "
        f"there is no difference.",
    ]
    if synthetic := [d.title for d in study.datasets if d.synthetic]:
        texts.append(
            f"{enumerated(synthetic)}: synthetic data; this shows how the harness works, and "
            f"nothing about a model or a patient."
        )
    return texts


def _facts(kept: FrozenFile) -> dict[str, Any]:
    plan = kept.plan
    commit = (plan.commit or "not known") + (" with uncommitted changes" if plan.dirty else "")
    return {
        "frozen on": plan.date.replace("T", " ").replace("Z", " UTC"),
        "sha256": r.Code(kept.stated),
        "the file has this hash": "yes" if kept.intact else "NO",
        "alpha": f"{plan.alpha:g}, two-sided, in each family after Holm",
        "by": f"ecgbench {plan.version}, commit {commit}",
    }


_NOTES = (
    "The date is that of the clock of one machine and proves little. Compare the hash with the "
    "one that was registered elsewhere.",
    "A p for non-inferiority is twice the one-sided p that the difference lies above minus the "
    "margin. A hypothesis without a test counts with p = 1 in its family. Intervals are not "
    "corrected.",
)
