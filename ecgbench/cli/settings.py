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

MOVED = {
    "run": {
        "--suite": "the name alone: ecgbench run {}",
        "--contract": "--set input.contract={}",
        "--rows": "--set scoring.rows={}",
        "--bootstrap": "--set scoring.bootstrap={}",
        "--absent": "--set scoring.absent={}",
        "--draw": "--set scoring.draw={}",
        "--exclude": "--set data.exclude={}",
        "--fix": "--set data.fix=on",
        "--fit-seeds": "--set training.seeds={}",
        "--epochs": "--set training.epochs={}",
        "--lr": "--set training.lr={}",
        "--lr-groups": "--set training.lr_groups={}",
        "--batch": "--set training.batch={}",
        "--micro-batch": "--set training.micro_batch={}",
        "--precision": "--set training.precision={}",
        "--cell-timeout": "--set run.timeout={}",
        "--keep-features": "--set run.keep_features={}",
        "--views": "--set run.views={}",
        "--pin-environment": "--set run.same_environment=on",
        "--label-columns": "--set records.label_columns={}",
        "--positive": "--set records.positive={}",
        "--partial": "--set records.partial=on",
        "--match-zeros": "--set records.match_zeros=on",
        "--slurm": "--engine slurm:{}",
        "--detach": "--engine slurm:wait=no",
        "--emit-sbatch": "--engine slurm:wait=no (its script lies in OUT/jobs)",
        "--in-process": "--engine inline",
    },
    "pretrain": {
        "--recipe": "the name alone: ecgbench pretrain {}",
        "--corpus": "--set corpus={}",
        "--shards": "--set shards={}",
        "--buffer": "--set buffer={}",
        "--descriptor": "--set descriptor={}",
        "--codes": "--set codes={}",
        "--refined": "--set refined={}",
        "--init": "--set init={}",
        "--steps": "--set steps={}",
        "--batch": "--set batch={}",
        "--micro-batch": "--set micro_batch={}",
        "--show": "--set leads={}",
        "--masked": "--set masked={}",
        "--edge-drop": "--set edge_drop={}",
        "--lr": "--set lr={}",
        "--warmup": "--set warmup={}",
        "--decay": "--set decay={}",
        "--clip": "--set clip={}",
        "--weight-decay": "--set weight_decay={}",
        "--adamw": "--set adamw=on",
        "--precision": "--set precision={}",
        "--checkpoint-every": "--set checkpoint_every={}",
        "--probe-every": "--set probe_every={}",
        "--apart": "--set held_out={}",
        "--seed": "--set seed={}",
        "--no-alarm": "--set alarm=off",
    },
    "ablate": {
        "--recipe": "--set recipe={}",
        "--steps": "--set steps={}",
        "--batch": "--set batch={}",
        "--micro-batch": "--set micro_batch={}",
        "--precision": "--set precision={}",
        "--lr": "--set lr={}",
        "--records": "--set records={}",
        "--probe-records": "--set probe_records={}",
        "--probe-epochs": "--set probe_epochs={}",
        "--only-seeds": "--set only_seeds={}",
    },
    "report": {
        "--blocks": "--set report.blocks={}",
        "--margins": "--set report.margins={}",
        "--duplicates": "--set report.duplicates={}",
        "--beside": "--set report.beside={}",
        "--rows": "--set report.rows={}",
        "--reports": "--only {}",
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


def values(options: Mapping[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """Key -> value of the options that were typed and of `--set`, which come last."""
    from ecgbench.study.plan_file import value_of

    named = {
        "training.protocol": "--protocol",
        "training.leads": "--train-leads",
        "scoring.metrics": "--metrics",
    }
    found = {
        key: value_of(key, value, f"{named.get(key, f'--{key}')} ")[1]
        for key, value in options.items()
        if value is not None
    }
    for word in sets:
        key, equals, value = word.partition("=")
        if not equals:
            raise BadSetting(
                f"--set {word}: KEY=VALUE, for example --set training.epochs=20; the keys: "
                f"ecgbench run --settings"
            )
        found[key.strip()] = value_of(key.strip(), value.strip())[1]
    return found


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
