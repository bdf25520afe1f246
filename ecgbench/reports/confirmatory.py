"""Confirmatory results: the hypotheses of a plan that was frozen before the test records were
scored, each with estimate, interval, p and verdict. Nothing of a run without such a plan.

A difference is of the same patients (`results.joint`), turned where lower values are better, so
that more is better. Superiority is shown where p after Holm in its family lies below alpha and the
difference above 0; non-inferiority where the difference plus the margin does, which at alpha 0.05
without correction is the rule that the whole 95 % interval lies above minus the margin. The guards
of `non_inferiority` hold here too.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ecgbench.core.text import counted, enumerated
from ecgbench.reports import (
    Cell,
    Code,
    Column,
    Facts,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    p_value,
    points,
    signed,
    signed_bracket,
)
from ecgbench.reports._facts import Head, columns, setting_words, titles_of, untrained_marks
from ecgbench.reports._means import estimated
from ecgbench.reports.non_inferiority import lost_label, no_verdict
from ecgbench.results.compare import LEAST_PATIENTS, UNTESTED, weak
from ecgbench.results.joint import Entry, Joint, joint, lacking
from ecgbench.results.study import Study
from ecgbench.stats.components import Estimate
from ecgbench.stats.paired import holm
from ecgbench.study import frozen
from ecgbench.study.frozen import NON_INFERIORITY, Hypothesis, Kept

CARD = ReportCard(
    title="Planned hypotheses",
    summary="the hypotheses of a frozen plan, each with its verdict",
    reads="run",
    order=-1,
    exploratory=False,
)
SHOWN, OPPOSITE, NOT_SHOWN = "shown", "the opposite was shown", "not shown"


@dataclass(frozen=True, kw_only=True)
class _Tested:
    """What became of a hypothesis."""

    hypothesis: Hypothesis
    heads: tuple[Head | None, Head | None]
    """Of the two sides; None where the run has no such row."""
    why: str
    """Why it was not tested; "" where it was."""
    estimate: Estimate | None = None
    patients: int | None = None
    lost: str = ""
    """The label that has surely lost much, which cancels a non-inferiority."""

    @property
    def p(self) -> float:
        """Of its own test; 1 where it was not tested, so that its family stays as planned."""
        if self.why or self.estimate is None:
            return 1.0
        margin = self.hypothesis.margin
        if margin is None:
            return self.estimate.p
        above = self.estimate.shifted(margin)
        return above.p if above.value > 0 else 1.0


def sections(study: Study) -> list[Section]:
    """One section, where a plan was frozen."""
    kept = frozen.read(study.path)
    if kept is None:
        return []
    tested = [_tested(study, h) for h in kept.plan.hypotheses]
    rows = _rows(kept, tested)
    parts: list[Part] = [Notes(_sentences(study, tested, rows), "plain")]
    parts += [_table(study, tested, rows), Facts(_facts(kept)), Notes(_notes())]
    title = f"Planned: {kept.plan.title}" if kept.plan.title else CARD.title
    return [Section(name="confirmatory", title=title, short=CARD.title, parts=parts)]


def _tested(study: Study, h: Hypothesis) -> _Tested:
    first, second = _head(study, h.model, h.policy), _head(study, h.against_model, h.against_policy)
    heads = first, second
    if first is None or second is None:
        lost = h.model if first is None else h.against_model
        return _Tested(hypothesis=h, heads=heads, why=f"{UNTESTED}{lost} has no row in this run")
    if h.metric not in study.metrics:
        why = f"{UNTESTED}the report was made without {h.metric}"
        return _Tested(hypothesis=h, heads=heads, why=why)
    of = study.of(h.metric)
    entries = [Entry(*first.names, h.leads), Entry(*second.names, h.against_leads)]
    missing = lacking(of, entries, h.tasks)
    if missing or study.scorer is None:
        why = "; ".join(f"{t}: {w}" for t, w in list(missing.items())[:1])
        why = why or "the run cannot be read"
        return _Tested(hypothesis=h, heads=heads, why=f"{UNTESTED}{why}")
    together = joint(of, entries, h.tasks, paired=study.options.paired)
    higher = study.metrics[h.metric].direction == "higher"
    weights = (1 if higher else -1) * together.less(*entries)
    estimate = together.contrast(weights)
    untrained = [head.label for head in (first, second) if head.untrained]
    return _Tested(
        hypothesis=h,
        heads=heads,
        why=f"{UNTESTED}{untrained[0]} is untrained"
        if untrained
        else _why(study, h, together, estimate),
        estimate=estimate,
        patients=together.least_patients,
        lost=lost_label(together, weights) if h.kind == NON_INFERIORITY and higher else "",
    )


def _why(study: Study, h: Hypothesis, together: Joint, estimate: Estimate) -> str:
    """Why there is no verdict; "" where there is one."""
    if together.least_patients < LEAST_PATIENTS:
        return f"{UNTESTED}{together.least_patients} test patients, fewer than {LEAST_PATIENTS}"
    name = together.named(estimate)
    if why := weak(estimate.df, estimate.share if name else np.nan, name):
        return why
    if not np.isfinite(estimate.p):
        return f"{UNTESTED}no standard error"
    if h.kind != NON_INFERIORITY or h.margin is None:
        return ""
    chance = study.metrics[h.metric].chance
    low = np.nan if chance is None else together.contrast([0.0, 1.0]).as_share().low - chance
    if no_verdict(low, h.margin):
        return f"{UNTESTED}what it is compared with is not clearly above chance"
    return ""


def _head(study: Study, model: str, policy: str) -> Head | None:
    mine = [h for h in columns(study) if h.model == model and policy in ("", h.policy)]
    return mine[0] if len(mine) == 1 or (mine and policy) else None


def _rows(kept: Kept, tested: Sequence[_Tested]) -> list[dict[str, Any]]:
    """A row each, in the order of the plan."""
    corrected: dict[str, float] = {}
    for family in dict.fromkeys(t.hypothesis.family for t in tested):
        own = [t for t in tested if t.hypothesis.family == family]
        names = [t.hypothesis.name for t in own]
        corrected |= dict(zip(names, map(float, holm([t.p for t in own]))))
    rows = []
    for t in tested:
        h, (first, second) = t.hypothesis, t.heads
        p_holm = None if t.why else corrected[h.name]
        rows.append(
            asdict(h)
            | {
                "tasks": "+".join(h.tasks),
                "policy": first.policy if first else h.policy,
                "against_policy": second.policy if second else h.against_policy,
                **estimated(t.estimate),
                "n_patients": t.patients,
                "p": None if t.why else t.p,
                "p_holm": p_holm,
                "alpha": kept.plan.alpha,
                "verdict": t.why or _verdict(t, p_holm, kept.plan.alpha),
            }
        )
    return rows


def _verdict(t: _Tested, p_holm: float | None, alpha: float) -> str:
    if p_holm is None or t.estimate is None or not p_holm < alpha:
        return NOT_SHOWN
    above = t.estimate.value + (t.hypothesis.margin or 0.0)
    if above > 0 and t.lost:
        return f"{NOT_SHOWN}: the label {t.lost} has surely lost much"
    return SHOWN if above > 0 else OPPOSITE


def _table(study: Study, tested: Sequence[_Tested], rows: Sequence[Row]) -> Table:
    heads = [head for t in tested for head in t.heads if head]
    shown: list[Row] = [
        {
            **row,
            "what": _what(study, t),
            "difference": Cell(
                signed(row["difference"]),
                "".join({head.mark for head in t.heads if head}),
                signed_bracket(row["low"], row["high"]),
            ),
        }
        for t, row in zip(tested, rows)
    ]
    listed = [
        Column("family", "Family", "group"),
        Column("name", "Hypothesis"),
        Column("what", "Compared"),
        Column("difference", "Difference", "number", note="points, 95 % interval"),
        Column("margin", "Margin", "number", points, note="points"),
        Column("p", "p", "number", p_value),
        Column("p_holm", "p, Holm", "number", p_value, note="in its family"),
        Column("verdict", "Verdict"),
    ]
    return Table(
        name="confirmatory",
        caption="Every hypothesis of the frozen plan; none is left out.",
        columns=[c for c in listed if any(row[c.name] is not None for row in shown)],
        rows=shown,
        marks=untrained_marks(heads),
        numbers=Numbers(columns=list(rows[0]), rows=rows, summary="one row per frozen hypothesis"),
    )


def _what(study: Study, t: _Tested) -> str:
    h, titles, card = t.hypothesis, titles_of(study), study.metrics.get(t.hypothesis.metric)
    named = zip(t.heads, (h.model, h.against_model))
    first, second = (head.label if head else name for head, name in named)
    metric = f"macro {card.title}" if card else h.metric
    return (
        f"{first} with {setting_words(h.leads)} less {second} with "
        f"{setting_words(h.against_leads)}, {metric} on "
        f"{enumerated([titles.get(task, task) for task in h.tasks])}"
    )


def _sentences(study: Study, tested: Sequence[_Tested], rows: Sequence[Row]) -> list[str]:
    """What a reader takes away."""
    texts = list(frozen.warnings(study.path))
    shown, opposite = (sum(r["verdict"] == word for r in rows) for word in (SHOWN, OPPOSITE))
    without = sum(bool(t.why) for t in tested)
    texts.append(
        f"Of {counted(len(rows), 'planned comparison')}: {shown} shown"
        + (f", {opposite} with the opposite shown" if opposite else "")
        + f", {len(rows) - shown - opposite - without} not shown, {without} without a test. Not "
        f"shown does not mean that there is no difference."
    )
    if synthetic := [d.title for d in study.datasets if d.synthetic]:
        texts.append(
            f"{enumerated(synthetic)}: synthetic data; this shows how the harness works, and "
            f"nothing about a model or a patient."
        )
    return texts


def _facts(kept: Kept) -> dict[str, Any]:
    plan = kept.plan
    commit = (plan.commit or "not known") + (" with uncommitted changes" if plan.dirty else "")
    return {
        "frozen on": plan.date.replace("T", " ").replace("Z", " UTC"),
        "sha256": Code(kept.stated),
        "the file has this hash": "yes" if kept.intact else "NO",
        "alpha": f"{plan.alpha:g}, two-sided, in each family after Holm",
        "by": f"ecgbench {plan.version}, commit {commit}",
    }


def _notes() -> list[str]:
    return [
        "The date is that of the clock of one machine and proves little. Compare the hash with the "
        "one that was registered elsewhere.",
        "A p for non-inferiority is twice the one-sided p that the difference lies above minus "
        "the margin, so that p < 0.05 says the same as the 95 % interval. A hypothesis without a "
        "test counts with p = 1 in its family. Intervals are not corrected.",
    ]
