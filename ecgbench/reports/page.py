"""The page: index.html, one file that opens from disk and asks nothing of any network.

It states what the rows say, shows the main table and the lead curve, and carries what a reviewer asks for: comparisons,
what has no number and why, scores per label, data, models, provenance. The tables it quotes lie beside it as CSV.
"""

import re
from pathlib import Path
from typing import Any

from ecgbench.files import put
from ecgbench.reports import _facts, _findings, _form, lead_curve, main_table
from ecgbench.reports._form import Fact
from ecgbench.results.notes import GRAVE, PENDING
from ecgbench.results.study import Study

TEMPLATES = Path(__file__).parent / "templates"


def facts(study: Study) -> dict[str, Any]:
    """`table` and `curve` (facts of those reports), and one entry per section of the page."""
    table = main_table.facts(study)
    kept = _facts.survival(table)
    compared, gaps = _facts.comparisons(study), _gaps(study, table)
    return {
        "table": table,
        "curve": lead_curve.facts(study),
        "findings": _findings.findings(table, kept, compared, gaps),
        "banners": banners(study),
        "about": [text for text in table["about"] if not _grave(text)],
        "survival": kept,
        "survival_leads": list(dict.fromkeys(kept_at["leads"] for row in kept for kept_at in row["kept"])),
        "comparisons": compared,
        "gaps": gaps,
        "labels": labels(study, table),
        "beside": {
            f"{name}.csv": {"columns": list(frame.columns), "rows": _facts.records(frame)}
            for name, frame in (("comparisons", study.comparisons), ("cells", study.cells), ("labels", study.labels))
        },
        "data": [_plain(data) for data in study.datasets],
        "models": [_plain(model) | {"policies": _policies(table, model["name"])} for model in study.models],
        "notes": list(study.notes),
        "provenance": _plain(study.provenance),
    }


def draw(facts: dict[str, Any], folder: Path) -> list[Path]:
    """Write index.html and the CSV files it links to (the same bytes main_table and lead_curve write); returns their paths."""
    beside = {
        "main_table.csv": main_table.csv_text(facts["table"]),
        "lead_curve.csv": lead_curve.csv_text(facts["curve"]),
        **{name: _form.table_text(one["columns"], one["rows"]) for name, one in facts["beside"].items()},
    }
    return [put(folder / "index.html", html(facts)), *(put(folder / name, text) for name, text in beside.items())]


def html(facts: Fact) -> str:
    """index.html as text; every value is escaped by the template engine, the drawing is our own."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        return _form.visible(value) if type(value) is str else value  # Markup is ours

    page = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, finalize=shown)
    page.trim_blocks = page.lstrip_blocks = True
    spell = (_form.points, _form.signed, _form.chance, _form.millions, _form.clock, _form.moment, _form.counted, _form.enumerated)
    page.filters |= {word.__name__: word for word in spell} | {"doi": doi, "setting_words": _facts.setting_words, "marked": _facts.marked}
    drawing = Markup(lead_curve.svg_text(facts["curve"]))
    signs = main_table.marks(facts["table"])
    return page.get_template("page.html.j2").render(
        **facts, signs=signs, ranked=main_table.ranked(facts["table"]), spread=main_table.spread(facts["table"]), svg=drawing,
        caption=lead_curve.caption(facts["curve"]), title=title(facts), contract_words=contract_words, bracket=_form.bracket,
    )  # fmt: skip


def title(facts: Fact) -> str:
    """`LAEF and ST-MEM on PTB-XL Super`."""
    models = list(dict.fromkeys(head["title"] for head in facts["table"]["columns"]))
    tasks = [task["title"] for task in facts["table"]["tasks"]]
    who = _form.enumerated(models) if len(models) <= 4 else f"{len(models)} models"
    return f"{who or 'Nothing'} on {(_form.enumerated(tasks) if len(tasks) <= 3 else f'{len(tasks)} tasks') or 'nothing'}"


def doi(text: str) -> str:
    """The address of a DOI given bare or as an address: always at doi.org.

    >>> doi("10.13026/kfzx-aw45"), doi("https://doi.org/10.1/x")
    ('https://doi.org/10.13026/kfzx-aw45', 'https://doi.org/10.1/x')
    """
    from urllib.parse import quote

    return "https://doi.org/" + quote(re.sub(r"^(https?://(dx\.)?doi\.org/|doi:)", "", text.strip()), safe="/().;-_:")


_WHERE = {"native": "before resampling", "record": "after resampling", "window": "each window"}


def contract_words(contract: Fact) -> str:
    """An input contract in one line: `100 Hz, windows of 5 s, 12 leads, 0.05-47 Hz, minmax-per-lead`."""
    band = contract.get("filter")
    words = [f"{contract['fs']:g} Hz", f"windows of {contract['seconds']:g} s", _form.counted(len(contract["leads"]), "lead")]
    words.append(
        f"band-pass {band['low']:g}–{band['high']:g} Hz ({band['kind']}, {_WHERE[band.get('where', 'native')]})" if band else "no filter"
    )
    words.append(f"limited to ±{contract['clip']:g} mV" if contract.get("clip") else "")
    words.append(f"normalisation {contract['normalisation']}" + (" of each window" if contract.get("scope") == "window" else ""))
    words.append(f"a window every {contract['stride']:g} s" if contract.get("stride") else "")
    words.append(f"the leads joined and decimated by {contract['decimate']}" if contract.get("decimate", 1) > 1 else "")
    return f"{contract['name']}: " + ", ".join(filter(None, words))


def banners(study: Study) -> list[dict[str, str]]:
    """What nobody may overlook, from the notes: synthetic data, random weights, a limit, what is not finished, failed or skipped."""
    found = []
    for text in filter(_grave, study.notes):
        word, _, rest = text.partition(": ")
        found.append({"word": word.capitalize(), "text": rest[:1].upper() + rest[1:]})
    return found


def _grave(note: str) -> bool:
    return note.startswith(tuple(f"{word}: " for word in GRAVE))


def _gaps(study: Study, table: Fact) -> list[dict[str, Any]]:
    """`_facts.gaps` with titles: cells without a number, one entry per task, column, status and reason."""
    names = {(head["model"], head["policy"]): head["label"] for head in table["columns"]}
    titles = {task["task"]: task["title"] for task in table["tasks"]}
    return [
        gap | {
            "title": titles[gap["task"]], "label": names[gap["model"], gap["policy"]],
            "settings": _facts.settings_words(gap["leads"]), "reason": gap["reason"].removeprefix(f"{PENDING}; "),
        }
        for gap in _facts.gaps(study)
    ]  # fmt: skip


def labels(study: Study, table: Fact) -> list[dict[str, Any]]:
    """Per task and lead setting: label, n, positives and the AUROC of each column, mean over lead draws; None where undefined."""
    typed = {(c["task"], c["model"], c["setting"], c["policy"]): str(c["leads"]) for c in _facts.records(study.cells)}
    gathered: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in _facts.records(study.labels):
        leads = typed.get((row["task"], row["model"], row["setting"], row["policy"]), str(row["setting"]).partition("@")[0])
        one = gathered.setdefault((row["task"], leads), {}).setdefault(
            row["label"], {"n": row["n"], "positives": row["positives"], "of": {}}
        )
        one["of"].setdefault((row["model"], row["policy"]), []).append(row["auroc"])
    made = []
    for task in table["tasks"]:
        for line in task["lines"]:
            found = gathered.get((task["task"], line["leads"]), {})
            rows = [
                {"label": name, "n": one["n"], "positives": one["positives"], "auroc": _means(one["of"], table)}
                for name, one in found.items()
            ]
            if rows:
                made.append({"task": task["task"], "title": task["title"], "leads": line["leads"], "rows": rows})
    return made


def _means(of: dict[tuple[str, str], list[float | None]], table: Fact) -> list[float | None]:
    made: list[float | None] = []
    for head in table["columns"]:
        values = of.get((head["model"], head["policy"]), [])
        there = [value for value in values if value is not None]
        made.append(sum(there) / len(there) if there and len(there) == len(values) else None)
    return made


def _policies(table: Fact, model: str) -> list[str]:
    return [head["policy"] for head in table["columns"] if head["model"] == model]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else _facts.plain(value)
