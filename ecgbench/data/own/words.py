"""Columns of words, such as `AF; PVC`: which labels each record has, and what was assumed for it.
What may mean two things is asked for, with the line.
"""

import ast
import re
import shlex
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ecgbench.core.text import counted, shortened
from ecgbench.data.own.cells import MISSING, PAIRS, UNKNOWN_WORDS, Sheet, both_of, plain, shown
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN

COLUMNS = ("label", "labels")
NONE = "none"
"""The word of a record that has no label."""
LONGEST = 6
"""Words of a label that is looked for in others."""
GENERAL = {word for pair in PAIRS.items() for word in pair if len(word) > 1}
"""Words that name no label."""
_CERTAIN = re.compile(r"[;；|｜\r\n\t]")
_PERHAPS = re.compile(r"(?<=\S)\s*(?:[,，、/／+＋&＆\\]|\b(?:and|und)\b)\s*(?=\S)", re.I)
_LISTED = re.compile(
    r"(?:\w+\()?\s*(?P<list>[\[({].*?[\])}])(?:\s*,[^'\"]*)?\)?|#?\s*dx\s*[:=]\s*(?P<dx>.*)|"
    r"\d{6,}(?:[\s,]+\d{6,})+",
    re.I | re.S,
)
_NEGATED = re.compile(
    r"(?i)(?:no|non|not|without|absence of|kein|keine|ohne)[\s_-]+(.+)|"
    r"(?-i:[Nn]o(?=[A-Z])|[Nn]on)(.+)|(.+?)[\s_:-]+(?:neg|negative|absent|no)|(.+?)\s*[-−]"
)
_AFFIRMED = re.compile(
    r"(?i)(?:with|presence of)[\s_-]+(.+)|(.+?)[\s_:-]+(?:pos|positive|present|yes)|(.+?)\s*\+"
)
_VALUED = re.compile(
    r"(?i).*[^\W\d]\s*[=:]\s*(?:\d+(?:[.,]\d+)?\s*%?|true|false|[yntf])|"
    rf".+=\s*(?:{'|'.join(sorted(GENERAL))})"
)
"""A label and what it is, as in `AF=1`; but a `2:1`."""


@dataclass(frozen=True)
class Column:
    """Which words the cells of a column hold."""

    sheet: Sheet
    name: str
    rows: list[set[str] | None] = field(default_factory=list)
    """By record: keys of its words; None where nothing is known."""
    spelled: dict[str, str] = field(default_factory=dict)
    """Of each key."""
    notes: list[str] = field(default_factory=list)

    def odd(self, row: int, why: str) -> BadSetting:
        """What a cell makes it impossible to go on for."""
        cell = shortened(self.sheet.rows[self.name].iloc[row], 60)
        return BadSetting(f"{self.sheet.place(row)}: the column {self.name!r} says {cell!r}; {why}")


@lru_cache(1 << 16)
def key(word: str) -> str:
    """What spellings of one label have in common: neither case, accents, a last dot nor the gaps
    between its words.

    >>> key("Sinus_Rhythm") == key("sinus rhythm"), key("T-"), key("2 1 AV-Block"), key("é.")
    (True, 't-', '2 1avblock', 'e')
    """
    text = unicodedata.normalize("NFD", plain(word).rstrip(".") or plain(word))
    text = unicodedata.normalize("NFC", re.sub(r"(?<=[a-z])[\u0300-\u036f]+", "", text))
    gaps = r"(?<=[^\W\d_])[\s_-]+(?=\w)|(?<=\d)[\s_-]+(?=[^\W\d_])"
    return re.sub(gaps, "", text)


def _within(word: str, labels: Collection[str]) -> list[str]:
    """The other labels, of which there are the keys, that a text has as whole words; the longest
    first.
    """
    words = re.findall(r"[^\W_]+", shown(word))
    found, at = list[str](), 0
    while at < len(words):
        ends = range(min(len(words), at + LONGEST), at, -1)
        keys = ((end, key(" ".join(words[at:end]))) for end in ends)
        end = next((end for end, own in keys if own in labels and own != key(word)), at)
        found += [" ".join(words[at:end])] if end > at else []
        at = max(end, at + 1)
    return found


def labels(column: Column, positive: str | None = None) -> dict[str, list[int]]:
    """1, 0 or UNKNOWN of each record by label; what was assumed goes to the column's notes.

    positive: the word that is 1 where all others are 0. BadSetting for words that deny each other
    in one record, and for a yes or no beside names of labels.
    """
    rows = [row for row in column.rows if row is not None]
    words = sorted({word for row in rows for word in row} - {NONE}, key=column.spelled.__getitem__)
    ones = _names(column, words) if positive is None else [key(positive)]
    if zeros := [repr(column.spelled[word]) for word in words if word not in ones]:
        one = f"{column.spelled[ones[0]]!r} is 1, " if len(ones) == 1 else ""
        more = f" and {len(zeros) - 5:,} other words" if len(zeros) > 5 else ""
        verb = "are" if len(zeros) > 1 else "is"
        column.notes.append(f"{column.name}: {one}{', '.join(zeros[:5])}{more} {verb} 0")
    elif len(ones) == 2 and all(len(row & {*ones}) == 1 for row in rows):
        first, second = (column.spelled[word] for word in ones)
        column.notes.append(
            f"{column.name}: every record is {first!r} or {second!r}, counted as two labels "
            f"(--positive {shlex.quote(first)} makes them one)"
        )
    own = positive is not None and column.name.lower() not in COLUMNS
    return {
        column.name if own or word in GENERAL else column.spelled[word]: [
            UNKNOWN if row is None else int(word in row) for row in column.rows
        ]
        for word in ones
    }


def _names(column: Column, words: Sequence[str]) -> list[str]:
    """The words that are labels: not those that only deny another."""
    denied = {word: _negated(column, word, words) for word in words}
    for row, own in enumerate(column.rows):
        for word in own or ():
            if denied.get(word) in (own or ()):
                raise column.odd(row, "leave out one of the two")
            if word in GENERAL and len(words) > 1:
                raise column.odd(
                    row,
                    f"that names no label; write it, or {NONE}, or say which word is 1 and all "
                    f"others 0: --positive {shlex.quote(column.spelled[word])}",
                )
    return [word for word in words if denied[word] is None]


def _negated(column: Column, word: str, others: Sequence[str]) -> str | None:
    """Which of the others a word denies: AF, of "no AF"."""
    affirmed = {
        stem: other for other in others for stem in _stems(_AFFIRMED, column.spelled[other])
    } | {other: other for other in others}
    found = [affirmed[stem] for stem in _stems(_NEGATED, column.spelled[word]) if stem in affirmed]
    return next((other for other in found if other != word), None)


def _stems(pattern: re.Pattern[str], word: str) -> list[str]:
    match = pattern.fullmatch(word.strip("'\" "))
    return [key(group) for group in match.groups() if group] if match else []


def read(sheet: Sheet, name: str) -> Column:
    """The words of a column. BadSetting for a cell that may mean two things."""
    column = Column(sheet, name)
    cells = list(sheet.rows[name])
    listed = _listed(column, cells)
    parts, sure, alone = [], set[str](), set[str]()
    for cell, items in zip(cells, listed):
        own = _CERTAIN.split(cell) if items is None else items
        parts.append([word for part in own if (word := " ".join(part.split()).strip(", "))])
        keys = {key(word): word for word in parts[-1]}
        if items is not None or (len(keys) == 1 and _CERTAIN.search(cell)):
            sure |= {*keys}
        alone |= {of for of, word in keys.items() if not _PERHAPS.search(word)}
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    divided = []
    for row, own in enumerate(parts):
        found = [w for part in own for w in _divided(column, row, part, alone | sure, sure)]
        if len(found) > len(own):
            divided.append(f"{shortened(cells[row], 40)!r} ({'; '.join(found)})")
        for word in found:
            spellings[key(word)][word] += 1
        column.rows.append(_known(column, row, [*map(shown, found)], listed[row] is not None))
    column.spelled.update({of: shown(ways.most_common(1)[0][0]) for of, ways in spellings.items()})
    notes = [
        f"{both_of(ways)} are one label"
        for of, ways in spellings.items()
        if len(ways) > 1 and plain(next(iter(ways))) not in UNKNOWN_WORDS and of != NONE
    ]
    if divided:
        holds = "holds" if len(divided) == 1 else "hold"
        notes.append(
            f"{counted(len(divided), 'cell')} {holds} several labels, such as {divided[0]}"
        )
    column.notes.extend(f"{name}: {note}" for note in notes)
    return column


def _known(column: Column, row: int, words: Sequence[str], listed: bool) -> set[str] | None:
    """The keys of a cell's words; None where it says that nothing is known."""
    unknown = [word for word in words if plain(word) in UNKNOWN_WORDS]
    if len(unknown) == len(words) and not (listed and not words):
        return None
    keys = {key(word) for word in words} or {NONE}
    alone = [*unknown, *(word for word in words if key(word) == NONE)]
    if alone and len(words) > 1:
        raise column.odd(row, f"{alone[0]!r} stands beside another label; leave out one")
    if valued := [word for word in words if not listed and _VALUED.fullmatch(word)]:
        raise column.odd(
            row, f"{valued[0]!r} is no name of a label; write those that the record has: 'AF; PVC'"
        )
    odd = [w for w in words if not w.isprintable() or w[-1:] == "?" or not re.search(r"[^\W_]", w)]
    if odd:
        raise column.odd(
            row, f"{odd[0]!r} is no name of a label; leave the cell blank where it is unknown"
        )
    return keys


def _divided(
    column: Column, row: int, word: str, alone: Collection[str], sure: Collection[str]
) -> list[str]:
    """A text as one label or several, by what stands alone in other cells; those of `sure` are one
    label.
    """
    if plain(word) in UNKNOWN_WORDS or key(word) in sure:
        return [word]
    pieces = [piece for piece in _PERHAPS.split(word) if piece]
    keys = {key(piece) for piece in pieces}
    if MISSING.fullmatch(plain(word)) and str(int(plain(word)) - 1) not in alone:
        label = f"write {word + ';'!r} in one row where it is a label"
        raise column.odd(row, f"leave the cell blank where it is unknown; {label}")
    if len(pieces) == 1:
        pieces = _within(word, alone)
        if len(pieces) < 2:
            return [word]
    elif keys <= {*alone, NONE, *UNKNOWN_WORDS}:
        return pieces
    raise column.odd(
        row,
        f"write {'; '.join(pieces)!r} where these are several labels, and {word + ';'!r} (in one "
        f"row) where it is one",
    )


def _listed(column: Column, cells: Sequence[str]) -> list[list[str] | None]:
    """The labels of cells that are lists or dicts of Python or JSON, codes, or `Dx: 1,2`."""
    found: list[dict[str, float | None] | None] = []
    for row, cell in enumerate(cells):
        match = _LISTED.fullmatch(cell)
        if match and match["list"]:
            found.append(_items(column, row, match["list"]))
        else:
            names = match and re.split(r"\s*[,;|]\s*|(?<=\d)\s+(?=\d)", match["dx"] or cell)
            found.append(dict.fromkeys(names) if names else None)
    of = [own for own in found if own is not None]
    if not of:
        return [None] * len(found)
    first = next(row for row, own in enumerate(found) if own is not None)
    numbers = {number for own in of for number in own.values() if number is not None}
    flags = numbers <= {0, 1}
    alike = len({(*own,) for own in of}) == 1 < len(of)
    if not flags and (max(numbers) <= 1 or (alike and 0 in numbers)):
        raise column.odd(first, "write the labels that the record has, with ; between them")
    lists = [
        None if own is None else [name for name, n in own.items() if n != 0 or not flags]
        for own in found
    ]
    likely = "; a likelihood of 0 counts as there, as in PTB-XL"
    column.notes.append(
        f"{column.name}: {counted(len(of), 'cell')} such as {shortened(cells[first], 40)!r} "
        f"{'is a list' if len(of) == 1 else 'are lists'} of labels "
        f"({'; '.join(lists[first] or [NONE])}){likely if 0 in numbers and not flags else ''}"
    )
    return lists


def _items(column: Column, row: int, text: str) -> dict[str, float | None]:
    """The names in a list, and the numbers that a dict gives them."""
    text = re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", text)  # as numpy prints it
    text = re.sub(r"(:\s*)(true|false)\b", lambda m: m[1] + m[2].title(), text)
    try:
        value = ast.literal_eval(text)
        if isinstance(value, dict):
            return {str(name): float(number) for name, number in value.items()}
        return dict.fromkeys(map(str, value))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise column.odd(row, "write the labels with ; between them") from None
