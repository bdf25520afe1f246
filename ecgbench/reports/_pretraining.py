"""The report of a pre-training, from the JSON and CSV files that `ecgbench pretrain` leaves; of one that is not finished, what is there."""

import io
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ecgbench.errors import BadWeights, MissingData
from ecgbench.files import put, sweep
from ecgbench.reports import _form, lead_curve, page
from ecgbench.reports._cost import _latex_table, _markdown_table
from ecgbench.reports._form import Fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPE, REPORT = "recipe.json", "pretraining.json"
MARGIN = 0.001
"""That of `pretraining.selection`, which needs torch."""
LAYERS = ("embedder", "block 1", "block 2")
PHASES = ("phase", "seconds", "records", "device", "projected_records", "projected_seconds", "paper_seconds")
OWN = "LAEF's weights as this project makes them by the recipe below, not the checkpoint of the paper."
SYNTHETIC = "Recordings of the demo are computed, not measured: no number here says anything about patients, and the weights are of no use."
MOST = 1000
"""Points of one line; of more steps, the extremes of equal parts are drawn."""
_STAR: Fact = {"color": "#333333", "linewidth": 1.1, "linestyle": ":", "zorder": 2}
_KNOWN: Fact = {"color": "#D55E00", "linewidth": 1.2, "linestyle": "--", "zorder": 2}


def is_one(folder: Path) -> bool:
    """Whether a folder is a pre-training's, and not a run's."""
    return any((folder / name).is_file() for name in (RECIPE, REPORT)) and not (folder / "plan.json").exists()


def draw(folder: Path, to: Path | None = None) -> list[Path]:
    """Write index.html and what is there of dynamics, elbow (.png, .svg, .csv), curve (.png, .svg) and phases (.csv, .md, .tex).

    to: where, `folder`/report if left out. MissingData: nothing is there yet; BadWeights: a damaged file; WriteError.
    """
    found, place = facts(folder), to or folder / "report"
    made: dict[str, str | bytes] = {}
    for name, (key, _) in _FIGURES.items():
        if any(stage[key] for stage in found["stages"]):
            with _figure(found, name) as figure:
                made |= {f"{name}.{kind}": lead_curve._bytes(figure, kind) for kind in ("png", "svg")}
    made |= {f"{name}.csv": _form.table_text(list(rows[0]), rows) for name, rows in _tables(found).items() if rows}
    if found["phases"]:
        made |= {"phases.md": _markdown(found), "phases.tex": _latex(found)}
    sweep(place, below=False)
    return [put(place / name, content) for name, content in {**made, "index.html": _html(found, made)}.items()]


def facts(folder: Path) -> dict[str, Any]:
    """`recipe`, `told` (pretraining.json, or {}), `stages` that began, `phases`, `corpora` (digests), `data` (in words), `synthetic`, `open`.

    Of a stage: name, sizes and books (codebooks), curve, elbow and checkpoints (rows), best (score), selected. `open`: what says that
    there is more to come, else empty.
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
    whole = told and all(told["stages"][name]["steps"] == steps for name, steps in reached.items())
    return {
        "recipe": recipe, "told": told, "stages": stages, "phases": told.get("phases", []), "corpora": told.get("data") or claimed,
        "data": ", ".join(f"{name} (synthetic)" if name == "demo" else name for name in recipe["datasets"]),
        "synthetic": "demo" in recipe["datasets"], "open": "" if whole else more,
    }  # fmt: skip


def _stage(folder: Path, recipe: Fact, number: int) -> dict[str, Any]:
    kept = sorted((_read(path, json.loads) for path in folder.glob("encoders/*.json")), key=lambda one: one["step"])
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


def _rows(text: str) -> list[dict[Any, Any]]:
    """Rows of a table; a last line that a kill tore is none."""
    whole = text[: text.rfind("\n") + 1]
    return pd.read_csv(io.StringIO(whole), float_precision="round_trip").to_dict("records") if whole else []


def _tables(found: Fact) -> dict[str, list[dict[str, Any]]]:
    """Rows of the CSV files."""
    data = {"data": found["data"]}
    dynamics = [
        {"stage": s["name"], "step": one["step"], "layer": LAYERS[layer["block"]]} | {k: layer[k] for k in ("entropy", "intra", "inter")}
        | {"macro_auroc": one["score"], "selected": one is s["selected"]} | data
        for s in found["stages"] for one in s["checkpoints"] for layer in one["layers"]
    ]  # fmt: skip
    elbow = [{"stage": s["name"]} | row | {"chosen": row["codes"] in s["sizes"]} | data for s in found["stages"] for row in s["elbow"]]
    return {"dynamics": dynamics, "elbow": elbow, "phases": [{k: row[k] for k in PHASES} | data for row in found["phases"]]}


def caption(found: Fact, name: str) -> str:
    """What a figure shows."""
    split, means = f"validation split of {found['recipe']['task']}", [str(_window(s["curve"])) for s in found["stages"] if s["curve"]]
    said = {
        "dynamics": "Spectral entropy of the nodes of kept encoders: 0 one direction, 1 all directions alike. Cosine: mean over different "
        f"nodes that share an edge. Linear probe: frozen, mean-pooled features of twelve leads, {split}. Band: within {100 * MARGIN:g} of "
        "the best; t*: the earliest encoder in it.",
        "curve": "Loss: mean cross-entropy of the masked nodes, summed over codebooks. Accuracy: their share whose likeliest code is the "
        f"target. Running means over {_form.enumerated(means)} steps. Frequencies alone: entropy of the codes ({split}), the loss of who "
        "knows how often codes occur and nothing of the ECG.",
        "elbow": f"Codebooks fitted on the corpus, measured on held-out vectors scaled to length 1 ({split}). Inertia: mean squared distance "
        "to the nearest centre. Perplexity: exp of the entropy of the codes. Rings: sizes in use.",
    }  # fmt: skip
    return f"{said[name]} Data: {found['data']}.{' Not finished.' if found['open'] else ''}"


@contextmanager
def _figure(found: Fact, name: str) -> "Iterator[Figure]":
    import matplotlib
    from matplotlib.figure import Figure

    key, paint = _FIGURES[name]
    stages = [stage for stage in found["stages"] if stage[key]]
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change a published figure
        matplotlib.rcParams.update(lead_curve._STYLE)
        wide, high = (4.8 * max(1.5, len(stages)), 5.4) if name == "curve" else (10.4 if name == "dynamics" else 8.4, 2.7 * len(stages) + 1.1)
        figure = Figure(figsize=(wide, high), layout="constrained", facecolor="white")
        handles = paint(figure, stages)
        words = textwrap.fill(_form.shortened(caption(found, name), 900), int(14.2 * wide))
        figure.supxlabel(words, fontsize=7.5, color="#444444", x=0.01, ha="left")
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=2.4, fontsize=8.5, columnspacing=1.4)
        yield figure


def _line(label: str, **look: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **{"color": "#666666", "linewidth": 1.4} | look)


def _axis(ax: Any, stage: Fact, words: tuple[str, str], last: int | None = None) -> None:
    """Title and unit of a panel; with `last`, an axis of steps that shows t*."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    ax.set(title=f"{stage['name'].capitalize()}: {words[0]}", ylabel=words[1], xlabel="step" if last else "codes")
    ax.margins(y=0.12)
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if last:
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.set_xlim(0, 1.04 * last)
    if last and stage["selected"]:
        ax.axvline(stage["selected"]["step"], **_STAR)


def _dynamics(figure: "Figure", stages: Sequence[Fact]) -> list[Any]:
    grid = figure.subplots(len(stages), 3, squeeze=False)
    for (spread, cosine, probe), stage in zip(grid, stages):
        kept, best, chosen = stage["checkpoints"], 100 * stage["best"], stage["selected"]
        steps, size = [one["step"] for one in kept], 4.5 if len(kept) <= 40 else 0
        for at in range(len(LAYERS)):
            of = {key: [one["layers"][at][key] for one in kept] for key in ("entropy", "intra", "inter")}
            look = lead_curve._look(at) | {"linewidth": 1.5, "markersize": size}
            spread.plot(steps, of["entropy"], **look)
            cosine.plot(steps, of["intra"], **look)
            cosine.plot(steps, of["inter"], **look | {"linestyle": "--", "markerfacecolor": "white"})
        probe.axhspan(best - 100 * MARGIN, best, color="#E69F00", alpha=0.3, linewidth=0, zorder=1)
        probe.plot(steps, [100 * one["score"] for one in kept], "o-", color="#000000", linewidth=1.5, markersize=size)
        probe.plot(chosen["step"], 100 * chosen["score"], "o", color="#D55E00", markersize=9, fillstyle="none", mew=1.6, zorder=4)
        side, shift = ("left", 5) if chosen["step"] < 0.55 * steps[-1] else ("right", -5)
        where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 8.5}
        probe.annotate(f"t* = {chosen['step']:,}", (chosen["step"], 0.04), (shift, 0), ha=side, **where)
        _axis(spread, stage, ("spectral entropy", "normalised entropy"), steps[-1])
        _axis(cosine, stage, ("edge-wise cosine", "mean cosine"), steps[-1])
        _axis(probe, stage, ("linear probe", "macro AUROC × 100"), steps[-1])
    for row in grid[1:, :2]:  # so that stages compare; differences of the probe are too small for it
        row[0].sharey(grid[0, 0])
        row[1].sharey(grid[0, 1])
    layers = [_line(name, **lead_curve._look(at), markersize=5) for at, name in enumerate(LAYERS)]
    return [*layers, _line("within leads (intra)"), _line("between leads (inter)", linestyle="--"), _line("t*, selected", **_STAR)]


def _curve(figure: "Figure", stages: Sequence[Fact]) -> list[Any]:
    for (loss, accuracy), stage in zip(figure.subplots(2, len(stages), squeeze=False).T, stages):
        curve, books = pd.DataFrame(stage["curve"]), stage["books"].get("codebooks")
        _run(loss, curve["loss"], lead_curve.COLOURS[0])
        for at, size in enumerate(stage["sizes"]):
            _run(accuracy, 100 * curve[f"accuracy_{at + 1}"], lead_curve.COLOURS[at % 8], f"{size} codes")
        # No line of chance stands at the accuracy: naming the commonest code is right more often than 1/C, how often is not kept.
        if books:
            loss.axhline(sum(math.log(books[str(size)]["perplexity"]) for size in stage["sizes"]), **_KNOWN)
        _axis(loss, stage, ("loss", "loss (nats)"), len(curve))
        _axis(accuracy, stage, ("masked accuracy", "masked accuracy, %"), len(curve))
        accuracy.legend(fontsize=8)
    blue: dict[str, Any] = {"color": lead_curve.COLOURS[0]}
    single = _line("each step", **blue, alpha=0.35)
    return [single, _line("running mean", **blue), _line("frequencies alone", **_KNOWN), _line("t*, selected", **_STAR)]


def _window(curve: Sequence[Any]) -> int:
    """Steps of a running mean."""
    return max(1, min(500, len(curve) // 40))


def _run(ax: Any, values: "pd.Series[float]", colour: str, label: str = "") -> None:
    """Values of steps 1, 2, ..., and their running mean over it; of many, extremes that hide no peak."""
    mean = values.rolling(_window(values), center=True).mean().dropna()
    looks: list[dict[str, Any]] = [{"linewidth": 0.8, "alpha": 0.35}, {"linewidth": 1.6, "zorder": 3, "label": label}]
    for line, look in zip((values, mean), looks):
        parts = [line.iloc[at] for at in np.array_split(np.arange(len(line)), MOST // 2)] if len(line) > MOST else []
        kept = line.loc[sorted({at for part in parts for at in (part.idxmin(), part.idxmax())})] if parts else line
        ax.plot(kept.index + 1, kept, color=colour, **look)


def _elbow(figure: "Figure", stages: Sequence[Fact]) -> list[Any]:
    black, used, spread = {"color": "#000000", "marker": "o"}, lead_curve._look(0), lead_curve._look(1)
    for (inertia, usage), stage in zip(figure.subplots(len(stages), 2, squeeze=False), stages):
        sizes = [row["codes"] for row in stage["elbow"]]
        for ax, key, look in ((inertia, "inertia", black), (usage, "used", used), (usage, "perplexity", spread)):
            ax.plot(sizes, [row[key] for row in stage["elbow"]], linewidth=1.5, markersize=5, zorder=3, **look)
            rings = [(row["codes"], row[key]) for row in stage["elbow"] if row["codes"] in stage["sizes"]]
            ax.plot(*zip(*rings), "o", color=look["color"], markersize=11, fillstyle="none", mew=1.3) if rings else None
        usage.plot([0, sizes[-1]], [0, sizes[-1]], color="#999999", linewidth=1, linestyle=":")
        _axis(inertia, stage, ("inertia", "inertia per vector"))
        _axis(usage, stage, ("codes met", "codes"))
        inertia.set(xlim=(0, 1.05 * sizes[-1]), ylim=(0, None))
        usage.set(xlim=(0, 1.05 * sizes[-1]), ylim=(0, None))
    return [_line("codes in use", **used), _line("perplexity", **spread), _line("all codes", linestyle=":", color="#999999")]


_FIGURES = {"dynamics": ("checkpoints", _dynamics), "curve": ("curve", _curve), "elbow": ("elbow", _elbow)}


_HEADS = ("Phase", "Here", "Recordings", "Projected", "for recordings", "Paper")


def _duration(seconds: float) -> str:
    """A time for people: 0.2 s, 42 s, 11 min, 3.0 h, 30 days."""
    for limit, unit, word in ((10, 1, "{:.2g} s"), (120, 1, "{:.0f} s"), (7200, 60, "{:.0f} min"), (72 * 3600, 3600, "{:.1f} h")):
        if seconds < limit:
            return word.format(seconds / unit)
    return f"{seconds / 86400:,.0f} days"


def _phases(found: Fact) -> list[list[str]]:
    """Cells of the table of times, under `_HEADS`."""
    return [
        [
            row["phase"], _duration(row["seconds"]), f"{row['records']:,}", _duration(row["projected_seconds"]),
            f"{row['projected_records']:,}", _duration(row["paper_seconds"]),
        ]
        for row in found["phases"]
    ]  # fmt: skip


def _notes(found: Fact) -> list[str]:
    """Sentences under the table of times."""
    rows, sizes = found["phases"], [_form.enumerated([f"{row['codes']:,}" for row in s["elbow"]]) for s in found["stages"]]
    aside = sum(stage["probing_seconds"] for stage in found["told"]["stages"].values())
    trained = _form.enumerated([f"{row['projected_records']:,}" for row in rows if row["phase"].endswith("training")])
    return [
        f"Here: {rows[0]['device']}. Data: {found['data']}.",
        "Projected: the paper's amount of work on the device of this pre-training, at the seconds per recording measured here. Extraction "
        f"and clustering meet each of the paper's {rows[0]['projected_records']:,} ECGs once, one window of 5 s and 12 leads. Training "
        f"meets {trained} recordings, all steps of the paper's two stages, and makes the labels of each window anew, for none are stored.",
        "What does not grow with recordings (starting, compiling) is projected too: from few recordings the projection is far too long.",
        f"Clustering fits all codebooks of the elbow curves at once ({'; '.join(sizes)} codes), reading included. Not in the table: keeping "
        f"and measuring encoders ({_duration(aside)}).",
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


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ title }} · ecgbench</title>
<style>
{% include "page.css" %}

</style>
</head>
<body>
<header>
<p class="kicker">ecgbench · when only some of the 12 leads are measured</p>
<h1>{{ title }}</h1>
<p class="sub">{{ sub }}</p>
{% for word, text in banners.items() %}
<p class="banner" role="note"><strong>{{ word }}.</strong> {{ text }}</p>
{% endfor %}
<nav aria-label="Sections">{% for head in sections %}<a href="#s{{ loop.index }}">{{ head }}</a> {% endfor %}</nav>
</header>
<main>
{% for head, parts in sections.items() %}
<section id="s{{ loop.index }}">
<h2>{{ head }}</h2>
{% for part in parts %}
{% if part is escaped %}
{{ part }}
{% elif part is string %}
<p class="fine">{{ part }}</p>
{% elif part is mapping %}
<dl>
{% for word, value in part.items() %}
<dt>{{ word }}</dt><dd>{{ value }}</dd>
{% endfor %}
</dl>
{% else %}
<div class="wide"><table>
<thead><tr>{% for cell in part[0] %}<th scope="col"{% if not loop.first %} class="n"{% endif %}>{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in part[1] %}
<tr>{% for cell in row %}{% if loop.first %}<th scope="row">{{ cell }}</th>{% else %}<td class="n">{{ cell }}</td>{% endif %}{% endfor %}</tr>
{% endfor %}
</tbody>
</table></div>
{% endif %}
{% endfor %}
</section>
{% endfor %}
</main>
</body>
</html>
"""


def _html(found: Fact, made: dict[str, str | bytes]) -> str:
    """index.html, around the drawings and beside the files of `made`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    def shown(value: Any) -> Any:
        return _form.visible(value) if type(value) is str else value  # Markup is ours

    sheet = Environment(loader=FileSystemLoader(page.TEMPLATES), autoescape=True, undefined=StrictUndefined, finalize=shown)
    sheet.trim_blocks = sheet.lstrip_blocks = True
    recipe = found["recipe"].get("name")
    banners = {"Own weights": OWN, "Synthetic": SYNTHETIC if found["synthetic"] else "", "Not finished": found["open"]}
    return sheet.from_string(_PAGE).render(
        title=f"LAEF, pre-trained by recipe {recipe}" if recipe else "LAEF, in pre-training", sub=f"Data: {found['data']}",
        banners={word: text for word, text in banners.items() if text}, sections=_sections(found, made),
    )  # fmt: skip


def _sections(found: Fact, made: dict[str, str | bytes]) -> dict[str, list[Any]]:
    """Heading -> its parts: a definition list, a table (heads, rows), a sentence, or Markup."""
    from markupsafe import Markup

    told, recipe, phases = found["told"], found["recipe"], found["phases"]
    drawn = {"Training dynamics": "dynamics", "Loss and accuracy": "curve", "Sizes of codebooks": "elbow"}
    figures = {head: [_drawing(found, name, made[f"{name}.svg"])] for head, name in drawn.items() if f"{name}.svg" in made}
    settings = ["Setting", "Stage 1", "Stage 2"], [[_word(k), *(_said(s[k]) for s in recipe["stages"])] for k in recipe["stages"][0]]
    times = [(_HEADS, _phases(found)), *_notes(found)] if phases else ["Told when both stages are finished."]
    with_what = {_word(k): _said(v) for k, v in told.get("made_with", {}).items() if k != "dirty"}
    if told.get("made_with", {}).get("dirty"):
        with_what["Commit"] += " with uncommitted changes"
    return {
        "Recipe": [{_word(k): _said(v) for k, v in recipe.items() if k != "stages"}, settings],
        "Data": [_data(found)],
        "Codebooks": [_books(found), f"Met codes and perplexity: on the validation split of {recipe['task']}. Whole digests: codebook.json."],
        "Selection": [_selection(found), f"t*: the earliest kept encoder within {100 * MARGIN:g} of the best linear probe."],
        **figures, "Time": times, "Made with": [with_what or "Told when both stages are finished."],
        "Files": [Markup(" ").join(Markup('<a href="{0}">{0}</a>').format(name) for name in made)],
    }  # fmt: skip


_WORDS = {
    "adamw": "Decoupled weight decay (AdamW)", "block": "Nodes clustered in stage 2: of block", "codes": "Codes of stage 1",
    "refined": "Codes of stage 2", "init": "Stage 2 starts from", "kept": "Recordings in memory", "lr": "Learning rate",
    "micro": "Recordings per pass", "batch": "Recordings per step", "probe_every": "Steps between kept encoders",
    "probe_records": "Training recordings of a probe", "ratio": "Masked share of the nodes of a lead", "task": "Development task",
    "windows": "Windows for entropy and cosine", "edge_drop": "Edges within leads left out", "datasets": "Corpora",
}  # fmt: skip


def _word(key: str) -> str:
    return _WORDS.get(key, key.replace("_", " ").capitalize())


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "--", True: "yes", False: "no"}[value]
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
        last, chosen = stage["curve"][-1] if stage["curve"] else {"step": 0, "loss": float("nan")}, stage["selected"]
        accuracy = " / ".join(f"{100 * v:.1f}" for k, v in last.items() if k.startswith("accuracy_"))
        told = [f"{chosen['step']:,}", f"{100 * chosen['score']:.2f}"] if chosen else ["--", "--"]
        digest = _code(chosen["encoder"], 16) if chosen else "--"
        many = f"{len(stage['checkpoints']):,}"
        rows.append([stage["name"], *told, f"{100 * stage['best']:.2f}", many, f"{last['step']:,}", f"{last['loss']:.4f}", accuracy, digest])
    return ["Stage", "t*", "Probe at t*", "Best probe", "Encoders", "Steps", "Last loss", "Last accuracy, %", "Encoder of t*"], rows
