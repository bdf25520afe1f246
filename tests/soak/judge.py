"""One judge for every row: what was said, what the tables hold, and whether anything finished is
gone.
"""

import csv
import hashlib
import html
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.place import Place, Said
from tests.soak.row import BAD, Outcome, Row, Verdict

Line = tuple[str, ...]
Tables = dict[str, list[Line]]
"""Name -> its lines, the heading first."""
PAGE, CELLS = "index.html", "cells.csv"
OF_THE_COMMAND = ("provenance.csv", "commits.csv", "tested.csv")
"""They tell commands and times, which differ between two runs."""
COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
"""What the checkout was at, which may change while a soak runs."""
OF_A_CELLS_COMPUTING = ("seconds", "commit", "uncommitted", "key", "path", "recomputed")
"""With one recording less a cell has another key, and stands elsewhere."""
TOLD = re.compile(
    r"damage|renamed to|quarantin|cannot be read|cannot read|not what|is gone|are gone|anew|failed|"
    r"left out|lack|not kept|no longer|missing|does not|is not|do not belong together",
    re.IGNORECASE,
)
"""Words by which a text owns up to something that is not as it was."""
NUMBERS = ("value", "low", "high", "n_records", "n_patients", "n_labels", "weights")


@dataclass(frozen=True)
class Before:
    """The state of a place when the fault is in, and nothing was done about it yet."""

    finished: dict[str, Counter[str]] = field(default_factory=dict)
    """Folder of a finished cell or fit -> hashes of its files."""
    state: dict[str, str] = field(default_factory=dict)
    """Path -> what lies there."""


def look(place: Place) -> Before:
    """Before anything is done about a fault."""
    state = {str(p.relative_to(place.folder)): _what(p) for p in _below(place.folder)}
    finished: dict[str, Counter[str]] = {}
    for part in ("cells", "fits"):
        for path in _below(place.out / part):
            folder = path.parent.relative_to(place.folder)
            if not path.is_dir() and not any(name.startswith(".") for name in folder.parts):
                finished.setdefault(str(folder), Counter())[_what(path)] += 1
    return Before(finished, state)


def tables(place: Place) -> Tables:
    """Of its report; numbers that depend on the clock are left out, and the last digits, which
    depend on what else is computed with a number.
    """
    found: Tables = {}
    for file in sorted((place.folder / "report").glob("*.csv")):
        if file.name in OF_THE_COMMAND:
            continue
        text = COMMIT.sub("#", file.read_text(encoding="utf-8"))
        lines = list(csv.reader(text.splitlines(keepends=True)))
        if file.name == CELLS and lines:
            kept = [i for i, name in enumerate(lines[0]) if name not in OF_A_CELLS_COMPUTING]
            lines = [[line[i] for i in kept] for line in lines]
        found[file.name] = [tuple(map(_rounded, line)) for line in lines]
    page = place.folder / "report" / PAGE
    if page.exists():
        found[PAGE] = [(text,) for text in _words(page.read_text(encoding="utf-8"))]
    return found


def judge(row: Row, place: Place, before: Before, expected: Tables) -> Verdict:
    """What came of a row whose commands were given."""
    outcome, why = _found(row, place, before, expected)
    if outcome not in (*row.allowed, *BAD):
        return Verdict(row.id, "other", f"{outcome}: {why}")
    return Verdict(row.id, outcome, why)


def _found(row: Row, place: Place, before: Before, expected: Tables) -> tuple[Outcome, str]:
    for text in (said.text for said in place.said):
        if "Traceback (most recent call last)" in text:
            return "traceback", _error_of(text)
    if gone := _lost(place, before):
        return "lost", gone
    for said in place.said:
        lines = [line for line in said.err.splitlines() if line.startswith("ecgbench: ")]
        if said.code in (2, 130) and len(lines) != 1:
            return "other", f"{len(lines)} lines begin with `ecgbench: `: {said.err[-300:]}"
    last = place.said[-1]
    if last.code == 2:
        return "refused", lines[0][:300]
    if last.code not in (0, 1):
        return "other", f"exit code {last.code}: {last.text[-300:]}"
    acted = _acted(place, before)
    if row.check:
        if wrong := row.check(place):
            return "silent wrong number", wrong
        return ("repaired" if acted else "survived"), ""
    found = tables(place)
    outcome, why = compared(expected, found, place.said, acted)
    if outcome == "silent wrong number" and row.of and row.of in _told(place):
        return "named", f"without {row.of}"
    if outcome == "silent wrong number" and row.of and why == f"{CELLS} differs":
        # the numbers are the same, and each cell counts what it does not use
        out, before_it = (_excluded(t[CELLS]) for t in (found, expected))
        if out > before_it:
            return "named", f"{out} records excluded, {before_it} before"
    return outcome, why


def _excluded(lines: list[Line]) -> int:
    at = lines[0].index("excluded")
    return max(int(line[at]) for line in lines[1:])


def _told(place: Place) -> str:
    """All that was said, and the page without what scripts hold."""
    page = place.folder / "report" / PAGE
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return "".join([*(said.text for said in place.said), _plain(text)])


def compared(expected: Tables, found: Tables, said: list[Said], acted: bool) -> tuple[Outcome, str]:
    """What tables say beside those of the undamaged study. acted: whether what was damaged is not
    as damaged any more.
    """
    if found == expected:
        return ("repaired" if acted else "survived"), ""
    rows, named = _rows(expected), 0
    for key, row in _rows(found).items():
        if row["status"] != "ok":
            named += 1
        elif key not in rows or any(row[n] != rows[key][n] for n in NUMBERS if n in row):
            return "silent wrong number", f"main_table.csv: {' '.join(key)}"
    if gone := rows.keys() - _rows(found).keys():
        return "silent wrong number", f"main_table.csv lacks {' '.join(min(gone))}"
    if named:
        return "named", f"{named} rows without a number"
    differing = {n for n in expected if expected[n] != found.get(n)} | (found.keys() - expected)
    new = {line[0] for line in found.get(PAGE, [])} - {line[0] for line in expected[PAGE]}
    told = [text for text in (*new, *(s.text for s in said)) if TOLD.search(text)]
    for name in sorted(differing - {PAGE}):
        added = set(found.get(name, [])) - set(expected.get(name, []))
        if not told or added:
            return "silent wrong number", f"{name} differs"
    if not differing - {PAGE} and not told:
        return "silent wrong number", f"the page differs: {min(new, default='a line lacks')[:200]}"
    return "named", told[0][:200].strip()


def _rounded(text: str) -> str:
    try:
        return f"{float(text):.9g}" if "." in text else text
    except ValueError:
        return text


def _rows(found: Tables) -> dict[Line, dict[str, str]]:
    """Of the main table, by what they are of."""
    heading, *lines = found.get("main_table.csv") or [()]
    rows = [dict(zip(heading, line)) for line in lines]
    return {tuple(r[n] for n in ("metric", "task", "model", "leads", "policy")): r for r in rows}


def _plain(page: str) -> str:
    """Without styles, scripts and drawings."""
    return re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)


def _words(page: str) -> list[str]:
    """Sentences and cells of a page without its numbers, which stand in the tables."""
    body = re.sub(r"<section[^>]*provenance.*?</section>", " ", _plain(page), flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", "\n", body))
    text = re.sub(r"/\S+", "/…", text)
    text = re.sub(r"[0-9a-f]{7,}|\d[\d.,:-]*", "#", text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _lost(place: Place, before: Before) -> str:
    """What belonged to something finished and lies nowhere in the run any more, or ""."""
    there = {_what(path) for path in _below(place.out)}
    for folder, files in before.finished.items():
        if lacking := files.keys() - there:
            return f"{len(lacking)} of {len(files)} files of {folder}"
    return ""


def _acted(place: Place, before: Before) -> bool:
    """Whether what was damaged is not as it was damaged, or something was set aside."""
    now = {str(p.relative_to(place.folder)): _what(p) for p in _below(place.folder)}
    harmed = [str(path.relative_to(place.folder)) for path in place.harmed]
    mine = [p for p in {*now, *before.state} for h in harmed if p == h or p.startswith(f"{h}/")]
    aside = [p for p in now.keys() - before.state.keys() if "damaged" in p]
    return bool(aside) or any(now.get(p) != before.state.get(p) for p in mine)


def _what(path: Path) -> str:
    """A word for what lies at a path: a hash, where a link leads, or that it is a folder."""
    if path.is_symlink():
        return f"link {os.readlink(path)}"
    if path.is_dir():
        return "folder"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return str(error.strerror)


def _below(folder: Path) -> list[Path]:
    return [Path(at) / n for at, folders, files in os.walk(folder) for n in (*folders, *files)]


def _error_of(text: str) -> str:
    """The last line of a traceback, and where in the product it was raised."""
    trace = text[text.rindex("Traceback (most recent call last)") :].splitlines()
    places = [line.strip() for line in trace if "/ecgbench/" in line]
    errors = [line for line in trace[1:] if line and not line.startswith(" ")]
    where = re.sub(r'File ".*?/ecgbench/', "", places[-1]).replace('"', "") if places else ""
    return f"{errors[0] if errors else trace[-1]} ({where})"[:300]
