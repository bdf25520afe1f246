"""Words for people: durations, sizes, counts, and text in which nothing is hidden. Each is spelled
here and nowhere else.
"""

import re
import shlex
import unicodedata
from collections.abc import Collection, Sequence

_UNITS = ((86400, "day"), (3600, "h"), (60, "min"), (1, "s"))
_SIZES = (("kB", 1e3), ("MB", 1e6), ("GB", 1e9))


def words(text: str | None) -> tuple[str, ...] | None:
    """The words of a comma-separated list, each once; None where there is no text."""
    if text is None:
        return None
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def visible(text: str) -> str:
    r"""Text in which what a reader cannot see, but a program obeys, is spelled.

    Such are control characters, marks that turn the direction of writing, halves of characters.
    Tabs and line ends stay; line ends are LF.

    >>> visible("a\u202eb\x1b[2J\r\n")
    'aU+202EbU+001B[2J\n'
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        c
        if c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs"
        else f"U+{ord(c):04X}"
        for c in text.replace("\r\n", "\n").replace("\r", "\n")
    )


def hidden(text: str) -> bool:
    r"""Whether a text is not one line of what a reader sees.

    >>> [hidden(text) for text in ("Jos\u00e9\u00a07", "a\u202eb", "a\x1b[2J", "a\nb", "\udcff")]
    [False, True, True, True, True]
    """
    return visible(text) != text or bool({"\n", "\t"} & {*text})


def line(text: str) -> str:
    r"""One line that a terminal shows as it is: a run of blanks and line ends is one space.

    >>> line("no memory:\n  you asked\tfor \x1b[31mmuch")
    'no memory: you asked for U+001B[31mmuch'
    """
    return visible(re.sub(r"[\s\x00]+", " ", str(text)).strip())


def quoted(word: object) -> str:
    """A path or a name as a shell takes it for one word.

    >>> print(quoted("runs/ptbxl"), quoted("runs/a b"))
    runs/ptbxl 'runs/a b'
    """
    return shlex.quote(str(word))


def shortened(text: str, most: int, end: bool = False) -> str:
    """One line of at most `most` characters: its beginning, or its end.

    >>> shortened("PTB-XL Super", 8), shortened("/data/ptbxl/prepared", 10, end=True)
    ('PTB-XL …', '…/prepared')
    """
    text = str(text)
    # an error's message may hold megabytes
    whole = line(text[-8 * most :] if end else text[: 8 * most])
    if len(whole) <= most:
        return whole
    return "…" + whole[len(whole) - most + 1 :] if end else whole[: most - 1] + "…"


def one_line(error: BaseException) -> str:
    r"""Type and message of an error, in one line of limited length.

    >>> one_line(ValueError("no\n  number"))
    'ValueError: no number'
    """
    return f"{type(error).__name__}: {shortened(str(error), 200)}"


def enumerated(words: Sequence[str]) -> str:
    """Words as a sentence lists them.

    >>> enumerated(["1", "2", "12"])
    '1, 2 and 12'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines of a table: columns as wide as their longest word, those at the places `right` flush
    right.

    >>> aligned([["leads", "GFLOP"], ["1", "0.9"], ["12", "12.8"]], right=[1])
    ['leads  GFLOP', '1        0.9', '12      12.8']
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            word.rjust(width) if i in right else word.ljust(width)
            for i, (word, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def counted(count: int | None, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "record"), counted(2000, "record"), counted(None, "record")
    ('1 record', '2,000 records', 'an unknown number of records')
    """
    if count is None:
        return f"an unknown number of {noun}s"
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time span in words, two units at most.

    >>> [duration(s) for s in (0.21, 4, 59.2, 754, 7322, 86399, 200000)]
    ['0.2 s', '4 s', '59 s', '12 min 34 s', '2 h 2 min', '1 day', '2 days 8 h']
    """
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    step = 3600 if seconds >= 86400 else 60 if seconds >= 3600 else 1
    rest, parts = round(seconds / step) * step, []
    for unit, word in _UNITS:
        count, rest = divmod(rest, unit)
        if count:
            parts.append(counted(count, word) if word == "day" else f"{count} {word}")
    return " ".join(parts[:2])


def size(count: float | None) -> str:
    """Bytes in words, in units of 1,000.

    >>> size(900), size(12_345_678), size(3.2e9), size(None)
    ('0.9 kB', '12 MB', '3.2 GB', '?')
    """
    if count is None:
        return "?"
    unit, factor = next(((u, f) for u, f in _SIZES if count < 1000 * f), _SIZES[-1])
    value = count / factor
    return f"{value:{'.2g' if value < 10 else ',.0f'}} {unit}"
