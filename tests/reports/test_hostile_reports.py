"""Names that mean harm are text in every file of a report: page, drawing, LaTeX, Markdown and
CSV.
"""

import base64
import csv
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ecgbench import reports
from ecgbench.core.note import Note, Notes
from ecgbench.reports import write
from tests import by_hand as make

pytestmark = [pytest.mark.long, pytest.mark.rendered]


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "../../x",
    "\\input{x}\\write18{id}",
    "=cmd()",
    "+1",
    "@SUM(1)",
    "-2+3",
    "\t=1",
    "\r=1",
    "two\nlines",
    "a\r\nb,c\"d'e`f`",
    "| a | b |",
    "$x^{$",
    "_legend",
    "{{ 7 * 7 }}",
    "%n#&~^",
    "--> ]]> <!--",
    "long " * 400,
    "\u202egnp.exe\u2066",
    "שלום 心电图",
    "nul\x00bell\x07esc\x1b[2J\x9b",
    "'",
    "[a](javascript:alert(1))",
)
HALF = "half\udcff"
"""A name of bytes that are no UTF-8, as the system tells it; tables refuse it, commands and notes
may hold it.
"""


class Page(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.lasttag == "script" and data.strip():
            self.scripts.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Every name is a model, a policy, a label, a record, a reason, the label of a reason not to
    test and a fact of provenance; four of them are tasks.
    """
    tasks = [HOSTILE[i] for i in (0, 3, 4, 13)]
    rows = []
    for t in tasks:
        rows += [
            make.row(t, name, "1", 0.6 + 0.01 * i, 0.01, policy=name, best=i == 0)
            | {"note": Notes([Note("test", f"80% of the variance comes from the label {name}")])}
            for i, name in enumerate(HOSTILE)
        ]
        rows += [make.row(t, HOSTILE[1], "12", 0.9, policy=HOSTILE[1])]
        rows += [
            make.row(t, HOSTILE[i], "2", status="failed", policy=HOSTILE[i]) for i in (0, 4, 6)
        ]
    evil = {"summary": HOSTILE[0], "paper": HOSTILE[3], "licence": HOSTILE[6]}
    evil |= {"objective": HOSTILE[1], "corpora": (HOSTILE[1],)}
    source = dict.fromkeys(("file", "sha256", "licence", "terms"), HOSTILE[1])
    evil |= {"weights_source": source, "contract": make.CONTRACT | {"absent": HOSTILE[0]}}
    study = make.build(
        rows,
        {(name, "2"): name for name in HOSTILE},
        models=[make.model(name, name, 1_000_000, **evil) for name in HOSTILE],
        tasks=[make.task(t, t) for t in tasks],
        notes=[Note("", text) for text in (*HOSTILE, HALF)],
        datasets=[
            make.dataset(
                title=HOSTILE[0],
                doi='10.1/"><script>',
                quarantined=tuple({"record": n, "reason": n} for n in HOSTILE),
            )
        ],
        provenance=replace(
            make.PROVENANCE,
            commands=(replace(make.PROVENANCE.commands[0], command=HALF),),
            packages={n: n for n in HOSTILE},
        ),
    )
    study.labels["label"] = [HOSTILE[i % len(HOSTILE)] for i in range(len(study.labels))]
    place = tmp_path_factory.mktemp("hostile") / "deep" / "report"
    asked = ["against"]  # which an option asks for
    written = write(study, place, also=asked)
    assert {p.parent for p in written} == {place}
    assert {p.name for p in place.parent.iterdir()} == {"report"}
    assert sorted(place.iterdir()) == sorted(written)
    return place


def test_the_page_holds_text_only(folder):
    text = (folder / "index.html").read_text()
    page = Page(text)
    seen = page.seen
    tags = {tag for tag, _ in seen}
    assert not tags & {"img", "iframe", "object", "link", "base", "form", "embed"}
    for tag, attrs in seen:
        assert not any(name.startswith("on") for name in attrs)
        if tag == "image" and (attrs["href"] or "").startswith("data:image/png;base64,"):
            continue  # a part of a drawing of ours
        assert not any(
            re.match(r"\s*(javascript|data):", attrs.get(k) or "", re.IGNORECASE)
            for k in ("href", "src", "xlink:href")
        )
    ids = [attrs["id"] for _, attrs in seen if "id" in attrs]
    assert len(ids) == len(set(ids))
    beside = {path.name for path in folder.iterdir()}
    for link in (str(attrs["href"]) for tag, attrs in seen if tag != "image" and "href" in attrs):
        inside = link[1:] in ids if link.startswith("#") else link in beside
        assert inside or link.startswith("https://doi.org/")
    style = text.partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    (program,) = page.scripts
    assert program == (Path(reports.__file__).parent / "templates/page.js").read_text()
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20
    assert "{{ 7 * 7 }}" in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b\x80-\x9f]", text)
    assert "U+202Egnp.exe" in text
    assert "שלום" in text


def _unescaped(text: str, sign: str) -> int:
    return len(re.findall(rf"(?<!\\)(?:\\\\)*{re.escape(sign)}", text))


def test_latex_runs_nothing_and_its_braces_match(folder):
    text = (folder / "main_table.tex").read_text()
    ours = (
        "begin end caption label centering setlength tabcolsep belowcaptionskip scriptsize toprule "
        "midrule bottomrule endfirsthead endhead textsuperscript par smallskip linewidth uno due "
        "tre times usepackage providecommand textcolor textbackslash textless textgreater textbar "
        "textasciitilde textasciicircum texttt ldots dagger ddagger parbox resizebox ifdim width "
        "else fi raggedright arraybackslash shortstack tiny"
    )
    assert set(re.findall(r"\\([A-Za-z]+)", text)) <= set(ours.split())
    body = re.sub(r"(?m)(?<!\\)%.*$", "", text)
    assert _unescaped(body, "{") == _unescaped(body, "}")
    assert _unescaped(body, "$") % 2 == 0
    assert text.count(r"\textless{}script\textgreater{}alert(1)") > 3
    assert r"\texttt{U+5FC3}" in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_markdown_tables_keep_their_columns_and_tags_are_text(folder):
    text = (folder / "main_table.md").read_text()
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({_unescaped(line, "|") for line in block.splitlines()}) == 1
    assert not re.search(r"(?<!\\)<(?!/?(?:ins|sup)>)", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    assert "`" not in text.replace("\\`", "")


def test_no_cell_of_a_csv_is_a_formula_and_numbers_are_untouched(folder):
    for path in folder.glob("*.csv"):
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        assert len({len(row) for row in rows}) == 1, path.name
        cells = [cell for row in rows[1:] for cell in row]
        assert not [c for c in cells if re.match(r"\s*[=+@＝＋－＠]|[\t\r\n]", c)], path.name
        assert not [
            c for c in cells if re.match(r"\s*-", c) and not re.fullmatch(r"-[\d.e+-]+", c)
        ], path.name
        assert "\r" not in path.read_bytes().decode()
    table = {row["model"] for row in csv.DictReader((folder / "main_table.csv").open(newline=""))}
    assert {
        "<script>alert(1)</script>",
        "'=cmd()",
        "'+1",
        "'@SUM(1)",
        "'-2+3",
        "../../x",
        "two\nlines",
        "'\n=1",
    } <= table
