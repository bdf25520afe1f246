"""From what was typed to a study: a plan, then options, then `--set KEY=VALUE`; the same keys in
all three. What an option or a command is called now that once had another name.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgbench.cli.options import at_home
from ecgbench.core.text import aligned, quoted
from ecgbench.errors import BadSetting, UnknownName

if TYPE_CHECKING:
    from ecgbench.study.plan_file import PlanFile


def _set(section: str, keys: str, value: str = "{}") -> dict[str, str]:
    """Options that are now keys of --set with the same name."""
    return {f"--{k.replace('_', '-')}": f"--set {section}{k}={value}" for k in keys.split()}


MOVED = {
    "run": {
        "--suite": "the name alone: ecgbench run {}",
        "--slurm": "--engine slurm:{}",
        "--detach": "--engine slurm:wait=no",
        "--emit-sbatch": "--engine slurm:wait=no (its script lies in OUT/jobs)",
        "--in-process": "--engine inline",
        "--fit-seeds": "--set training.seeds={}",
        "--cell-timeout": "--set run.timeout={}",
        **_set("training.", "epochs lr lr_groups batch micro_batch precision"),
        **_set("scoring.", "rows bootstrap absent draw"),
        **_set("input.", "contract"),
        **_set("data.", "exclude"),
        **_set("data.", "fix", "on"),
        **_set("run.", "keep_features views"),
        **_set("records.", "label_columns positive"),
        **_set("records.", "partial match_zeros", "on"),
    },
    "pretrain": {
        "--recipe": "the name alone: ecgbench pretrain {}",
        "--show": "--set leads={}",
        "--apart": "--set held_out={}",
        "--no-alarm": "--set alarm=off",
        "--adamw": "--set adamw=on",
        **_set("", "corpus shards buffer descriptor codes refined init steps batch micro_batch"),
        **_set("", "masked edge_drop lr warmup decay clip weight_decay precision"),
        **_set("", "checkpoint_every probe_every seed"),
    },
    "ablate": {
        **_set("", "recipe steps batch micro_batch precision lr records probe_records"),
        **_set("", "probe_epochs only_seeds"),
    },
    "report": {
        "--reports": "--only {}",
        **_set("report.", "blocks margins duplicates beside rows"),
    },
}
"""Command -> option of earlier versions -> what it is now, with its value."""
RENAMED = {
    ("tasks",): "list tasks",
    ("adapters",): "list adapters",
    ("metrics",): "list metrics",
    ("reports",): "list reports",
    ("engines",): "list engines",
    ("status",): "runs status",
    ("why",): "runs why",
    ("merge",): "runs merge",
    ("data", "verify"): "data check",
}
"""Commands of earlier versions."""


def demand_new(words: Sequence[str]) -> None:
    """BadSetting where a command or an option of an earlier version was typed: it says the new
    one.
    """
    for old, new in RENAMED.items():
        if tuple(words[: len(old)]) == old:
            rest = "".join(f" {quoted(word)}" for word in words[len(old) :])
            raise BadSetting(f"ecgbench {' '.join(old)} is now: ecgbench {new}{rest}")
    options = MOVED.get(words[0], {}) if words else {}
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name in options:
            value = value if equals else "" if following.startswith("-") else following
            typed = f"{name} {value}".strip() if "{}" in options[name] else name
            raise BadSetting(f"{typed} is now {options[name].format(value or 'VALUE')}")


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
            found[key] = known[key](value) if equals else [][0]
        except (ValueError, KeyError, IndexError):
            wanted = _WANTED.get(known[key], "KEY=VALUE")
            raise BadSetting(f"--set {word}: {wanted}") from None
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


def plan_of(name: str) -> Path:
    """The file of a plan: a path, a run folder, or the name of one that comes with ecgbench."""
    from ecgbench import suites
    from ecgbench.study.plan_file import FILE

    path = Path(name)
    if path.is_dir() and (path / FILE).is_file():
        return path / FILE
    return path if path.suffix == ".toml" or path.is_file() else suites.path(name)


def loaded(name: str) -> "PlanFile":
    """A plan by name or path; `~` in it is the home folder."""
    from ecgbench.study.plan_file import load

    plan = load(plan_of(name))
    return replace(plan, values={key: at_home(value) for key, value in plan.values.items()})


def table() -> str:
    """Every setting with its default and what it means."""
    from ecgbench.study.plan_file import in_words, keys

    rows = [(key.name, in_words(key), key.help) for key in keys().values()]
    return "\n".join(aligned([("setting", "default", "what it is"), *rows]))


def print_settings() -> None:
    """`ecgbench run --settings`."""
    sys.stdout.write(table() + "\n")
