"""Plan files: a study as TOML.

`ecgbench run PLAN.toml` computes it, `ecgbench freeze` hashes it, every run folder holds it, and
`--set KEY=VALUE` takes the same keys. A key is a field of `Request`, `Training`, `Scoring` or
`RunSettings`; a new field is a new key.
"""

import ast
import inspect
import itertools
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

from ecgbench import suites
from ecgbench.cards.plan import Request
from ecgbench.cards.settings import assigned, read
from ecgbench.core.division import Division
from ecgbench.core.keys import grouped
from ecgbench.core.text import quoted
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import BadSetting, MissingData, UnknownName

ALPHA, LARGEST_ALPHA = 0.05, 0.2
FILE = "plan.toml"
USUAL_MODELS = ("laef", "stmem")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings that change no number."""

    timeout: float = 900
    """A cell fails after so many seconds without progress (a record, a training step, a score)."""
    keep_features: bool = True
    """Keep the features of test records after the run; some reports need them."""
    views: Literal["keep", "stream"] = "keep"
    """Filtered and resampled recordings: keep them on disk, or compute them when they are read."""
    report: bool = True
    """Write the report when a study of at most 200 cells is complete."""


@dataclass(frozen=True, kw_only=True)
class RecordSettings:
    """How the table of labels of `ecgbench run --records` is read."""

    label_columns: tuple[str, ...] = ()
    """Columns of labels; not set: those of 0 and 1 or of yes and no, and the words of a column
    `label`.
    """
    patients: str | None = None
    """The part of a patient's cell that is the person: a pattern whose group it is."""
    split: str | None = None
    """Column of splits (train, val, test) or folds; not set: one of the name split or fold."""
    partial: bool = False
    """Skip rows of the table that have no file."""
    match_zeros: bool = False
    """Let record 1 of the table match the file 00001.csv, where that is the only such file."""
    overwrite: bool = False
    """Replace an edited records.csv of an earlier import, or a card.toml that cannot be read."""


class Key(NamedTuple):
    """One setting."""

    name: str
    path: tuple[str, ...]
    """Field names in a `Request`, or in a class of `_BESIDES` below its section."""
    type: Any
    default: Any
    help: str


_CALLED = {
    "policies": "policy",
    "division": "folds",
    "contract": "input.contract",
    "exclude": "data.exclude",
    "fix": "data.fix",
    "fit_seeds": "training.seeds",
    "records.split": "data.split",
}
"""Fields whose key has another name."""


_OPTIONS = {
    "training.protocol": "protocol",
    "training.leads": "train-leads",
    "scoring.metrics": "metrics",
}
"""Keys whose option has another name."""
RESOLVED = ("parents", "own_policies", "control")
"""Fields that are not keys: they follow from the cards, or name a control."""
_BESIDES: dict[str, type] = {"run": RunSettings, "records": RecordSettings}
"""Sections that are not part of the study."""


@cache
def keys() -> dict[str, Key]:
    """Every key of a plan file, in order."""
    found = [*_of(Request, ())]
    for section, cls in _BESIDES.items():
        found += _of(cls, (section,))
    return {key.name: key for key in found}


def _of(cls: Any, path: tuple[str, ...]) -> Iterator[Key]:
    hints, texts = get_type_hints(cls), _texts(cls)
    # its own fields before those that it inherits
    for one in sorted(fields(cls), key=lambda one: one.name not in cls.__annotations__):
        hint = hints[one.name]
        if one.name in RESOLVED:
            continue
        if is_dataclass(hint) and hint is not Division:
            yield from _of(hint, (*path, one.name))
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        name = ".".join([*path, one.name])
        name = _CALLED.get(name, name)
        shown = None if default is MISSING else default
        yield Key(name, (*path, one.name), hint, shown, texts.get(one.name, ""))


def _texts(cls: type) -> dict[str, str]:
    """What the strings below its fields say of them."""
    if cls is object:
        return {}
    body = ast.parse(inspect.getsource(cls)).body[0].body  # type: ignore[attr-defined]
    texts = _texts(*cls.__bases__)
    for one, below in itertools.pairwise(body):
        match one, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                texts[name] = " ".join(str(text).split())
    return texts


def values(options: Mapping[str, Any], sets: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Key -> value of the options that were typed and of `--set`, which wins; BadSetting, and
    UnknownName with the nearest key.
    """
    found = {
        key: read(keys()[key].type, value, f"--{_OPTIONS.get(key, key)} ")
        for key, value in options.items()
    }
    hints = {key.name: key.type for key in keys().values()}
    return found | assigned(sets, hints, "List them: ecgbench run --settings.")


def changed(request: Request, path: tuple[str, ...], value: Any) -> Request:
    """A request with another value of one field."""
    first, *rest = path
    if rest:
        inner = replace(getattr(request, first), **{rest[0]: value})
        return replace(request, **{first: inner})
    return replace(request, **{first: value})


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """The content of a plan file."""

    values: dict[str, Any]
    """Key -> value."""
    title: str = ""
    alpha: float = ALPHA
    hypotheses: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    resolved: dict[str, Any] = field(default_factory=dict)
    """Facts of the cards when a run was begun: RESOLVED."""
    plugins: tuple[tuple[str, str], ...] = ()
    """(room, path) of plug-ins that were given by path when a run was begun."""

    def request(self, base: Request | None = None) -> Request:
        """The study, not checked yet."""
        made = base or Request(models=USUAL_MODELS, tasks=(), leads=parse_leads("1,2,12"))
        for name, value in self.values.items():
            if (path := keys()[name].path)[0] not in _BESIDES:
                made = changed(made, path, value)
        return replace(made, **self.resolved)

    def section(self, name: str) -> Any:
        """The `RunSettings` ("run") or `RecordSettings` ("records")."""
        begin = f"{name}."
        own = {k: v for k, v in self.values.items() if k.startswith(begin)}
        return _BESIDES[name](**{k.removeprefix(begin): value for k, value in own.items()})


def load(file: Path) -> PlanFile:
    """A plan file; MissingData, BadSetting and UnknownName name the file or the key."""
    try:
        return parse(file.read_text(encoding="utf-8-sig"), str(file))
    except (FileNotFoundError, IsADirectoryError):
        raise MissingData(
            f"no plan file {file}; an example: ecgbench freeze --example > {quoted(file)}"
        ) from None
    except UnicodeDecodeError as error:
        raise BadSetting(f"{file} is not TOML: {error}") from None


def parse(text: str, where: str) -> PlanFile:
    """The text of a plan file; see `load`."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(
            f"{where} is not TOML: {error}; an example: ecgbench freeze --example"
        ) from None
    table.pop("format", None)
    resolved = {name: table.pop(name) for name in RESOLVED if name in table}
    given = table.pop("plugins", {})
    if not isinstance(given, dict) or not all(isinstance(paths, list) for paths in given.values()):
        raise BadSetting(f'{where}: below [plugins] are lists of files: models = ["mine.py"]')
    plugins = [(room, str(path)) for room, paths in given.items() for path in paths]
    title, alpha = str(table.pop("title", "")), table.pop("alpha", ALPHA)
    if not isinstance(alpha, float) or not 0 < alpha <= LARGEST_ALPHA:
        raise BadSetting(
            f"{where}: alpha = {alpha!r}; a fraction above 0 and at most {LARGEST_ALPHA:g}"
        )
    hypotheses = table.pop("hypothesis", [])
    if not isinstance(hypotheses, list) or not all(isinstance(h, dict) for h in hypotheses):
        raise BadSetting(f"{where}: hypotheses are tables; write [[hypothesis]] before each")
    values = {}
    for name, value in table.items():
        section = isinstance(value, dict) and name not in keys()
        own = {f"{name}.{k}": v for k, v in value.items()} if section else {name: value}
        for key, one in own.items():
            if key not in keys():
                raise UnknownName("setting", key, keys(), "List them: ecgbench run --settings.")
            values[key] = read(keys()[key].type, one, f"{where}: {key} = ")
    return PlanFile(
        values=values,
        title=title,
        alpha=alpha,
        hypotheses=tuple(hypotheses),
        resolved=resolved,
        plugins=tuple(plugins),
    )


def named(name: str) -> PlanFile:
    """A plan: a file, a run folder, or the name of one that comes with ecgbench."""
    path = Path(name).expanduser()
    if is_run(name):
        path = path / FILE
    found = load(path if path.suffix == ".toml" or path.is_file() else suites.path(name))
    if "control" in found.resolved:
        raise BadSetting(
            f"{path} is the plan of a control, which belongs to a study; run that: ecgbench run "
            f"STUDY --controls all"
        )
    return found


def is_run(name: str | None) -> bool:
    """Whether a plan is named by a run folder."""
    return bool(name) and (Path(str(name)).expanduser() / FILE).is_file()


def as_values(request: Request) -> dict[str, Any]:
    """Key -> value of a study."""
    found = {}
    for key in keys().values():
        if key.path[0] not in _BESIDES:
            value: Any = request
            for name in key.path:
                value = getattr(value, name)
            found[key.name] = value
    return found


def dump(request: Request, plugins: Iterable[tuple[str, str]] = ()) -> str:
    """A study as the text of a plan file: every key, so that it does not change with defaults.

    plugins: (room, path) of the plug-ins that it was given by path.
    """
    plain: list[str] = []
    sections: dict[str, list[str]] = {}
    for key, value in as_values(request).items():
        if value is None or value in ((), "") or (isinstance(value, Division) and not value):
            continue
        section, _, name = key.rpartition(".")
        (sections.setdefault(section, []) if section else plain).append(f"{name} = {_toml(value)}")
    if request.control:
        plain.append(f"control = {_toml(request.control)}")
    for name in ("parents", "own_policies"):
        for key, value in getattr(request, name).items():
            sections.setdefault(name, []).append(f"{_toml(key)} = {_toml(value)}")
    for room, paths in grouped(plugins, lambda pair: pair[0]).items():
        sections.setdefault("plugins", []).append(f"{room} = {_toml(tuple(p for _, p in paths))}")
    tables = [f"\n[{section}]\n" + "\n".join(lines) for section, lines in sections.items()]
    return "\n".join([*plain, *tables]) + "\n"


def in_words(key: Key) -> str:
    """The default of a key, as one would type it."""
    if key.default is None or key.default == () or key.default == "":
        return "-"
    if isinstance(key.default, bool):
        return "on" if key.default else "off"
    return ",".join(map(str, key.default)) if isinstance(key.default, tuple) else str(key.default)


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        numbers = all(isinstance(item, int) for item in value)
        return f"[{', '.join(_toml(item if numbers else str(item)) for item in value)}]"
    plain = isinstance(value, bool | int | float)
    return json.dumps(value if plain else str(value), ensure_ascii=False)
