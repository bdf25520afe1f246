"""Pre-training: its recipe, data, codebooks, curve and times beside the paper's, finished or
not.
"""

import re
from collections.abc import Mapping
from typing import Any

from ecgbench.core.text import duration, enumerated
from ecgbench.reports import (
    Code,
    Column,
    Facts,
    Notes,
    Numbers,
    Part,
    ReportCard,
    Section,
    Table,
    Text,
)
from ecgbench.reports import _pretraining_figures as figures
from ecgbench.reports._pretraining_opening import opening
from ecgbench.results.pretraining import Pretraining, Stage

CARD = ReportCard(
    title="Pre-training",
    summary="recipe, data, codebooks, curve and times of a pre-training, finished or not",
    reads="pretraining",
    order=10,
)
_PHASES = (
    "phase",
    "seconds",
    "records",
    "device",
    "projected_records",
    "projected_seconds",
    "paper_seconds",
)
_PROBE = "macro AUROC × 100 of a linear head on frozen features of the development task"
_LATER = "Known when both stages are finished."
_LEFT_OUT = {
    "id": "PTB-XL's validation or test folds under another name",
    "patient": "of a patient of a validation or test split",
    "signal": "with the samples of a validation or test recording",
}
_WORDS = {
    "name": "Name",
    "digest": "Digest",
    "datasets": "Corpora",
    "task": "Development task",
    "descriptor": "Descriptor of stage 1",
    "codes": "Codes of stage 1",
    "refined": "Codes of stage 2",
    "block": "Stage 2 clusters nodes of block",
    "init": "Stage 2 starts from",
    "probe_records": "Training recordings of a probe",
    "windows": "Windows for entropy and cosine",
    "kept": "Recordings in memory as",
    "seed": "Seed",
    "adamw": "Decoupled weight decay (AdamW)",
    "batch": "Recordings per step",
    "micro": "Recordings per pass",
    "edge_drop": "Edges within leads left out",
    "lr": "Learning rate",
    "probe_every": "Steps between kept encoders",
    "ratio": "Masked share of the nodes of a lead",
}


def sections(source: Pretraining) -> list[Section]:
    """One section for each question that a reader of the weights has."""
    drawn = {
        "Training dynamics": figures.dynamics(source, _dynamics(source)),
        "Loss and accuracy": figures.curve(source),
        "Sizes of codebooks": figures.elbow(source, _elbow(source)),
    }
    shown, numbers = opening(source)
    kept = Table(name="opening", columns=(), rows=(), numbers=numbers, formats=("csv",))
    return [
        Section(name="outcome", parts=[shown, *([kept] if numbers.rows else [])]),
        _recipe(source),
        Section(name="data", title="Data", parts=[Facts(_data(source))]),
        _codebooks(source),
        _selection(source),
        *(
            Section(name=figure.name, title=title, parts=[figure])
            for title, figure in drawn.items()
            if figure is not None
        ),
        Section(name="phases", title="Time", parts=[_times(source)]),
        Section(name="made_with", title="Made with", parts=[_made_with(source)]),
    ]


def _recipe(source: Pretraining) -> Section:
    recipe = source.recipe
    ordered = sorted(
        (key for key in recipe if key != "stages"), key=lambda key: [*_WORDS, key].index(key)
    )
    stages = recipe["stages"]
    columns = [Column("setting", "Setting")] + [
        Column(f"{at}", f"Stage {at}", "number", _value) for at in (1, 2)
    ]
    rows = [
        {"setting": _word(key)} | {str(at): _value(s[key]) for at, s in enumerate(stages, 1)}
        for key in stages[0]
    ]
    table = Table(name="recipe", columns=columns, rows=rows, formats=("html",))
    facts = Facts({_word(key): _value(recipe[key]) for key in ordered})
    return Section(name="recipe", title="Recipe", parts=[facts, table])


def _word(key: str) -> str:
    return _WORDS.get(key, key.replace("_", " ").capitalize())


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{key} {of}" for key, of in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "all", True: "yes", False: "no"}[value]
    return Code(value) if isinstance(value, str) and re.fullmatch("[0-9a-f]{40,}", value) else value


def _data(source: Pretraining) -> Mapping[str, Any]:
    corpora, split = source.corpora, source.finished.get("development", {})
    gone = [f"{n:,} {_LEFT_OUT.get(why, why)}" for why, n in corpora.get("left_out", {}).items()]
    used = development = "--"
    if split:
        used = (
            f"{corpora['records']:,} to train on; {corpora['too_short']:,} too short for a window"
        )
        development = (
            f"{split['task']}: {split['train']:,} training and {split['validation']:,} validation "
            "recordings"
        )
    return {
        "Recordings": used,
        "Left out": "; ".join(gone) or "none",
        "Development": development,
        "Digest of the corpus": Code(corpora.get("corpus", "--")),
        **{f"Prepared {name}": Code(sha) for name, sha in corpora.get("datasets", {}).items()},
    }


def _codebooks(source: Pretraining) -> Section:
    rows = []
    for stage in source.stages:
        of = stage.books.get("description", {})
        nodes = f"nodes of block {of.get('block')} of encoder {str(of.get('network'))[:12]}…"
        what = {"clustered": f"{stage.name}: {of.get('name') or nodes}"}
        for size in stage.sizes if stage.books else ():
            book = stage.books["codebooks"][str(size)]
            counts = {"codes": size, "met": book["used"], "perplexity": book["perplexity"]}
            rows.append(what | counts | {"digest": _short(book["digest"])})
    columns = [
        Column("clustered", "Clustered"),
        Column("codes", "Codes", "number", "{:,}".format),
        Column("met", "Met", "number", "{:,}".format),
        Column("perplexity", "Perplexity", "number", "{:.1f}".format),
        Column("digest", "Digest", "number"),
    ]
    note = f"Met, perplexity: on {source.compared_on}. Whole digests: codebook.json."
    table = Table(name="codebooks", columns=columns, rows=rows, notes=[note], formats=("html",))
    return Section(name="codebooks", title="Codebooks", parts=[table])


def _short(digest: str) -> Code:
    return Code(f"{digest[:16]}…")


def _selection(source: Pretraining) -> Section:
    heads = {
        "stage": "Stage",
        "step": "t*",
        "probe": "Probe at t*",
        "best": "Best probe",
        "encoders": "Encoders",
        "steps": "Steps",
        "loss": "Last loss",
        "accuracy": "Last accuracy, %",
        "encoder": "Encoder of t*",
    }
    columns = [
        Column(name, head, "text" if name == "stage" else "number") for name, head in heads.items()
    ]
    note = f"{source.star}. Probe: {_PROBE}, {source.compared_on}."
    rows = [dict.fromkeys(heads) | _chosen(stage) for stage in source.stages]
    table = Table(name="selection", columns=columns, rows=rows, notes=[note], formats=("html",))
    return Section(name="selection", title="Selection", parts=[table])


def _chosen(stage: Stage) -> dict[str, Any]:
    """What is known of one row of the selection."""
    row: dict[str, Any] = {"stage": stage.name, "encoders": f"{len(stage.checkpoints):,}"}
    if chosen := stage.selected:
        row |= {"step": f"{chosen['step']:,}", "encoder": _short(chosen["encoder"])}
        row |= {"probe": f"{100 * chosen['score']:.2f}", "best": f"{100 * stage.best:.2f}"}
    if stage.curve:
        last = stage.curve[-1]
        accuracy = " / ".join(
            f"{100 * value:.1f}" for key, value in last.items() if key.startswith("accuracy_")
        )
        row |= {"steps": f"{last['step']:,}", "loss": f"{last['loss']:.4f}", "accuracy": accuracy}
    return row


def _dynamics(source: Pretraining) -> Numbers:
    rows = [
        {
            "stage": stage.name,
            "step": encoder["step"],
            "layer": figures.layer_name(layer["block"]),
            **{key: layer[key] for key in ("entropy", "intra", "inter")},
            "macro_auroc": encoder["score"],
            "selected": encoder is stage.selected,
            "data": source.data,
        }
        for stage in source.stages
        for encoder in stage.checkpoints
        for layer in encoder["layers"]
    ]
    return _numbers(rows, "one row per kept encoder and layer")


def _elbow(source: Pretraining) -> Numbers:
    rows = [
        {"stage": stage.name} | row | {"chosen": row["codes"] in stage.sizes, "data": source.data}
        for stage in source.stages
        for row in stage.elbow
    ]
    return _numbers(rows, "one row per codebook that was tried")


def _numbers(rows: list[dict[str, Any]], summary: str) -> Numbers:
    return Numbers(columns=list(rows[0]) if rows else (), rows=rows, summary=summary)


def _times(source: Pretraining) -> Part:
    """What each phase took, here and in the paper."""
    if not source.phases:
        return Notes([_LATER])
    columns = (
        Column("phase", "Phase"),
        Column("seconds", "Here", "number", duration),
        Column("records", "Recordings", "number", "{:,}".format),
        Column("projected_seconds", "Projected", "number", duration),
        Column("projected_records", "for recordings", "number", "{:,}".format),
        Column("paper_seconds", "Paper", "number", duration),
    )
    rows = [{key: row[key] for key in _PHASES} | {"data": source.data} for row in source.phases]
    return Table(
        name="phases",
        caption=f"Time of a pre-training of LAEF by recipe {source.recipe['name']}.",
        columns=columns,
        rows=rows,
        notes=_about_times(source),
        numbers=_numbers(rows, "one row per phase, in seconds"),
    )


def _about_times(source: Pretraining) -> list[str]:
    rows = source.phases
    sizes = [enumerated([f"{row['codes']:,}" for row in stage.elbow]) for stage in source.stages]
    aside = sum(stage["probing_seconds"] for stage in source.finished["stages"].values())
    trained = enumerated(
        [f"{row['projected_records']:,}" for row in rows if row["phase"].endswith("training")]
    )
    return [
        f"Here: {'; '.join(dict.fromkeys(row['device'] for row in rows))}. Data: {source.data}.",
        "Projected: the paper's amount of work on the device of this pre-training, at the seconds "
        "per recording measured here. Extraction and clustering meet each of the paper's "
        f"{rows[0]['projected_records']:,} ECGs once, one window of 5 s and 12 leads. Training "
        f"meets {trained} recordings, all steps of the paper's two stages, and makes the labels of "
        "each window anew, for none are stored.",
        (
            "What does not grow with recordings (starting, compiling) is projected too: from few "
            "recordings the projection is far too long."
        ),
        f"Clustering fits all codebooks of the elbow curves at once ({'; '.join(sizes)} codes), "
        f"reading included. Not in the table: keeping and measuring encoders ({duration(aside)}).",
        (
            "Paper: its own round figures, a month as 30 days, on an NVIDIA DGX A100 of 8 GPUs; "
            "how many of them a phase took it does not say."
        ),
        *([source.warning] if source.warning else []),
    ]


def _made_with(source: Pretraining) -> Part:
    known = source.finished.get("made_with", {})
    facts = {
        _word(key): _value(value)
        for key, value in known.items()
        if key != "dirty" and value is not None
    }
    if known.get("dirty") and "Commit" in facts:
        facts["Commit"] = [facts["Commit"], " with uncommitted changes"]
    return Facts(facts) if facts else Text(_LATER, "fine")
