"""The store of a run, format 3: plain files, each whole or absent. A finished folder is complete.

<run>/plan.toml, plan-2.toml, ...           what each command asked for that was new, and its hash
      frozen.json                           a plan that was frozen
      people/<dataset>.parquet              age, sex, device, site and pacing of its records
      cells/<task>/<model>/<setting>/<id>/  predictions.parquet, scores.parquet, cell.json with the
                                            key, DONE; <id> is the hash of the cell's identity
      fits/<task>/<model>/<key>/            weights, validation.parquet, log.csv, fit.json, DONE
      reasons/<task>/<model>/<setting>/     <id>.json: why a cell has no number
      features/<model>/<dataset>/           pooled features by setting, and windows/ for resuming
      models/<sha>.json                     facts of each network
      datasets/<sha>.json                   facts of each selection of records
      policies/<sha>.safetensors            what a policy learned from the training split
      invocations/<time>-<id>.json          the commands that worked here
      .../<name>.damaged, <name>.outdated   found damaged; of a key that a cell had: may be deleted
      checkpoints/<fit key>/                of fits that are not finished
      locks/, logs/                         who computes what; what the models printed
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain, count, product
from pathlib import Path
from typing import Any, Literal

from ecgbench.cards.cell import FORMAT, Cell, Fit
from ecgbench.cards.plan import Plan, Request, plan_of
from ecgbench.core.division import OFFICIAL
from ecgbench.core.files import (
    OUTDATED,
    as_json,
    content_of,
    locked,
    put,
    quarantine,
    sha256_of,
    sha256_once,
)
from ecgbench.core.folders import DONE, below, damaged, document, finished, read_json
from ecgbench.core.keys import key
from ecgbench.core.registry import folder_name
from ecgbench.core.text import enumerated
from ecgbench.errors import BadSetting, Damaged, MissingData
from ecgbench.study.plan_file import FILE, PlanFile, dump, parse

Status = Literal["ok", "skipped", "failed", "damaged", "missing"]
STATES: tuple[Status, ...] = ("ok", "failed", "skipped", "missing", "damaged")
_WITHOUT: tuple[Status, ...] = ("failed", "skipped")
"""States of cells with a stored reason."""
_MARK = "# sha256 "
"""Before the hash of a plan file, in its last line."""
_FORMAT = f"format = {FORMAT}"
_ELSEWHERE = "choose another folder"
GOES_ON = "the same `ecgbench run` command goes on where it stopped"
PENDING = f"not computed yet; {GOES_ON}"


class Store:
    """One run folder."""

    def __init__(self, path: Path, shared: Path | None = None) -> None:
        """shared: the run folder whose features it uses, as `shared_features` says."""
        self.path, self.shared = path, shared or path
        self.plan_hash = ""
        """Of the plan that was read last."""

    def plan_files(self) -> list[Path]:
        """The files of its requests, oldest first."""
        return sorted(filter(_number, self.path.glob("plan*.toml")), key=_number)

    def plan(self) -> Plan | None:
        """What was requested in this folder, None before the first run; Damaged where a file is not
        what was hashed, BadSetting where it is of another format.
        """
        texts = tuple(map(_text_of, self.plan_files()))
        self.plan_hash = key({"requests": texts}) if texts else ""
        return _plan_of(self.path, texts)

    def requested(self) -> list[PlanFile]:
        """What each command added, oldest first; Damaged."""
        return [parse(_text_of(file), str(file)) for file in self.plan_files()]

    def existing_plan(self) -> Plan:
        """The plan; MissingData where there is none."""
        plan = self.plan()
        if plan is None:
            raise MissingData(
                f"no run in {self.path} (no {FILE} there); run: ecgbench run --out "
                f"{self.path}, or see `ecgbench runs ls`"
            )
        return plan

    def join(self, plan: Plan) -> Plan:
        """The plan, joined with those of earlier runs in this folder; BadSetting when settings
        differ.
        """
        return joined(self.path, self.plan(), plan)

    def in_its_words(self, request: Request) -> Request:
        """A checked request in which a file of weights has the path by which an earlier command
        named the same content: identities of cells hold it. Damaged, BadSetting.
        """

        def content(word: str) -> str:
            return sha256_once(Path(word).expanduser())

        plan, typed = self.plan(), request.weights_of()
        there = typed | ({fit.model: fit.weights for fit in plan.fits} if plan else {})
        other = {model: word for model, word in typed.items() if there[model] != word}
        same = {m: there[m] for m, w in other.items() if content(w) == content(there[m]) != ""}
        words = ",".join("=".join(pair) for pair in {**typed, **same}.items())
        return replace(request, weights=words) if same else request

    def add_request(self, request: Request, plugins: Iterable[tuple[str, str]] = ()) -> Plan:
        """Store a checked request in its own plan file, unless nothing in it is new; returns the
        whole plan. BadSetting for a plug-in whose name another file has here.

        plugins: (room, path) of the plug-ins that were given by path.
        """
        plugins = list(plugins)
        with self.alone("plan"):
            old = self.plan()
            known = [pair for file in self.requested() for pair in file.plugins]
            for (room, path), (of, there) in product(plugins, known):
                if room == of and _is_another(Path(path), Path(there)):
                    raise BadSetting(
                        f"{path} has the name of {there}, which {self.path} holds results of; "
                        f"rename it, or {_ELSEWHERE}"
                    )
            both = joined(self.path, old, plan_of(request))
            if both != old:
                number = max(map(_number, self.plan_files()), default=0) + 1
                name = FILE if number == 1 else f"plan-{number}.toml"
                body = f"{_FORMAT}\n{dump(request, plugins)}"
                put(self.path / name, f"{body}{_MARK}{_sha256(body)}\n")
        return both

    # what is known of a cell

    def set_aside(self, cell: Cell, cell_key: str) -> bool:
        """Rename the folder of a finished cell that has another key; whether it had. The one that
        was renamed before comes back where it has this key.
        """
        folder = self.cell_folder(cell)
        there = finished(folder)
        if there and noted(folder).get("key", cell_key) == cell_key:
            return False  # also a damaged one, which says nothing of its key
        old, between = _outdated(folder), folder.with_name(f".{folder.name}")
        if back := noted(old).get("key") == cell_key:
            os.replace(old, between)
        if there:
            outdate(folder)
        if back:
            os.replace(between, folder)
        return there

    def state(self, cell: Cell) -> tuple[Status, str]:
        """(status, reason) of a cell, by the files that exist; only reasons are read."""
        if self.folder(cell) is not None:
            return "ok", ""
        file = self.reason_file(cell)
        if not file.exists():
            return "missing", PENDING
        with suppress(Damaged):
            stored = document(file)
            for known in _WITHOUT:
                if stored.get("identity") == cell.identity and stored.get("status") == known:
                    return known, str(stored.get("reason"))
        return "damaged", str(damaged(file))

    def give_reason(
        self, cell: Cell, status: Status, reason: str, trace: str = "", log: str = ""
    ) -> None:
        """Store why a cell has no number: it is "failed" or "skipped". `log`: the output of its
        model.
        """
        why = {"status": status, "reason": reason, "trace": trace, "log": log}
        content = as_json({"format": FORMAT, "identity": cell.identity, **why})
        put(self.reason_file(cell), content)

    def forget_reasons(self, cells: Iterable[Cell]) -> None:
        """Remove the reasons of cells that are about to be computed."""
        for file in map(self.reason_file, cells):
            file.unlink(missing_ok=True)

    def log_of(self, cell: Cell) -> str:
        """The file with the output of the model, where the reason of a cell names one."""
        with suppress(Damaged):
            return str(document(self.reason_file(cell)).get("log", ""))
        return ""

    # where things lie

    def cell_folder(self, cell: Cell) -> Path:
        """Folder of a cell, finished or not."""
        return self.path.joinpath("cells", *_setting_folders(cell), name_of(cell.identity))

    def folder(self, cell: Cell) -> Path | None:
        """Folder of a finished cell; None of another."""
        folder = self.cell_folder(cell)
        return folder if finished(folder) else None

    def fit_folder(self, fit: Fit, fit_key: str) -> Path:
        """Folder of a fit."""
        fold = [] if fit.fold == OFFICIAL else [f"fold {fit.fold}"]
        return self.path.joinpath("fits", *map(folder_name, (fit.task, fit.model, *fold, fit_key)))

    def features_folder(self, model: str, dataset: str) -> Path:
        """Folder of the features of a network on a dataset."""
        return self.path.joinpath("features", *map(folder_name, (model, dataset)))

    def shared_features(self, model: str, dataset: str) -> Path:
        """Folder of features of unchanged recordings, perhaps of another run."""
        return Store(self.shared).features_folder(model, dataset)

    def checkpoint_folder(self, fit_key: str) -> Path:
        """Folder of the checkpoints of an unfinished fit."""
        return self.path / "checkpoints" / folder_name(fit_key)

    def reason_file(self, cell: Cell) -> Path:
        """File with the reason why a cell has no number."""
        name = f"{name_of(cell.identity)}.json"
        return self.path.joinpath("reasons", *_setting_folders(cell), name)

    # facts that several cells share

    def add_facts(self, kind: str, facts: dict[str, Any]) -> str:
        """Write facts of a model or dataset ("models", "datasets") once; returns their sha256,
        which is their name.
        """
        sha256 = key(facts)
        put_named(self.path / kind / f"{sha256}.json", as_json(facts).encode())
        return sha256

    def facts(self, kind: str) -> dict[str, dict[str, Any]]:
        """sha256 -> facts of all models or datasets ("models", "datasets"), oldest first, without
        damaged files.
        """
        read: dict[str, dict[str, Any]] = {}
        for file in self.files_of(kind):
            with suppress(Damaged):
                if key(facts := document(file)) == file.stem:
                    read[file.stem] = facts
        return read

    def files_of(self, kind: str) -> list[Path]:
        """The files of all models, datasets or invocations, oldest first."""
        files = (self.path / kind).glob("[!.]*.json")
        return sorted(files, key=lambda file: (file.stat().st_mtime_ns, file.name))

    # who computes what

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Whether this process may compute the job called `name`; a claim ends with its process."""
        with ExitStack() as stack:
            mine = False
            with suppress(BlockingIOError):
                stack.enter_context(self.alone(f"claim {name}", wait=False))
                mine = True
            yield mine  # outside: who works may meet a BlockingIOError of its own

    def alone(self, name: str, wait: bool = True) -> AbstractContextManager[None]:
        """Holds a lock, which ends with its process. `wait` false: BlockingIOError where another
        process holds it.
        """
        return locked(self.path / "locks", _sha256(name)[:32], wait)


def outdate(folder: Path) -> None:
    """Rename a finished folder whose place another one takes."""
    old = _outdated(folder)
    if old.is_dir():
        shutil.rmtree(old)
    os.replace(folder, old)


def _outdated(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{OUTDATED}")


def put_named(file: Path, content: bytes) -> None:
    """Write a file that is named by its content, once; a damaged one is quarantined."""
    if file.exists() and content_of(file) != content:
        quarantine(file, "has not the hash that is its name")
    if not file.exists():
        put(file, content)


def _setting_folders(cell: Cell) -> Iterator[str]:
    return map(folder_name, (cell.task, cell.fit.model, str(cell.setting)))


def name_of(identity: str) -> str:
    """The name of what belongs to a cell, whatever its key is."""
    return _sha256(identity)[:32]


def _is_another(plugin: Path, known: Path) -> bool:
    """Whether a file has the name of a known one that is still there, and other content."""
    return plugin.stem == known.stem and sha256_of(known) not in ("", sha256_of(plugin))


def _number(file: Path) -> int:
    """The place of a plan file among those of its run, from 1; 0 of another file."""
    named = re.fullmatch(r"plan-([2-9]|[1-9]\d+)\.toml", file.name)
    return int(named[1]) if named else int(file.name == FILE)


def _text_of(file: Path) -> str:
    """A plan file of a run without its hash; Damaged, BadSetting where it is of another format."""
    text = content_of(file).decode("utf-8", errors="replace")
    body, mark, stated = text.rpartition(_MARK)
    if not mark or _sha256(body) != stated.strip():
        raise Damaged(
            f"{file} is not what a run wrote; restore it, or move it away and give the commands of "
            f"this folder again, which find what is computed, or {_ELSEWHERE}"
        )
    first = body.partition("\n")[0]
    if first != _FORMAT:
        raise BadSetting(
            f"{file} holds a run of another version ({first}), and this one reads {_FORMAT}; "
            f"{_ELSEWHERE}, in which the same command computes it anew"
        )
    return body


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4)
def _plan_of(path: Path, texts: tuple[str, ...]) -> Plan | None:
    plan: Plan | None = None
    for text in texts:
        plan = joined(path, plan, plan_of(parse(text, str(path)).request()))
    return plan


def joined(path: Path, old: Plan | None, plan: Plan) -> Plan:
    """A plan joined with the earlier ones of its folder; BadSetting when settings differ.

    A plan that contains all earlier cells keeps its own order, so a grid that grew reads like one
    that was requested at once.
    """
    if old is None:
        return plan
    ours, theirs = flat(plan.shared()), flat(old.shared())
    if differing := [n for n in {**ours, **theirs} if ours.get(n) != theirs.get(n)]:
        raise _other(path, *([f"{n} = {of.get(n)}" for n in differing] for of in (theirs, ours)))
    loaded: dict[str, str] = {}
    for f in (*old.fits, *plan.fits):
        # one row is one model: its seeds are averaged, its weights must not be
        if (weights := loaded.setdefault(f.model, f.weights)) != f.weights:
            raise _other(path, *([f"--weights {f.model}={w}"] for w in (weights, f.weights)))
    both = plan if set(old.cells) <= set(plan.cells) else old.joined(plan)
    metrics = tuple(dict.fromkeys([*plan.scoring.metrics, *old.scoring.metrics]))
    both = replace(both, scoring=replace(plan.scoring, metrics=metrics))
    return both.powered(max(plan.scoring.draws, old.scoring.draws))


def _other(path: Path, there: Sequence[str], here: Sequence[str]) -> BadSetting:
    return BadSetting(
        f"{path} holds a run with {enumerated(there)}, and this command has {enumerated(here)}; "
        f"{_ELSEWHERE}"
    )


def flat(facts: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested facts with dotted names; lists stay values.

    >>> flat({"contract": {"fs": 100, "leads": ["I"]}, "seed": 0})
    {'contract.fs': 100, 'contract.leads': ['I'], 'seed': 0}
    """
    result: dict[str, Any] = {}
    for name, value in facts.items():
        nested = isinstance(value, Mapping) and value
        result |= flat(value, f"{before}{name}.") if nested else {f"{before}{name}": value}
    return result


def free(path: Path) -> Path:
    """The first of runs/demo, runs/demo-2, runs/demo-3, ... that does not exist."""
    named = path if path.name.strip(".") else path.resolve()
    names = chain([named], (Path(f"{named}-{n}") for n in count(2)))
    return next(p for p in names if not p.exists())


def cells_of(path: Path) -> Iterator[Path]:
    """Folders of all finished cells of a run, whether or not its plan names them."""
    for folder in below(path, "cells", 4):  # cells/<task>/<model>/<setting>/<id>
        if os.path.exists(f"{path}/{folder}/{DONE}"):
            yield path / folder


def noted(folder: Path) -> dict[str, Any]:
    """Content of cell.json of a finished cell; empty where it is damaged."""
    with suppress(Damaged):
        return read_json(folder, "cell.json")
    return {}
