"""Confirmatory results: the hypotheses of a plan that was frozen before the test records were
scored, each with estimate, interval, p and verdict. Nothing of a run without such a plan.

A difference is of the same patients (`results.joint`), turned where lower values are better, so
that more is better. Superiority is shown where p after Holm in its family lies below alpha and the
difference above 0; non-inferiority where the difference plus the margin does, which at alpha 0.05
without correction is the rule that the whole 95 % interval lies above minus the margin. The guards
of `non_inferiority` hold here too.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from ecgbench.reports._facts import Head, heads_of, setting_words, titles_of, untrained_marks
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
    head: Head | None
    against: Head | None
    estimate: Estimate | None
    patients: int | None
    why: str
    """Why it was not tested; "" where it was."""
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
    rows = list(_rows(kept, tested))
    parts: list[Part] = [Notes(_sentences(study, tested, rows), "plain")]
    parts += [_table(study, tested, rows), Facts(_facts(kept)), Notes(_notes())]
    title = f"Planned: {kept.plan.title}" if kept.plan.title else CARD.title
    return [Section(name="confirmatory", title=title, short=CARD.title, parts=parts)]


def _tested(study: Study, h: Hypothesis) -> _Tested:
    heads = heads_of(study)
    head, against = (
        _head(heads, model, policy)
        for model, policy in ((h.model, h.policy), (h.against_model, h.against_policy))
    )
    nothing: dict[str, Any] = {"hypothesis": h, "head": head, "against": against}
    nothing |= {"estimate": None, "patients": None}
    if head is None or against is None:
        lost = h.model if head is None else h.against_model
        return _Tested(**nothing, why=f"{UNTESTED}{lost} has no row in this run")
    if h.metric not in study.metrics:
        return _Tested(**nothing, why=f"{UNTESTED}the report was made without {h.metric}")
    of = study.of(h.metric)
    entries = [Entry(*head.names, h.leads), Entry(*against.names, h.against_leads)]
    missing = lacking(of, entries, h.tasks)
    if missing or study.scorer is None:
        task, why = next(iter(missing.items()), ("", "the run cannot be read"))
        return _Tested(**nothing, why=f"{UNTESTED}{task}: {why}".replace(": : ", ": "))
    together = joint(of, entries, h.tasks, paired=study.options.paired)
    sign = 1 if study.metrics[h.metric].direction == "higher" else -1
    weights = sign * together.less(*entries)
    estimate = together.contrast(weights)
    nothing |= {"estimate": estimate, "patients": together.least_patients}
    ranked = h.kind == NON_INFERIORITY and study.metrics[h.metric].direction == "higher"
    return _Tested(
        **nothing,
        why=_why(study, h, (head, against), together, estimate),
        lost=lost_label(together, weights) if ranked else "",
    )


def _why(
    study: Study,
    h: Hypothesis,
    heads: tuple[Head, Head],
    together: Joint,
    estimate: Estimate,
) -> str:
    """Why there is no verdict; "" where there is one."""
    if untrained := [head.label for head in heads if head.untrained]:
        return f"{UNTESTED}{untrained[0]} is untrained"
    if together.least_patients < LEAST_PATIENTS:
        return f"{UNTESTED}{together.least_patients} test patients, fewer than {LEAST_PATIENTS}"
    name = together.named(estimate)
    if why := weak(estimate.df, estimate.share if name else np.nan, name):
        return why
    if not np.isfinite(estimate.p):
        return f"{UNTESTED}no standard error"
    if h.kind != NON_INFERIORITY or h.margin is None:
        return ""
    card = study.metrics[h.metric]
    second = np.array([0.0, 1.0])
    chance = card.chance or 0.0
    low = together.contrast(second).as_share().low if card.chance is not None else np.nan
    if no_verdict(low - chance, h.margin):
        return f"{UNTESTED}what it is compared with is not clearly above chance"
    return ""


def _head(heads: Mapping[tuple[str, str], Head], model: str, policy: str) -> Head | None:
    mine = [h for h in heads.values() if h.model == model and policy in ("", h.policy)]
    return mine[0] if len(mine) == 1 or (mine and policy) else None


def _rows(kept: Kept, tested: Sequence[_Tested]) -> Iterator[dict[str, Any]]:
    """A row each, in the order of the plan."""
    corrected: dict[str, float] = {}
    for family in dict.fromkeys(t.hypothesis.family for t in tested):
        own = [t for t in tested if t.hypothesis.family == family]
        names = [t.hypothesis.name for t in own]
        corrected |= dict(zip(names, map(float, holm([t.p for t in own]))))
    for t in tested:
        h, e = t.hypothesis, t.estimate
        bounds = e.as_difference() if e else None
        p_holm = None if t.why else corrected[h.name]
        yield asdict(h) | {
            "tasks": "+".join(h.tasks),
            "policy": t.head.policy if t.head else h.policy,
            "against_policy": t.against.policy if t.against else h.against_policy,
            "difference": _known(e.value) if e else None,
            "low": _known(bounds.low) if bounds else None,
            "high": _known(bounds.high) if bounds else None,
            "se": _known(e.se) if e else None,
            "df": _known(e.df) if e else None,
            "n_patients": t.patients,
            "p": None if t.why else t.p,
            "p_holm": p_holm,
            "alpha": kept.plan.alpha,
            "verdict": t.why or _verdict(t, p_holm, kept.plan.alpha),
        }


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _verdict(t: _Tested, p_holm: float | None, alpha: float) -> str:
    if p_holm is None or t.estimate is None or not p_holm < alpha:
        return NOT_SHOWN
    above = t.estimate.value + (t.hypothesis.margin or 0.0)
    if above > 0 and t.lost:
        return f"{NOT_SHOWN}: the label {t.lost} has surely lost much"
    return SHOWN if above > 0 else OPPOSITE


def _table(study: Study, tested: Sequence[_Tested], rows: Sequence[Row]) -> Table:
    titles = titles_of(study)
    shown: list[Row] = [
        {
            "family": row["family"],
            "name": row["name"],
            "what": _what(study, t, titles),
            "difference": Cell(
                signed(row["difference"]),
                "".join({h.mark for h in (t.head, t.against) if h}),
                signed_bracket(row["low"], row["high"]),
            ),
            "margin": row["margin"],
            "p": row["p"],
            "p_holm": row["p_holm"],
            "verdict": row["verdict"],
        }
        for t, row in zip(tested, rows)
    ]
    columns = [
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
        columns=[c for c in columns if any(r[c.name] is not None for r in shown)],
        rows=shown,
        marks=untrained_marks([h for t in tested for h in (t.head, t.against) if h]),
        numbers=Numbers(columns=list(rows[0]), rows=rows, summary="one row per frozen hypothesis"),
    )


def _what(study: Study, t: _Tested, titles: Mapping[str, str]) -> str:
    h = t.hypothesis
    first, second = (
        head.label if head else name
        for head, name in ((t.head, h.model), (t.against, h.against_model))
    )
    card = study.metrics.get(h.metric)
    metric = f"macro {card.title}" if card else h.metric
    on = enumerated([titles.get(task, task) for task in h.tasks])
    return (
        f"{first} with {setting_words(h.leads)} less {second} with "
        f"{setting_words(h.against_leads)}, {metric} on {on}"
    )


def _sentences(study: Study, tested: Sequence[_Tested], rows: Sequence[Row]) -> list[str]:
    """What a reader takes away."""
    said = list(frozen.warnings(study.path))
    by = {word: sum(row["verdict"] == word for row in rows) for word in (SHOWN, OPPOSITE)}
    without = sum(bool(t.why) for t in tested)
    said.append(
        f"Of {counted(len(rows), 'planned comparison')}: {by[SHOWN]} shown"
        + (f", {by[OPPOSITE]} with the opposite shown" if by[OPPOSITE] else "")
        + f", {len(rows) - sum(by.values()) - without} not shown, {without} without a test. Not "
        f"shown does not mean that there is no difference."
    )
    if synthetic := [d.title for d in study.datasets if d.synthetic]:
        said.append(
            f"{enumerated(synthetic)}: synthetic data; this shows how the harness works, and "
            f"nothing about a model or a patient."
        )
    return said


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
