"""Beside what others printed: our scores and those of the paper that introduced LAEF or of the
reference benchmark, what differs besides, and their claims recomputed from their own tables
(ecgbench/published/).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.core.cells import RANDOM
from ecgbench.core.text import counted, quoted, shortened
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting
from ecgbench.evaluate import protocols
from ecgbench.published import (
    EVALUATED_ONLY,
    FMB,
    METRIC,
    SOURCES,
    Printed,
    Source,
    claims,
    printed,
    source,
)
from ecgbench.reports import (
    LONGEST,
    Cell,
    Column,
    Figure,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Row,
    Section,
    Table,
    bracket,
    handle,
    look,
    points,
    signed,
)
from ecgbench.reports._facts import (
    DAGGER,
    heads_of,
    leads_of,
    main_rows,
    tasks,
    untrained_marks,
)
from ecgbench.results.facts import DatasetFacts, ModelFacts
from ecgbench.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Beside printed scores",
    summary="scores beside those of the paper or the reference benchmark, with `--against`",
    reads="run",
    order=45,
    asked_by="--against paper,fmb",
)
UNDEFINED = "undefined label"
_NUMBERS = (
    *("task", "leads", "model", "policy", "run", "protocol", "weights", "status"),
    *("ours", "ours_std", "ours_low", "ours_high"),
    *("theirs", "theirs_trained", "theirs_sd", "theirs_low", "theirs_high"),
    *("difference", "labels", "labels_theirs", "comparable", "differs"),
)
_MEANS = (
    *("model", "policy", "run", "leads", "protocol", "theirs_trained"),
    *("mean_difference", "over"),
)
_NOTES = (
    "Ours less theirs, in points (AUROC × 100). A difference is no test: the two sides are other "
    "fits, and their predictions are not known. It is in no mean where anything is known that "
    "differs besides.",
    "Own weights: trained by this project, not by the model's authors. Undefined labels have not "
    "both values in our test set: ours leave them out, the reference benchmark counts 0.5.",
)
_HEAD_ONLY = (
    "ST-MEM: what is printed as its fine-tuning trained the head alone, so it stands beside our "
    "linear and our fine-tuned column."
)


def sections(study: Study) -> list[Section]:
    """One for each source of `study.options.against`, for all where it names none; BadSetting of a
    study that was read without AUROCs.
    """
    return [_section(study, source(name)) for name in study.options.against or SOURCES]


def _section(study: Study, other: Source) -> Section:
    if METRIC not in study.metrics:
        raise BadSetting(
            f"--against {other.name}: macro AUROCs are printed there, and this report has "
            f"{', '.join(study.metrics)}; run: ecgbench report {quoted(study.path)} "
            f"--against {other.name} --metrics {METRIC}"
        )
    found = pairs(study, other)
    folders = [f"Run {at}: {run.path.name}." for at, run in enumerate(study.beside, 2)]
    parts: list[Part] = [Notes([f"{other.title}: {other.cited}.", *folders])]
    words = other.title.lower()
    if found:
        summary = f"one row per score of ours and of the {words}"
        numbers = Numbers(columns=_NUMBERS, rows=found, summary=summary)
        parts += [_table(found, other, numbers), _means(found, other)]
        if drawn := [pair for pair in found if pair["ours"] is not None]:
            parts.append(_figure(drawn, other, numbers))
    else:
        parts.append(
            Notes([f"The {words} prints no score of these models on these tasks at these leads."])
        )
    title = f"Beside the {words}"
    parts.append(_claims(other))
    return Section(name=f"against_{other.name}", title=title, short=title, parts=parts)


def pairs(study: Study, other: Source) -> list[dict[str, Any]]:
    """Our scores with the printed ones of the same task, model and leads, of a study and of those
    beside it: by task, leads and model, then by run. The columns of the CSV (fractions; ours None
    where there is no number), `head` and `titled` (our column and task), `head_only`, `reasons`
    (what differs but the number of labels).
    """
    runs = [study.of(METRIC), *(run.of(METRIC) for run in study.beside)]
    found = [pair for at, run in enumerate(runs, 1) for pair in _of_run(at, run, other)]
    for name in ("model", "leads", "task"):  # sorting is stable: the last counts most
        keys = ("model", "policy") if name == "model" else (name,)
        order = list(dict.fromkeys(tuple(pair[key] for key in keys) for pair in found))
        found.sort(key=lambda pair: order.index(tuple(pair[key] for key in keys)))
    return found


def _of_run(at: int, study: Study, other: Source) -> Iterator[dict[str, Any]]:
    heads, titled = heads_of(study), {task.task: task for task in tasks(study)}
    counts = {task.name: (task.n_labels, task.paper) for task in study.tasks}
    protocol = study.provenance.protocol
    for row in main_rows(study):
        mine, paper = counts.get(row["task"], (row["n_labels"], None))
        theirs_labels = other.labels.get(row["task"], paper)
        alike = theirs_labels in (None, mine)
        for theirs in _printed(other, row, protocol):
            ours = row["value"] if row["status"] == "ok" else None
            reasons = list(_differs(study, row, theirs, other))
            labels = [] if alike else [f"{mine} labels, theirs {theirs_labels}"]
            yield {
                **{key: row[key] for key in ("task", "leads", "model", "policy", "weights")},
                "run": at,
                "protocol": protocol,
                "status": row["status"],
                "ours": ours,
                **{f"ours_{e}": None if ours is None else row[e] for e in ("std", "low", "high")},
                "theirs": theirs.value,
                "theirs_trained": theirs.trained,
                "theirs_sd": theirs.sd,
                "theirs_low": theirs.low,
                "theirs_high": theirs.high,
                "difference": None if ours is None else ours - theirs.value,
                "labels": row["n_labels"] if alike else mine,
                "labels_theirs": None if alike else theirs_labels,
                "comparable": ours is not None and alike and not reasons,
                "differs": "; ".join([*labels, *reasons]),
                "reasons": reasons,
                "head": heads[row["model"], row["policy"]],
                "titled": titled[row["task"]],
                "head_only": theirs.head_only,
            }


def _printed(other: Source, row: Row, protocol: str) -> list[Printed]:
    """What is printed of a row's task, model and leads, trained as the protocol does.

    What is called fine-tuning and trained the head alone stands beside every protocol; the paper
    has nothing but fine-tuning.
    """
    wanted = "linear" if protocols.is_frozen(protocol) and other.name == FMB else "finetune"
    named = (row["task"], row["model"], row["leads"])
    return [
        score
        for score in printed(other.name)
        if (score.task, score.model, score.leads) == named
        and (score.trained == wanted or score.head_only)
    ]


def _differs(study: Study, row: Row, theirs: Printed, other: Source) -> Iterator[str]:
    """What is known that differs between a row and a printed score but the number of labels."""
    task = next((task for task in study.tasks if task.name == row["task"]), None)
    data = next((d for d in study.datasets if task and d.name == task.dataset), None)
    model = next((model for model in study.models if model.name == row["model"]), None)
    if data:
        yield from _records(data)
    if task and task.counted is False:
        yield "labels not counted on the complete release"
    weights = model.weights_source if model else {}
    if row["weights"] == RANDOM:
        yield "random weights"
    elif weights.get("own"):
        yield "own weights"
    elif row["weights"] != "released" and not weights.get("file"):
        yield f"weights of another file: {row['weights']}"
    yield from _training(study, row, theirs, other)
    yield from _feeding(study, row, model, other)
    if study.provenance.absent != "half" and row["n_undefined"]:
        yield counted(row["n_undefined"], UNDEFINED)


def _records(data: DatasetFacts) -> Iterator[str]:
    # what the card leaves out by its rule, the sources leave out too
    there = data.records + sum(data.excluded.values()) + len(data.quarantined)
    left_out = sum(data.left_out.values())
    if data.limit is not None and data.records < data.records_prepared:
        yield f"--limit {data.limit}: {data.records:,} of {data.records_release:,} records"
    elif there + left_out < data.records_release:
        yield f"{data.records:,} of {data.records_release:,} records"
    if left_out:
        yield f"{counted(left_out, 'record')} left out (data.exclude)"
    if data.quarantined:
        yield f"{counted(len(data.quarantined), 'unreadable record')} left out"
    if data.repaired:
        yield f"{counted(data.repaired, 'record')} repaired"
    if data.folds:
        yield f"{data.folds} folds, theirs one split"
    elif data.division:
        yield f"divided otherwise: {data.division}"


def _training(study: Study, row: Row, theirs: Printed, other: Source) -> Iterator[str]:
    made = study.provenance
    if theirs.head_only and not protocols.is_frozen(made.protocol):
        yield "theirs the head alone"
    elif made.protocol != ("linear" if theirs.head_only else theirs.trained):
        yield "another protocol"
    if protocols.uses(made.protocol, "epochs") and made.epochs != other.epochs:
        yield f"{counted(made.epochs, 'epoch')}, theirs {other.epochs}"
    fits = [r.cell.fit for r in study.results if r.cell.fit.model == row["model"]]
    if any(fit.shown for fit in fits):
        yield "trained at the leads that are tested, theirs at twelve"
    elif any(fit.policy for fit in fits):
        yield "trained at random leads, theirs at twelve"


def _feeding(study: Study, row: Row, model: ModelFacts | None, other: Source) -> Iterator[str]:
    made = study.provenance
    contract = model.contract if model else {}
    if made.contract != "paper":
        yield f"contract {made.contract}"
    number, named = leads_of(row["leads"])
    if number == len(LEADS):
        return
    if row["policy"] != contract.get("policy", row["policy"]):
        yield f"policy {row['policy']}, theirs {contract['policy']}"
    if named:
        return
    if made.draw != "record":
        yield "leads drawn in every window"
    if other.draws and len(made.seeds) != other.draws:
        yield f"{counted(len(made.seeds), 'draw')} of leads, theirs {other.draws}"


def _table(found: Sequence[Row], other: Source, numbers: Numbers) -> Table:
    rows = [_line(pair) for pair in found]
    marks = {}
    if any("†" in row["task"].mark for row in rows):
        marks["†"] = DAGGER
    if any("§" in row["task"].mark for row in rows):
        marks["§"] = "its number of labels is not theirs; in no mean"
    return Table(
        name=f"against_{other.name}",
        caption=f"Macro AUROC × 100 beside the {other.title.lower()}.",
        columns=(
            Column("task", "Task", "group"),
            Column("leads", "Leads"),
            Column("model", "Model"),
            Column("trained", "Trained", note="ours / theirs"),
            Column("ours", "Ours", "number"),
            Column("theirs", other.title, "number"),
            Column("difference", "Ours − theirs", "number", signed),
            Column("differs", "What differs besides"),
        ),
        rows=rows,
        notes=[*_NOTES, *([_HEAD_ONLY] if any(pair["head_only"] for pair in found) else [])],
        marks=marks | untrained_marks(pair["head"] for pair in found),
        numbers=numbers,
    )


def _line(pair: Row) -> Row:
    task, head = pair["titled"], pair["head"]
    dagger = "†" if task.evaluation_only or task.task in EVALUATED_ONLY else ""
    labels = "" if pair["labels_theirs"] is None else "§"
    spread = {}
    for side, sd in (("ours", pair["ours_std"]), ("theirs", pair["theirs_sd"])):
        ends = bracket(pair[f"{side}_low"], pair[f"{side}_high"])
        spread[side] = ends if sd is None else f"({points(sd)})"
    ours = Cell(pair["status"])
    if pair["ours"] is not None:
        ours = Cell(points(pair["ours"]), head.mark, spread["ours"])
    return {
        "task": Cell(task.title, dagger + labels),
        "leads": pair["leads"],
        "model": head.cell,
        "trained": _trained(pair),
        "ours": ours,
        "theirs": Cell(points(pair["theirs"]), small=spread["theirs"]),
        "difference": pair["difference"],
        "differs": pair["differs"] or "nothing known",
    }


def _trained(pair: Row) -> Cell:
    run = f"run {pair['run']}" if pair["run"] > 1 else ""
    return Cell(f"{pair['protocol']} / {pair['theirs_trained']}", small=run)


def mean_differences(found: Sequence[Row]) -> list[dict[str, Any]]:
    """For each column and lead setting the mean difference (fraction) over all tasks of the study
    whose number of labels is theirs, and `over`: how many those are, or why there is no mean.

    A mean stands only where every such task has a difference and nothing else differs.
    """
    names = ("run", "model", "policy", "leads", "theirs_trained")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for pair in found:
        groups.setdefault(tuple(pair[name] for name in names), []).append(pair)
    made = []
    for group in groups.values():
        first = group[0]
        alike = [pair for pair in found if pair["labels_theirs"] is None]
        wanted = {pair["task"] for pair in alike if pair["leads"] == first["leads"]}
        mine = [pair for pair in group if pair["labels_theirs"] is None]
        reasons = [text for pair in mine for text in pair["reasons"]]
        why = [f"{UNDEFINED}s" if UNDEFINED in text else text for text in reasons]
        why += [f"{p['titled'].title}: {p['status']}" for p in mine if p["ours"] is None]
        if missing := len(wanted) - len(mine):
            why.append(f"{counted(missing, 'task')} of other columns missing")
        if not wanted:
            why.append("no task has their number of labels")
        mean = None if why else sum(pair["difference"] for pair in mine) / len(mine)
        over = "; ".join(dict.fromkeys(why)) or counted(len(mine), "task")
        made.append({**first, "mean_difference": mean, "over": over})
    return made


def _means(found: Sequence[Row], other: Source) -> Table:
    means = mean_differences(found)
    summary = "mean difference per column and lead setting"
    return Table(
        name=f"against_{other.name}_means",
        caption="Mean of ours − theirs over tasks.",
        columns=(
            Column("model", "Model"),
            Column("leads", "Leads"),
            Column("trained", "Trained", note="ours / theirs"),
            Column("mean_difference", "Ours − theirs", "number", signed),
            Column("over", "Over, or why there is no mean"),
        ),
        rows=[row | {"model": row["head"].cell, "trained": _trained(row)} for row in means],
        marks=untrained_marks(pair["head"] for pair in found),
        numbers=Numbers(columns=_MEANS, rows=means, summary=summary),
    )


def _figure(drawn: Sequence[Row], other: Source, numbers: Numbers) -> Figure:
    filled = sum(pair["comparable"] for pair in drawn)
    caption = (
        "Each marker is a task at a lead setting; on the line both are equal. Filled: nothing is "
        f"known that differs besides the fits ({filled} of {len(drawn)})."
    )
    if why := dict.fromkeys(pair["differs"] for pair in drawn if pair["differs"]):
        caption += f" Hollow: something does: {'; '.join(why)}."
    return Figure(
        name=f"against_{other.name}",
        draw=partial(_scatter, drawn, other),
        caption=caption,
        size=(6.4, 6.4),
        numbers=numbers,
    )


def _scatter(drawn: Sequence[Row], other: Source, sheet: "Sheet") -> list[Any]:
    ax = sheet.subplots()
    several = len({pair["run"] for pair in drawn}) > 1
    series: dict[tuple[int, str, str], str] = {}
    ends = [50.0]
    for pair in drawn:
        column, head = (pair["run"], *pair["head"].names), pair["head"]
        name = shortened(head.label, LONGEST) + (" (random weights)" if head.untrained else "")
        series[column] = f"{name}, run {pair['run']}: {pair['protocol']}" if several else name
        style = look(list(series).index(column)) | {"linestyle": "", "markersize": 5}
        style |= {} if pair["comparable"] else {"markerfacecolor": "none"}
        x, y = 100 * pair["theirs"], 100 * pair["ours"]
        ends += [x, y]
        ax.plot(x, y, **style)
    low, high = min(ends) - 2, min(max(ends) + 2, 101)
    ax.plot([low, high], [low, high], color="#999999", linewidth=1, zorder=1)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.set_xlabel(f"{other.title}, macro AUROC × 100")
    ax.set_ylabel("ours, macro AUROC × 100")
    return [handle(name, at, linestyle="") for at, name in enumerate(series.values())]


def _claims(other: Source) -> Table:
    return Table(
        name=f"claims_{other.name}",
        caption=(
            f"The {other.title.lower()}: what its text says, recomputed from its own tables. "
            "Nothing here is of this run."
        ),
        columns=(
            Column("where", "Where"),
            Column("says", "It says"),
            Column("found", "Its tables give"),
            Column("agrees", "Agrees"),
        ),
        rows=[vars(claim) for claim in claims(other.name)],
        notes=["in part: some of it comes out; open: the tables do not tell."],
    )
