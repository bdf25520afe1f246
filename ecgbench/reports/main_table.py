"""The main table: macro AUROC by task and lead setting, a column per model, as CSV, Markdown and LaTeX.

The CSV is long (one row per task x model x setting, results.study.MAIN_COLUMNS, fractions at full precision) and every
number of the other files, of the page and of the figure is 100 x one of its values. Markdown and LaTeX have the form of
the paper that introduced LAEF: three ranks per row, an asterisk for what is not significantly worse than the best, a
dagger for tasks that are evaluated only.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ecgbench.files import put
from ecgbench.reports import _facts, _form
from ecgbench.reports._form import Fact
from ecgbench.results.study import MAIN_COLUMNS, Study

ASTERISK = "not significantly worse than the best of the row: the 95 % interval of the paired difference contains 0"
DAGGER = "evaluation only: the labels are columns of another task's predictions"
DOUBLE_DAGGER = "random weights: this column says nothing about a trained model"
SPREAD = "Random leads: mean (standard deviation over lead draws). "

_PREAMBLE = r"""% Needs \usepackage{booktabs}, \usepackage{multirow} and \usepackage{xcolor}.
% \uno, \due, \tre: best, second and third of a row, in the paper's red, blue and green.
\providecommand{\uno}[1]{\textcolor{red!70!black}{#1}}
\providecommand{\due}[1]{\textcolor{blue!70!black}{#1}}
\providecommand{\tre}[1]{\textcolor{green!50!black}{#1}}
"""
_RANK_LATEX = {1: r"\uno{%s}", 2: r"\due{%s}", 3: r"\tre{%s}", None: "%s"}
_RANK_MARKDOWN = {1: "**%s**", 2: "<ins>%s</ins>", 3: "*%s*", None: "%s"}


def facts(study: Study) -> dict[str, Any]:
    """`rows` (the CSV), `columns`, `tasks` and `footnotes` (the grid, see `_facts.grid`), `about` (sentences to print under it)."""
    told = study.provenance
    how = [f"{word} {told[word]}" for word in ("protocol", "contract") if told.get(word)]
    weights = list(dict.fromkeys(str(row["weights"]) for row in [*_facts.main_rows(study), *_facts.records(study.cells)] if row["weights"]))
    setting = f"{', '.join(how)}; weights: {_form.enumerated(weights) or 'none'}."
    about = [*study.notes, setting[0].upper() + setting[1:]]
    return {"rows": _facts.main_rows(study), **_facts.grid(study), "about": about}


def draw(facts: dict[str, Any], folder: Path) -> list[Path]:
    """Write main_table.csv, .md and .tex; returns their paths."""
    made = {"csv": csv_text(facts), "md": markdown_text(facts), "tex": latex_text(facts)}
    return [put(folder / f"main_table.{kind}", text) for kind, text in made.items()]


def csv_text(facts: Fact) -> str:
    """main_table.csv."""
    return _form.table_text(MAIN_COLUMNS, facts["rows"])


def marks(facts: Fact) -> dict[str, str]:
    """Sign -> meaning, of the signs this table uses."""
    cells = [cell for task in facts["tasks"] for line in task["lines"] for cell in line["cells"] if cell]
    used = {
        "*": (ASTERISK, any(cell["asterisk"] for cell in cells)),
        "†": (DAGGER, any(task["evaluation_only"] for task in facts["tasks"])),
        "‡": (DOUBLE_DAGGER, any(head["random"] for head in facts["columns"])),
    }
    return {sign: meaning for sign, (meaning, there) in used.items() if there}


def spread(facts: Fact) -> bool:
    """Whether any score is a mean over several lead draws."""
    return any(cell and cell["std"] is not None for task in facts["tasks"] for line in task["lines"] for cell in line["cells"])


def ranked(facts: Fact) -> bool:
    """Whether any row compares two models or more."""
    return any(cell and cell["rank"] for task in facts["tasks"] for line in task["lines"] for cell in line["cells"])


def markdown_text(facts: Fact) -> str:
    """main_table.md: rank as bold, underlined, italic; the interval beside a score that has one draw."""
    heads = [_form.markdown(head["label"]) + ("‡" if head["random"] else "") + _bracketed(head) for head in facts["columns"]]
    caption = f"Macro AUROC × 100. {SPREAD if spread(facts) else ''}One draw: estimate [95 % interval]."
    if ranked(facts):
        caption += " **Best**, <ins>second</ins> and *third* of a row, ranked before rounding."
    notes = [f"{_form.markdown(sign)} {_form.markdown(meaning)}." for sign, meaning in marks(facts).items()]
    notes += [f"<sup>{number}</sup> {_form.markdown(text)}" for number, text in enumerate(facts["footnotes"], 1)]
    notes += [_form.markdown(text) for text in facts["about"]]
    table = _markdown_table(facts, heads, _markdown_cell)
    intervals = "95 % intervals, × 100.\n\n" + _markdown_table(facts, heads, lambda cell: _form.bracket(cell["low"], cell["high"]) or "--")
    return "\n".join([caption, "", table, "", *(f"- {note}" for note in notes), "", intervals, ""])


def _bracketed(head: Fact) -> str:
    size = _form.millions(head["parameters"])
    return f" ({size})" if size else ""


def _markdown_table(facts: Fact, heads: Sequence[str], spell: Callable[[Fact], str]) -> str:
    lines = [["Task", "Leads", *heads], [":--", ":--", *("--:" for _ in heads)]]
    for task in facts["tasks"]:
        title = _form.markdown(task["title"]) + ("†" if task["evaluation_only"] else "")
        for number, line in enumerate(task["lines"]):
            cells = [spell(cell) if cell else "" for cell in line["cells"]]
            lines.append(["" if number else title, line["leads"], *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_cell(cell: Fact) -> str:
    if cell["macro_auroc"] is None:
        return f"--<sup>{cell['footnote']}</sup>" if cell["footnote"] else "--"
    text = _RANK_MARKDOWN[cell["rank"]] % _form.score(cell) + (r"\*" if cell["asterisk"] else "")
    interval = _form.bracket(cell["low"], cell["high"]) if cell["std"] is None else ""
    return f"{text} {interval}".strip()


def latex_text(facts: Fact) -> str:
    """main_table.tex: the table in the paper's form, then a table of its 95 % intervals; ready for `\\input`."""
    caption = r"Macro AUROC $\times$ 100 by task and measured leads $L$. "
    caption += SPREAD if spread(facts) else ""
    if ranked(facts):
        caption += r"\uno{Best}, \due{second} and \tre{third} of a row, ranked before rounding."
    caption = " ".join([caption.strip(), *(f"{_sign(sign)}~{_form.latex(meaning)}." for sign, meaning in marks(facts).items())])
    notes = [rf"\textsuperscript{{{number}}}~{_form.latex(text)}" for number, text in enumerate(facts["footnotes"], 1)]
    notes += [_form.latex(text) for text in facts["about"]]
    main = _latex_table(facts, "main", (caption, _latex_cell), notes)
    intervals = (r"95\,\% intervals of the main table, $\times$ 100.", _latex_interval)
    return "\n".join([_PREAMBLE, main, _latex_table(facts, "intervals", intervals, [])])


def _sign(sign: str) -> str:
    return {"*": "*", "†": r"$^\dagger$", "‡": r"$^\ddagger$"}[sign]


def _latex_table(facts: Fact, name: str, content: tuple[str, Callable[[Fact], str]], notes: Sequence[str]) -> str:
    caption, spell = content
    heads = facts["columns"]
    titles = [_form.latex(head["label"]) + (_sign("‡") if head["random"] else "") for head in heads]
    blocks = [_latex_block(task, spell) for task in facts["tasks"]]
    lines = [
        r"\begin{table}[htb!]", r"\centering", rf"\caption{{{caption}}}", rf"\label{{tab:ecgbench-{name}}}",
        r"\setlength{\tabcolsep}{3pt}", r"\footnotesize" if len(heads) <= 4 else r"\scriptsize" if len(heads) <= 6 else r"\tiny",
        rf"\begin{{tabular}}{{ll{'c' * len(heads)}}}", r"\toprule",
        " & ".join([r"\multirow{2}{*}{Task}", r"\multirow{2}{*}{$L$}", *titles]) + r" \\",
        " & ".join(["", "", *(_bracketed(head).strip() for head in heads)]) + r" \\", r"\midrule",
        "\n\\midrule\n".join(blocks), r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    if notes:
        lines += [r"\par\smallskip", r"\begin{minipage}{\linewidth}\scriptsize", *(f"{note}\\par" for note in notes), r"\end{minipage}"]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_block(task: Fact, spell: Callable[[Fact], str]) -> str:
    title = _form.latex(task["title"]) + (_sign("†") if task["evaluation_only"] else "")
    lines = []
    for number, line in enumerate(task["lines"]):
        first = "" if number else rf"\multirow{{{len(task['lines'])}}}{{*}}{{{title}}}"
        lines.append(" & ".join([first, line["leads"], *(spell(cell) if cell else "" for cell in line["cells"])]) + r" \\")
    return "\n".join(lines)


def _latex_cell(cell: Fact) -> str:
    if cell["macro_auroc"] is None:
        return "--" + (rf"\textsuperscript{{{cell['footnote']}}}" if cell["footnote"] else "")
    return _RANK_LATEX[cell["rank"]] % _form.score(cell) + ("*" if cell["asterisk"] else "")


def _latex_interval(cell: Fact) -> str:
    return _form.bracket(cell["low"], cell["high"]) or "--"
