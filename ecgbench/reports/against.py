"""Beside what others printed: our scores and those of the paper that introduced LAEF or of the
reference benchmark (ecgbench/published/), and what differs besides.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ecgbench import published
from ecgbench import reports as r
from ecgbench.cards.cell import RANDOM, RELEASED
from ecgbench.core.text import counted, quoted, shortened
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.evaluate import protocols
from ecgbench.published import METRIC, Printed, Source
from ecgbench.reports import _facts as facts
from ecgbench.results.facts import DatasetFacts, ModelFacts
from ecgbench.results.study import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = r.ReportCard(
    title="Beside printed scores",
    summary="scores beside those of the paper or the reference benchmark, with `--against`",
    reads="run",
    order=45,
    option="--against paper,fmb",
)
UNDEFINED = "undefined label"
_NUMBERS = [
    *("task", "leads", "model", "policy", "run", "protocol", "weights", "status"),
    *("ours", "ours_std", "ours_low", "ours_high"),
    *("theirs", "theirs_trained", "theirs_sd", "theirs_low", "theirs_high"),
    *("difference", "labels", "labels_theirs", "comparable", "differs"),
]
_MEANS = [
    *("model", "policy", "run", "leads", "protocol", "theirs_trained"),
    *("mean_difference", "over"),
]
_NOTES = (
    "A difference is no test: the two sides are other fits, and their predictions are not known. "
    "It is in no mean where anything is known that differs besides.",
    "Own weights: trained by this project, not by the model's authors. Undefined labels have not "
    "both values in our test set: ours leave them out, the reference benchmark counts 0.5. What is "
    "printed as the fine-tuning of ST-MEM trained the head alone.",
)
Known = list[tuple[Any, str]]
"""Whether something differs, and what."""


def rows(study: Run) -> pd.DataFrame:
    """`pairs` of each source of `study.options.against`, of all where it names none, and `source`.
    BadSetting of a study that was read without AUROCs.
    """
    named = study.options.against or published.SOURCES
    each = [(name, published.source(name)) for name in named]
    return pd.concat([pairs(study, other).assign(source=name) for name, other in each])


def sections(study: Run, rows: pd.DataFrame) -> list[r.Section]:
    """One for each source."""
    named = study.options.against or published.SOURCES
    own = {name: rows[rows["source"] == name] for name in named}
    return [_section(study, published.source(name), found) for name, found in own.items()]


def _section(study: Run, other: Source, found: pd.DataFrame) -> r.Section:
    words = other.title.lower()
    folders = [f"Run {at}: {run.path.name}." for at, run in enumerate(study.other_runs, 2)]
    parts: list[r.Part] = [
        r.Notes(
            [
                f"{other.title}: {other.cited}. docs/explanation/differences.md checks its claims.",
                *folders,
            ]
        )
    ]
    if len(found):
        parts += [_table(found, other), _means(found, other), *_figure(found, other)]
    else:
        text = f"The {words} prints no score of these models on these tasks at these leads."
        parts.append(r.Notes([text]))
    title = f"Beside the {words}"
    return r.Section(name=f"against_{other.name}", title=title, short=title, parts=parts)


def pairs(study: Run, other: Source) -> pd.DataFrame:
    """Our scores with the printed ones of the same task, model and leads, of a study and of those
    beside it: by task, leads and model, then by run. _NUMBERS (fractions; ours None where there is
    no number), `head` and `titled` (our column and task), `reasons` (what differs but the number of
    labels).
    """
    if METRIC not in study.metrics:
        raise BadSetting(
            f"--against {other.name}: macro AUROCs are printed there, and this report has "
            f"{', '.join(study.metrics)}; run: ecgbench report {quoted(study.path)} "
            f"--against {other.name} --metrics {METRIC}"
        )
    runs = [study.of(METRIC), *(run.of(METRIC) for run in study.other_runs)]
    rows = [pair for at, run in enumerate(runs, 1) for pair in _of_run(at, run, other)]
    found = pd.DataFrame(rows, columns=[*_NUMBERS, "head", "titled", "reasons"], dtype=object)
    by = ["task", "leads", "model", "policy"]
    return found.sort_values(by, key=lambda column: pd.factorize(column)[0], kind="stable")


def _of_run(at: int, study: Run, other: Source) -> Iterator[dict[str, Any]]:
    heads, titled = facts.heads_of(study), {task.task: task for task in facts.tasks(study)}
    counts = {task.name: (task.n_labels, task.paper) for task in study.tasks}
    protocol = study.provenance.protocol
    for row in r.records(study.main):
        mine, paper = counts.get(row["task"], (row["n_labels"], None))
        labels = other.labels.get(row["task"], paper)
        alike = labels in (None, mine)
        for theirs in _printed(other, row, protocol):
            ours = row["value"] if row["status"] == "ok" else None
            reasons = _differs(study, row, theirs, other)
            every = [*([] if alike else [f"{mine} labels, theirs {labels}"]), *reasons]
            yield {
                **{key: row[key] for key in ("task", "leads", "model", "policy", "weights")},
                "run": at,
                "protocol": protocol,
                "status": row["status"],
                "ours": ours,
                **{f"ours_{e}": None if ours is None else row[e] for e in ("std", "low", "high")},
                "theirs": theirs.value,
                **{f"theirs_{e}": getattr(theirs, e) for e in ("trained", "sd", "low", "high")},
                "difference": None if ours is None else ours - theirs.value,
                "labels": row["n_labels"] if alike else mine,
                "labels_theirs": None if alike else labels,
                "comparable": ours is not None and not every,
                "differs": "; ".join(every),
                "reasons": reasons,
                "head": heads[row["model"], row["policy"]],
                "titled": titled[row["task"]],
            }


def _printed(other: Source, row: r.Row, protocol: str) -> list[Printed]:
    """What is printed of a row's task, model and leads, trained as the protocol does.

    What is called fine-tuning and trained the head alone stands beside every protocol; the paper
    has nothing but fine-tuning.
    """
    frozen = protocols.is_frozen(protocol) and other.name == published.FMB
    wanted = "linear" if frozen else "finetune"
    named = (row["task"], row["model"], row["leads"])
    return [
        score
        for score in published.printed(other.name)
        if (score.task, score.model, score.leads) == named
        and (score.trained == wanted or score.head_only)
    ]


def _differs(study: Run, row: r.Row, theirs: Printed, other: Source) -> list[str]:
    """What is known that differs between a row and a printed score but the number of labels."""
    task = next((task for task in study.tasks if task.name == row["task"]), None)
    data = next((d for d in study.datasets if task and d.name == task.dataset), None)
    model = next((model for model in study.models if model.name == row["model"]), None)
    weights, undefined = model.weights_source if model else {}, row["n_undefined"]
    other_file = row["weights"] not in (RANDOM, RELEASED) and not weights.get("file")
    known: Known = [
        *(_of_data(data) if data else []),
        (task and task.counted is False, "labels not counted on the complete release"),
        (row["weights"] == RANDOM, "random weights"),
        (weights.get("own") and row["weights"] != RANDOM, "own weights"),
        (other_file and not weights.get("own"), f"weights of another file: {row['weights']}"),
        *_of_training(study, row, theirs, other),
        *_of_leads(study, row, model, other),
        (undefined and study.provenance.absent != "half", counted(undefined or 0, UNDEFINED)),
    ]
    return [text for differs, text in known if differs]


def _of_data(data: DatasetFacts) -> Known:
    # what the card leaves out by its rule, the sources leave out too
    left_out, lost = sum(data.left_out.values()), len(data.quarantined)
    there = data.records + sum(data.excluded.values()) + lost + left_out
    limited = data.limit is not None and data.records < data.records_prepared
    size = f"{data.records:,} of {data.records_release:,} records"
    return [
        (limited, f"--limit {data.limit}: {size}"),
        (not limited and there < data.records_release, size),
        (left_out, f"{counted(left_out, 'record')} left out (data.exclude)"),
        (lost, f"{counted(lost, 'unreadable record')} left out"),
        (data.repaired, f"{counted(data.repaired, 'record')} repaired"),
        (data.folds, f"{data.folds} folds, theirs one split"),
        (data.division and not data.folds, f"divided otherwise: {data.division}"),
    ]


def _of_training(study: Run, row: r.Row, theirs: Printed, other: Source) -> Known:
    made, head_only = study.provenance, theirs.head_only
    alone = head_only and not protocols.is_frozen(made.protocol)
    protocol = "linear" if head_only else theirs.trained
    epochs = protocols.uses(made.protocol, "epochs") and made.epochs != other.epochs
    fits = [result.cell.fit for result in study.results if result.cell.fit.model == row["model"]]
    shown = any(fit.shown for fit in fits)
    random = any(fit.policy for fit in fits) and not shown
    return [
        (alone, "theirs the head alone"),
        (made.protocol != protocol and not alone, "another protocol"),
        (epochs, f"{counted(made.epochs, 'epoch')}, theirs {other.epochs}"),
        (shown, "trained at the leads that are tested, theirs at twelve"),
        (random, "trained at random leads, theirs at twelve"),
    ]


def _of_leads(study: Run, row: r.Row, model: ModelFacts | None, other: Source) -> Known:
    made, contract = study.provenance, model.contract if model else {}
    fewer = row["n_leads"] < len(LEADS)
    drawn = fewer and not row["named"]
    policy, draws = contract.get("policy", row["policy"]), len(made.seeds)
    other_draws = drawn and other.draws and draws != other.draws
    return [
        (made.contract != "paper", f"contract {made.contract}"),
        (fewer and row["policy"] != policy, f"policy {row['policy']}, theirs {policy}"),
        (drawn and made.draw != "record", "leads drawn in every window"),
        (other_draws, f"{counted(draws, 'draw')} of leads, theirs {other.draws}"),
    ]


def _trained(row: r.Row) -> r.TableCell:
    run = f"run {row['run']}" if row["run"] > 1 else ""
    return r.TableCell(f"{row['protocol']} / {row['theirs_trained']}", small=run)


def _spread(row: r.Row, side: str, sd: str) -> str:
    """Behind a score: its standard deviation over draws of leads, or its interval."""
    ends = r.bracket(row[f"{side}_low"], row[f"{side}_high"])
    return ends if row[sd] is None else f"({r.points(row[sd])})"


def _table(found: pd.DataFrame, other: Source) -> r.Table:
    def task(row: r.Row) -> r.TableCell:
        of = row["titled"]
        only = of.evaluation_only or of.task in published.EVALUATED_ONLY
        return r.TableCell(of.title, "†" if only else "")

    def ours(row: r.Row) -> r.TableCell:
        if row["ours"] is None:
            return r.TableCell(row["status"])
        spread = _spread(row, "ours", "ours_std")
        return r.TableCell(r.points(row["ours"]), row["head"].mark, spread)

    def theirs(row: r.Row) -> r.TableCell:
        return r.TableCell(r.points(row["theirs"]), small=_spread(row, "theirs", "theirs_sd"))

    return r.Table(
        name=f"against_{other.name}",
        caption=f"Macro AUROC × 100 beside the {other.title.lower()}.",
        columns=[
            r.Column("task", kind="group", cell=task),
            r.Column("leads"),
            r.Column("model", cell=lambda row: row["head"].cell),
            r.Column("protocol", note="ours / theirs", cell=_trained),
            r.Column("ours", kind="number", cell=ours),
            r.Column("theirs", other.title, "number", cell=theirs),
            r.Column("difference", kind="number", spell=r.signed),
            r.Column("differs", cell=lambda row: row["differs"] or "nothing known"),
        ],
        rows=found,
        numbers=found[_NUMBERS],
        notes=_NOTES,
        summary=f"one row per score of ours and of the {other.title.lower()}",
    )


def mean_differences(found: pd.DataFrame) -> pd.DataFrame:
    """For each column and lead setting the mean difference (fraction) over all tasks of the study
    whose number of labels is theirs, and `over`: how many those are, or why there is no mean.

    A mean stands only where every such task has a difference and nothing else differs.
    """
    made, alike = [], found["labels_theirs"].isna()
    names = ["run", "model", "policy", "leads", "theirs_trained"]
    for _, group in found.groupby(names, sort=False):
        first, mine = group.iloc[0].to_dict(), group[alike[group.index]]
        wanted = found["task"][alike & (found["leads"] == first["leads"])].nunique()
        reasons = [f"{UNDEFINED}s" if UNDEFINED in x else x for row in mine["reasons"] for x in row]
        lost = mine[mine["ours"].isna()]
        why = reasons + [
            f"{task.title}: {how}" for task, how in zip(lost["titled"], lost["status"])
        ]
        if not wanted:
            why.append("no task has their number of labels")
        elif wanted > len(mine):
            why.append(f"{counted(wanted - len(mine), 'task')} of other columns missing")
        mean = None if why else float(mine["difference"].mean())
        over = "; ".join(dict.fromkeys(why)) or counted(len(mine), "task")
        made.append({**first, "mean_difference": mean, "over": over})
    return pd.DataFrame(made, dtype=object)


def _means(found: pd.DataFrame, other: Source) -> r.Table:
    means = mean_differences(found)
    return r.Table(
        name=f"against_{other.name}_means",
        caption="Mean of ours − theirs over tasks.",
        columns=[
            r.Column("model", cell=lambda row: row["head"].cell),
            r.Column("leads"),
            r.Column("protocol", note="ours / theirs", cell=_trained),
            r.Column("mean_difference", kind="number", spell=r.signed),
            r.Column("over"),
        ],
        rows=means,
        numbers=means[_MEANS],
        summary="mean difference per column and lead setting",
    )


def _figure(found: pd.DataFrame, other: Source) -> Iterator[r.Figure]:
    drawn = found[found["ours"].notna()]
    if len(drawn):
        yield r.Figure(
            name=f"against_{other.name}",
            draw=partial(_scatter, drawn.to_dict("records"), other),
            caption=(
                "Each marker is a task at a lead setting; on the line both are equal. Filled: "
                f"nothing is known that differs besides the fits ({drawn['comparable'].sum()} of "
                f"{len(drawn)}). Hollow: something does, as the table says."
            ),
            size=(6.4, 6.4),
            numbers=found[_NUMBERS],
        )


def _scatter(drawn: list[dict[Any, Any]], other: Source, sheet: "Sheet") -> list[Any]:
    ax = sheet.subplots()
    several = len({pair["run"] for pair in drawn}) > 1
    series: dict[tuple[int, str, str], str] = {}
    ends = [50.0]
    for pair in drawn:
        column, head = (pair["run"], *pair["head"].names), pair["head"]
        name = shortened(head.label, r.LONGEST) + (" (random weights)" if head.untrained else "")
        series[column] = f"{name}, run {pair['run']}: {pair['protocol']}" if several else name
        style = r.look(list(series).index(column)) | {"linestyle": "", "markersize": 5}
        style |= {} if pair["comparable"] else {"markerfacecolor": "none"}
        x, y = 100 * pair["theirs"], 100 * pair["ours"]
        ends += [x, y]
        ax.plot(x, y, **style)
    low, high = min(ends) - 2, min(max(ends) + 2, 101)
    ax.plot([low, high], [low, high], color="#999999", linewidth=1, zorder=1)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.set_xlabel(f"{other.title}, macro AUROC × 100")
    ax.set_ylabel("ours, macro AUROC × 100")
    return [r.handle(name, at, linestyle="") for at, name in enumerate(series.values())]
