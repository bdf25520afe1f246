"""From `--set KEY=VALUE` and the name of a plan to their values."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgbench.core.text import aligned
from ecgbench.errors import BadSetting, UnknownName

if TYPE_CHECKING:
    from ecgbench.study.plan_file import PlanFile


def assigned(sets: Sequence[str], known: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Key -> value of `--set KEY=VALUE` of other commands; known: key -> what reads its value.
    UnknownName, BadSetting.
    """
    found = {}
    for word in sets:
        key, equals, value = (part.strip() for part in word.partition("="))
        if key not in known:
            raise UnknownName("setting", key, known, f"There are: {', '.join(known)}.")
        try:
            found[key] = known[key](value)
        except (ValueError, KeyError):
            wanted = _WANTED.get(known[key], "KEY=VALUE")
            raise BadSetting(f"--set {word}: {wanted}") from None
        if not equals:
            raise BadSetting(f"--set {word}: KEY=VALUE")
    return found


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between."""
    return tuple(int(word) for word in text.split(","))


def switch(text: str) -> bool:
    """on or off."""
    return {"on": True, "yes": True, "off": False, "no": False}[text.lower()]


def fractions(text: str) -> tuple[float, ...]:
    """Numbers with commas between."""
    return tuple(float(word) for word in text.split(","))


_WANTED: dict[Callable[[str], Any], str] = {
    int: "a whole number",
    float: "a number",
    numbers: "whole numbers, comma-separated",
    fractions: "numbers, comma-separated",
    switch: "on or off",
}
"""What reads a value -> what the value must be."""


def loaded(name: str) -> "PlanFile":
    """A plan: a file, a run folder, or the name of one that comes with ecgbench."""
    from ecgbench import suites
    from ecgbench.study.plan_file import FILE, load

    path = Path(name).expanduser()
    if (path / FILE).is_file():
        return load(path / FILE)
    return load(path if path.suffix == ".toml" or path.is_file() else suites.path(name))


def settings_table() -> str:
    """Every setting of `ecgbench run` with its default and what it means."""
    from ecgbench.study.plan_file import in_words, keys

    rows = [(key.name, in_words(key), key.help) for key in keys().values()]
    return "\n".join(aligned([("setting", "default", "what it is"), *rows]))
