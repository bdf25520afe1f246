"""The report of a pre-training, from the JSON and CSV files that `ecgbench pretrain` leaves; of one that is not finished, what is there."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ecgbench.errors import BadWeights, MissingData
from ecgbench.files import put, sweep
from ecgbench.pretraining.phase_times import duration
from ecgbench.pretraining.selection import MARGIN
from ecgbench.reports import _form, lead_curve, page
from ecgbench.reports._cost import _latex_table, _markdown_table
from ecgbench.reports._form import Fact
from ecgbench.reports._pretraining_figures import FIGURES, caption, figure, layer_name

RECIPE, REPORT = "recipe.json", "pretraining.json"
PHASES = ("phase", "seconds", "records", "device", "projected_records", "projected_seconds", "paper_seconds")
OWN = "LAEF's weights as this project makes them by the recipe below, not the checkpoint of the paper."
SYNTHETIC = "Recordings of the demo are computed, not measured: no number here says anything about patients, and the weights are of no use."


def is_one(folder: Path) -> bool:
    """Whether a folder is a pre-training's, and not a run's."""
    return any((folder / name).is_file() for name in (RECIPE, REPORT)) and not (folder / "plan.json").exists()


def draw(folder: Path, to: Path | None = None) -> list[Path]:
    """Write index.html and what is there of dynamics, elbow (.png, .svg, .csv), curve (.png, .svg) and phases (.csv, .md, .tex).

    to: where, `folder`/report if left out. MissingData: nothing is there yet; BadWeights: a damaged file; WriteError.
    """
    found, place = facts(folder), to or folder / "report"
    made: dict[str, str | bytes] = {}
    for name, (key, _) in FIGURES.items():
        if any(stage[key] for stage in found["stages"]):
            with figure(found, name) as drawn:
                made |= {f"{name}.{kind}": lead_curve._bytes(drawn, kind) for kind in ("png", "svg")}
    made |= {f"{name}.csv": _form.table_text(list(rows[0]), rows) for name, rows in _tables(found).items() if rows}
    if found["phases"]:
        made |= {"phases.md": _markdown(found), "phases.tex": _latex(found)}
    sweep(place, below=False)
    return [put(place / name, content) for name, content in {**made, "index.html": _html(found, made)}.items()]


def facts(folder: Path) -> dict[str, Any]:
    """`recipe`, `told` (pretraining.json, or {}), `stages`, `phases`, `corpora` (digests), `data` (in words), `synthetic`, `open`.

    Of a stage that began: name, sizes and books (codebooks), curve, elbow and checkpoints (rows), best (score), selected. `open`: what
    says that there is more to come, else empty.
    """
    told, claimed = _read(folder / REPORT, json.loads), _read(folder / RECIPE, json.loads)
    recipe = told.get("recipe") or claimed.get("recipe")
    stages = [_stage(folder / f"stage{number}", recipe, number) for number in (1, 2)] if recipe else []
    stages = [stage for stage in stages if stage["curve"] or stage["elbow"] or stage["checkpoints"]]
    if not stages:
        raise MissingData(f"nothing of a pre-training in {folder} yet; run: ecgbench pretrain --recipe NAME --out {folder}")
    reached = {stage["name"]: len(stage["curve"]) for stage in stages}
    rest = " and makes encoder and times anew" if told else ""
    more = f"Steps so far: {', '.join(f'{n:,} in {name}' for name, n in reached.items())}. The same command goes on{rest}."
    starts = [stages[0]["selected"], stages[-1]["books"]]
    if len(stages) == 2 and all(starts) and starts[1]["description"].get("network") not in (None, starts[0]["encoder"]):
        more += " But stage 2 is of another checkpoint than the one that stage 1 now selects: remove its folder first."
    whole = told and all(told["stages"][name]["steps"] == steps for name, steps in reached.items())
    return {
        "recipe": recipe, "told": told, "stages": stages, "phases": told.get("phases", []), "corpora": told.get("data") or claimed,
        "data": ", ".join(f"{name} (synthetic)" if name == "demo" else name for name in recipe["datasets"]),
        "synthetic": "demo" in recipe["datasets"], "open": "" if whole else more,
    }  # fmt: skip


def _stage(folder: Path, recipe: Fact, number: int) -> dict[str, Any]:
    last, every = (recipe["stages"][number - 1][k] for k in ("steps", "probe_every"))
    kept = sorted((_read(path, json.loads) for path in folder.glob("encoders/*.json")), key=lambda one: one["step"])
    kept = [one for one in kept if one["step"] == last or (one["step"] < last and one["step"] % every == 0)]  # as `Stage.probed` says
    best = max((one["score"] for one in kept), default=0.0)
    return {
        "name": f"stage {number}", "sizes": recipe[("codes", "refined")[number - 1]], "checkpoints": kept, "best": best,
        "books": _read(folder / "codebook.json", json.loads), "elbow": _read(folder / "elbow.csv", _rows),
        "curve": _read(folder / "curve.csv", _rows), "selected": next((one for one in kept if one["score"] >= best - MARGIN), None),
    }  # fmt: skip


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    """A file; {} where there is none."""
    try:
        return parse(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise BadWeights(f"{path} cannot be read; remove its folder and run the same ecgbench pretrain again") from error


def _rows(text: str) -> list[dict[str, float]]:
    """Rows of a table of numbers; a last line that a kill tore is none."""
    head, *lines = [line.split(",") for line in text[: text.rfind("\n") + 1].splitlines()] or [[]]
    return [dict(zip(head, (int(word) if word.isdigit() else float(word) for word in line), strict=True)) for line in lines]


def _tables(found: Fact) -> dict[str, list[dict[str, Any]]]:
    """Rows of the CSV files."""
    data = {"data": found["data"]}
    dynamics = [
        {"stage": s["name"], "step": one["step"], "layer": layer_name(layer["block"])}
        | {k: layer[k] for k in ("entropy", "intra", "inter")}
        | {"macro_auroc": one["score"], "selected": one is s["selected"]} | data
        for s in found["stages"] for one in s["checkpoints"] for layer in one["layers"]
    ]  # fmt: skip
    elbow = [{"stage": s["name"]} | row | {"chosen": row["codes"] in s["sizes"]} | data for s in found["stages"] for row in s["elbow"]]
    return {"dynamics": dynamics, "elbow": elbow, "phases": [{k: row[k] for k in PHASES} | data for row in found["phases"]]}


_HEADS = ("Phase", "Here", "Recordings", "Projected", "for recordings", "Paper")


def _phases(found: Fact) -> list[list[str]]:
    """Cells of the table of times, under `_HEADS`."""
    return [
        [
            row["phase"], duration(row["seconds"]), f"{row['records']:,}", duration(row["projected_seconds"]),
            f"{row['projected_records']:,}", duration(row["paper_seconds"]),
        ]
        for row in found["phases"]
    ]  # fmt: skip


def _notes(found: Fact) -> list[str]:
    """Sentences under the table of times."""
    rows, sizes = found["phases"], [_form.enumerated([f"{row['codes']:,}" for row in s["elbow"]]) for s in found["stages"]]
    aside = sum(stage["probing_seconds"] for stage in found["told"]["stages"].values())
    trained = _form.enumerated([f"{row['projected_records']:,}" for row in rows if row["phase"].endswith("training")])
    return [
        f"Here: {'; '.join(dict.fromkeys(row['device'] for row in rows))}. Data: {found['data']}.",
        "Projected: the paper's amount of work on the device of this pre-training, at the seconds per recording measured here. Extraction "
        f"and clustering meet each of the paper's {rows[0]['projected_records']:,} ECGs once, one window of 5 s and 12 leads. Training "
        f"meets {trained} recordings, all steps of the paper's two stages, and makes the labels of each window anew, for none are stored.",
        "What does not grow with recordings (starting, compiling) is projected too: from few recordings the projection is far too long.",
        f"Clustering fits all codebooks of the elbow curves at once ({'; '.join(sizes)} codes), reading included. Not in the table: "
        f"keeping and measuring encoders ({duration(aside)}).",
        "Paper: its own round figures, a month as 30 days, on an NVIDIA DGX A100 of 8 GPUs; how many of them a phase took it does not say.",
        *([SYNTHETIC] if found["synthetic"] else []),
    ]  # fmt: skip


def _markdown(found: Fact) -> str:
    title = f"Time of a pre-training of LAEF by recipe {_form.markdown(found['recipe']['name'])}."
    words = (f"- {_form.markdown(note)}" for note in _notes(found))
    return "\n".join([title, "", _markdown_table(_HEADS, _phases(found), 1), "", *words, ""])


def _latex(found: Fact) -> str:
    title = f"Time of a pre-training of LAEF by recipe {_form.latex(found['recipe']['name'])}."
    packages = r"% Needs \usepackage{booktabs} and \usepackage{graphicx}."
    return f"{packages}\n{_latex_table('pretraining', title, _HEADS, _phases(found), _notes(found))}"


def _html(found: Fact, made: dict[str, str | bytes]) -> str:
    """index.html, around the drawings and beside the files of `made`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    def shown(value: Any) -> Any:
        return _form.visible(value) if type(value) is str else value  # Markup is ours

    sheet = Environment(loader=FileSystemLoader(page.TEMPLATES), autoescape=True, undefined=StrictUndefined, finalize=shown)
    sheet.trim_blocks = sheet.lstrip_blocks = True
    recipe = found["recipe"].get("name")
    banners = {"Own weights": OWN, "Synthetic": SYNTHETIC if found["synthetic"] else "", "Not finished": found["open"]}
    return sheet.get_template("pretraining.html.j2").render(
        title=f"LAEF, pre-trained by recipe {recipe}" if recipe else "LAEF, in pre-training", sub=f"Data: {found['data']}",
        banners={word: text for word, text in banners.items() if text}, sections=_sections(found, made),
    )  # fmt: skip


def _sections(found: Fact, made: dict[str, str | bytes]) -> dict[str, list[Any]]:
    """Heading -> its parts: a definition list, a table (heads, rows), a sentence, or Markup."""
    from markupsafe import Markup

    told, recipe, phases = found["told"], found["recipe"], found["phases"]
    drawn = {"Training dynamics": "dynamics", "Loss and accuracy": "curve", "Sizes of codebooks": "elbow"}
    figures = {head: [_drawing(found, name, made[f"{name}.svg"])] for head, name in drawn.items() if f"{name}.svg" in made}
    ordered = sorted((k for k in recipe if k != "stages"), key=lambda k: [*_WORDS, k].index(k))
    settings = ["Setting", "Stage 1", "Stage 2"], [[_word(k), *(_said(s[k]) for s in recipe["stages"])] for k in recipe["stages"][0]]
    times = [(_HEADS, _phases(found)), *_notes(found)] if phases else ["Told when both stages are finished."]
    with_what = {_word(k): _said(v) for k, v in told.get("made_with", {}).items() if k != "dirty" and v is not None}
    if told.get("made_with", {}).get("dirty") and "Commit" in with_what:
        with_what["Commit"] += " with uncommitted changes"
    return {
        "Recipe": [{_word(k): _said(recipe[k]) for k in ordered}, settings],
        "Data": [_data(found)],
        "Codebooks": [_books(found), f"Met, perplexity: on the validation split of {recipe['task']}. Whole digests: codebook.json."],
        "Selection": [_selection(found), f"t*: the earliest kept encoder within {100 * MARGIN:g} of the best. Probe: {_PROBE}."],
        **figures, "Time": times, "Made with": [with_what or "Told when both stages are finished."],
        "Files": [Markup(" ").join(Markup('<a href="{0}">{0}</a>').format(name) for name in made)],
    }  # fmt: skip


_WORDS = {
    "name": "Name", "digest": "Digest", "datasets": "Corpora", "task": "Development task", "descriptor": "Descriptor of stage 1",
    "codes": "Codes of stage 1", "refined": "Codes of stage 2", "block": "Stage 2 clusters nodes of block", "init": "Stage 2 starts from",
    "probe_records": "Training recordings of a probe", "windows": "Windows for entropy and cosine", "kept": "Recordings in memory as",
    "seed": "Seed", "adamw": "Decoupled weight decay (AdamW)", "batch": "Recordings per step", "micro": "Recordings per pass",
    "edge_drop": "Edges within leads left out", "lr": "Learning rate", "probe_every": "Steps between kept encoders",
    "ratio": "Masked share of the nodes of a lead",
}  # fmt: skip


def _word(key: str) -> str:
    return _WORDS.get(key, key.replace("_", " ").capitalize())


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "all", True: "yes", False: "no"}[value]
    return _code(value) if isinstance(value, str) and re.fullmatch("[0-9a-f]{40,}", value) else value


def _code(text: str, most: int | None = None) -> Any:
    from markupsafe import Markup

    return Markup("<code>{}</code>").format(text if most is None else f"{text[:most]}…")


def _drawing(found: Fact, name: str, svg: Any) -> Any:
    """A figure inside the page; its ids are made its own, for several drawings stand in one page."""
    from markupsafe import Markup

    inside = svg.decode()
    inside = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", inside[inside.index("<svg") :])
    sheet = '<figure><div class="sheet" role="img" aria-label="{}">{}</div></figure>'
    return Markup(sheet).format(caption(found, name), Markup(inside))


_PROBE = "macro AUROC × 100 of a linear head on frozen features, validation split of the development task"
_LEFT_OUT = {
    "id": "PTB-XL's validation or test folds under another name", "patient": "of a patient of a validation or test split",
    "signal": "with the samples of a validation or test recording",
}  # fmt: skip


def _data(found: Fact) -> dict[str, Any]:
    corpora, split = found["corpora"], found["told"].get("development", {})
    gone = [f"{n:,} {_LEFT_OUT.get(why, why)}" for why, n in corpora.get("left_out", {}).items()]
    return {
        "Recordings": f"{corpora['records']:,} to train on; {corpora['too_short']:,} too short for a window" if split else "--",
        "Left out": "; ".join(gone) or "none",
        "Development": f"{split['task']}: {split['train']:,} training and {split['validation']:,} validation recordings" if split else "--",
        "Digest of the corpus": _code(corpora.get("corpus", "--")),
        **{f"Prepared {name}": _code(digest) for name, digest in corpora.get("datasets", {}).items()},
    }


def _books(found: Fact) -> tuple[list[str], list[list[Any]]]:
    rows = []
    for stage in found["stages"]:
        of = stage["books"].get("description", {})
        what = of.get("name") or f"nodes of block {of.get('block')} of encoder {str(of.get('network'))[:12]}…"
        for size in stage["sizes"] if stage["books"] else ():
            one = stage["books"]["codebooks"][str(size)]
            rows.append([f"{stage['name']}: {what}", f"{size:,}", f"{one['used']:,}", f"{one['perplexity']:.1f}", _code(one["digest"], 16)])
    return ["Clustered", "Codes", "Met", "Perplexity", "Digest"], rows


def _selection(found: Fact) -> tuple[list[str], list[list[Any]]]:
    rows = []
    for stage in found["stages"]:
        chosen, last = stage["selected"], stage["curve"][-1] if stage["curve"] else {}
        accuracy = " / ".join(f"{100 * value:.1f}" for key, value in last.items() if key.startswith("accuracy_"))
        told = [f"{chosen['step']:,}", f"{100 * chosen['score']:.2f}", f"{100 * stage['best']:.2f}"] if chosen else ["--"] * 3
        made = [f"{len(stage['checkpoints']):,}", *([f"{last['step']:,}", f"{last['loss']:.4f}", accuracy] if last else ["--"] * 3)]
        rows.append([stage["name"], *told, *made, _code(chosen["encoder"], 16) if chosen else "--"])
    return ["Stage", "t*", "Probe at t*", "Best probe", "Encoders", "Steps", "Last loss", "Last accuracy, %", "Encoder of t*"], rows
