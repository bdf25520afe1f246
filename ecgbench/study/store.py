"""The store of a run, format 2: plain files, each whole or absent. A finished folder is complete.

<run>/plan.json                             what was asked for, and its hash
      index.jsonl                           which key each cell has, and which cells are finished
      frozen.json, tested.jsonl             a plan that was frozen; what was scored
      people/<dataset>.parquet              age, sex, device, site and pacing of its records
      cells/<task>/<model>/<setting>/<key>/ predictions.parquet, scores.parquet, cell.json, DONE;
                                            OUTDATED where the cell got another key since
      fits/<task>/<model>/<key>/            weights, validation.parquet, log.csv, fit.json, DONE
      reasons/<task>/<model>/<setting>/     <id>.json: why a cell has no number
      features/<model>/<dataset>/           pooled features by setting, and windows/ for resuming
      models/<sha>.json                     facts of each network
      datasets/<sha>.json                   facts of each selection of records
      policies/<sha>.safetensors            what a policy learned from the training split
      invocations/<time>-<id>.json          the commands that worked here
      derived/                              intervals, computed when a run is read; may be deleted
      set_aside/                            what was found damaged, and why; may be deleted
      checkpoints/<fit key>/                of fits that are not finished
      locks/, logs/                         who computes what; what the models printed
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from ecgbench.core.cells import FORMAT, OFFICIAL, Cell, Fit, Plan, key
from ecgbench.core.files import as_json, locked, put
from ecgbench.core.folders import DONE, below, damaged, document, finished, read_json
from ecgbench.core.registry import folder_name
from ecgbench.core.text import enumerated
from ecgbench.errors import BadSetting, Damaged, MissingData
from ecgbench.results.aside import set_aside
from ecgbench.study.index import Index

Status = Literal["ok", "skipped", "failed", "damaged", "missing"]
_WITHOUT: tuple[Status, ...] = ("failed", "skipped")
"""What a stored reason can say."""
_OUTDATED = "OUTDATED"
"""File in a finished cell's folder: its cell got another key since. It says so where the index is
gone.
"""
_ELSEWHERE = "choose another folder"
PENDING = "not computed yet; the same `ecgbench run` command goes on where it stopped"


class Store:
    """One run folder."""

    def __init__(self, path: Path, shared: Path | None = None) -> None:
        """shared: the run folder whose features it uses, as `shared_features` says."""
        self.path, self.shared = path, shared or path
        self.index = Index(path)
        self.plan_hash = ""
        """Of the plan that was read last."""
        self._keys: dict[str, str] = {}
        self._seen = 0, 0
        """What of the index is in `_keys`."""

    @property
    def plan_file(self) -> Path:
        """Where the plan lies."""
        return self.path / "plan.json"

    def plan(self) -> Plan | None:
        """What was asked for in this folder, None before the first run; Damaged where it is not
        what was hashed, BadSetting where it is of another format.
        """
        if not self.plan_file.exists():
            return None
        try:
            stored = json.loads(self.plan_file.read_bytes())
            version = stored.get("format", 1)
            if version == FORMAT and key(stored["plan"]) == stored["hash"]:
                self.plan_hash = str(stored["hash"])
                return Plan.from_json(stored["plan"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BadSetting):
            version = FORMAT
        if version == FORMAT:
            raise Damaged(
                f"{self.plan_file} is not what a run wrote; restore it, or move it away and give "
                f"the commands of this folder again, which find what is computed, or {_ELSEWHERE}"
            )
        raise BadSetting(
            f"{self.plan_file} holds a run of format {version}, and this version reads format "
            f"{FORMAT}; {_ELSEWHERE}"
        )

    def existing_plan(self) -> Plan:
        """The plan; MissingData where there is none."""
        plan = self.plan()
        if plan is None:
            raise MissingData(
                f"no run in {self.path} (no plan.json there); run: ecgbench run --out "
                f"{self.path}, or see `ecgbench runs ls`"
            )
        return plan

    def join(self, plan: Plan) -> Plan:
        """The plan with what earlier runs asked of this folder; BadSetting when settings differ.

        A plan that holds all that was asked before keeps its own order, so a grid that grew reads
        like one asked for at once.
        """
        old = self.plan()
        if old is None:
            return plan
        ours, theirs = _flat(plan.shared()), _flat(old.shared())
        names = {**ours, **theirs}
        if differing := [name for name in names if ours.get(name) != theirs.get(name)]:
            there, here = (
                [_option(name, of.get(name)) for name in differing] for of in (theirs, ours)
            )
            raise self._other(there, here)
        loaded: dict[str, str] = {}
        for f in (*old.fits, *plan.fits):
            # one row is one model: its seeds are averaged, its weights must not be
            if (weights := loaded.setdefault(f.model, f.weights)) != f.weights:
                raise self._other(*([f"--weights {f.model}={w}"] for w in (weights, f.weights)))
        both = plan if set(old.cells) <= set(plan.cells) else old.joined(plan)
        metrics = tuple(dict.fromkeys([*plan.scoring.metrics, *old.scoring.metrics]))
        both = replace(both, scoring=replace(plan.scoring, metrics=metrics))
        return both.powered(max(plan.scoring.draws, old.scoring.draws))

    def keep_request(self, text: str) -> None:
        """Keep what a command asked for, as the text of a plan file: plan.toml, and plan-2.toml
        and so on for what later commands added.
        """
        names = chain(["plan.toml"], (f"plan-{n}.toml" for n in count(2)))
        for file in (self.path / name for name in names):
            if not file.exists():
                put(file, text)
                return
            if file.read_text(encoding="utf-8") == text:
                return

    def write_plan(self, plan: Plan) -> Plan:
        """Write what is asked for now, joined with what was before; returns both.

        Nothing is written where that is what plan.json holds.
        """
        with self.alone("plan"):
            joined = self.join(plan)
            body = joined.to_json()
            if self.plan() != joined:
                put(self.plan_file, as_json({"format": FORMAT, "plan": body, "hash": key(body)}))
        return joined

    def _other(self, there: Sequence[str], here: Sequence[str]) -> BadSetting:
        return BadSetting(
            f"{self.path} holds a run with {enumerated(there)}, and asked for is "
            f"{enumerated(here)}; {_ELSEWHERE}"
        )

    # which key a cell has

    def keys(self) -> dict[str, str]:
        """Identity of a cell -> its key, of all that were begun.

        As the index says, of which only what is new is read; cells that it does not name speak for
        themselves.
        """
        now = self.index.read()
        if now != self._seen:
            if now[0] != self._seen[0]:
                self._keys = _scanned(self.path, set(self.index.keys.values()))
            self._keys.update(self.index.keys)
            self._seen = now
        return self._keys

    def add_keys(self, keys: Mapping[str, str]) -> None:
        """Record which keys cells have from now on; a known key is not written again."""
        known = self.keys()
        changed = {i: k for i, k in {**known, **keys}.items() if self.index.keys.get(i) != k}
        if changed:
            self._mark(
                {known[i] for i, k in changed.items() if known.get(i, k) != k},
                set(changed.values()),
            )
            self.index.add_keys(changed)

    def add_finished(self, cell_keys: Iterable[str], at: float | None = None) -> None:
        """Record in the index which cells are finished, since `at` (now; 0: long ago); what it
        knows is not written again.
        """
        self.index.read()
        self.index.add_finished(
            [name for name in map(folder_name, cell_keys) if name not in self.index.finished],
            at,
        )

    def _mark(self, old: set[str], new: set[str]) -> None:
        """Note in the cells' own folders which keys count no longer, and which count again."""
        outdated, current = set(map(folder_name, old)), set(map(folder_name, new))
        for folder in cells_of(self.path):
            if folder.name in current:
                (folder / _OUTDATED).unlink(missing_ok=True)
            elif folder.name in outdated:
                put(folder / _OUTDATED, "")

    def state(self, cell: Cell) -> tuple[Status, str]:
        """(status, reason) of a cell, as its files say that are there; none is read but the reason
        of one without a number.
        """
        if self.folder(cell) is not None:
            return "ok", ""
        file = self.reason_file(cell)
        if not file.exists():
            return "missing", PENDING
        try:
            stored = document(file)
        except Damaged as error:
            return "damaged", str(error)
        status, reason = stored.get("status"), stored.get("reason")
        if stored.get("identity") == cell.identity and isinstance(reason, str):
            for known in _WITHOUT:
                if status == known:
                    return known, reason
        return "damaged", str(damaged(file))

    def give_reason(
        self, cell: Cell, status: Status, reason: str, trace: str = "", log: str = ""
    ) -> None:
        """Store why a cell has no number: it is "failed" or "skipped". `log`: what its model
        printed.
        """
        why = {"status": status, "reason": reason, "trace": trace, "log": log}
        content = as_json({"format": FORMAT, "identity": cell.identity, **why})
        put(self.reason_file(cell), content)

    def mark(self, cell: Cell) -> tuple[object, ...]:
        """What lies there of a cell, its number or its reason; another one once it was computed
        again.
        """
        folder = self.folder(cell)
        return folder, *map(_written, (folder and folder / DONE, self.reason_file(cell)))

    def log_of(self, cell: Cell) -> str:
        """The file with what the model printed, where a cell without a number names one."""
        with suppress(Damaged):
            return str(document(self.reason_file(cell)).get("log", ""))
        return ""

    # where things lie

    def cell_folder(self, cell: Cell, cell_key: str) -> Path:
        """Where a cell lies under a key."""
        return self.path.joinpath("cells", *_setting_folders(cell), folder_name(cell_key))

    def folder(self, cell: Cell) -> Path | None:
        """Where a cell lies under the key that it has; None where it is not finished."""
        self.index.read()  # where it names the cell, no other folder needs to be looked at
        cell_key = self.index.keys.get(cell.identity) or self.keys().get(cell.identity)
        folder = self.cell_folder(cell, cell_key) if cell_key else None
        if folder is None or not finished(folder):
            return None
        outdated = os.path.exists(f"{folder}/{_OUTDATED}")
        return _current(folder, cell.identity) if outdated else folder

    def told_finished(self, cell: Cell) -> Path | None:
        """Where a cell should lie that the index calls finished; None where it does not."""
        self.index.read()
        cell_key = self.index.keys.get(cell.identity, "")
        name = folder_name(cell_key) if cell_key else ""
        return self.cell_folder(cell, cell_key) if name in self.index.finished else None

    def fit_folder(self, fit: Fit, fit_key: str) -> Path:
        """Where a fit lies."""
        fold = [] if fit.fold == OFFICIAL else [f"fold {fit.fold}"]
        return self.path.joinpath("fits", *map(folder_name, (fit.task, fit.model, *fold, fit_key)))

    def features_folder(self, model: str, dataset: str) -> Path:
        """Where features of a network on a dataset lie."""
        return self.path.joinpath("features", *map(folder_name, (model, dataset)))

    def shared_features(self, model: str, dataset: str) -> Path:
        """Where those lie that another run may have computed: of the recordings as they are."""
        return Store(self.shared).features_folder(model, dataset)

    def checkpoint_folder(self, fit_key: str) -> Path:
        """Where the checkpoints of an unfinished fit lie."""
        return self.path / "checkpoints" / folder_name(fit_key)

    def reason_file(self, cell: Cell) -> Path:
        """The file that says why a cell has no number."""
        name = hashlib.sha256(cell.identity.encode()).hexdigest()[:32]
        return self.path.joinpath("reasons", *_setting_folders(cell), f"{name}.json")

    # facts that several cells share

    def add_facts(self, kind: str, facts: dict[str, Any]) -> str:
        """Write facts of a model or dataset ("models", "datasets") once; returns their sha256,
        which is their name. A file of that name that holds something else is set aside.
        """
        sha256, content = key(facts), as_json(facts).encode()
        file = self.path / kind / f"{sha256}.json"
        if file.exists() and file.read_bytes() != content:
            set_aside(self.path, file, "it does not hold the facts that it is named by")
        if not file.exists():
            put(file, content)
        return sha256

    def facts(self, kind: str) -> dict[str, dict[str, Any]]:
        """sha256 -> facts of all models or datasets ("models", "datasets"), oldest first, without
        files that do not hold the facts that they are named by.
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
        """Whether this process may compute what is called `name`; a dead one's claim ends with
        it.
        """
        with ExitStack() as stack:
            mine = False
            with suppress(BlockingIOError):
                stack.enter_context(self.alone(f"claim {name}", wait=False))
                mine = True
            yield mine

    def alone(self, name: str, wait: bool = True) -> AbstractContextManager[None]:
        """Holds a lock, which ends with its process. `wait` false: BlockingIOError where another
        process holds it.
        """
        return locked(self.path / "locks", hashlib.sha256(name.encode()).hexdigest()[:32], wait)


def _setting_folders(cell: Cell) -> Iterator[str]:
    return map(folder_name, (cell.task, cell.fit.model, str(cell.setting)))


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings and the fields of those that have some: option -> value."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(value if isinstance(value, dict) else {name: value})
    return flat


_OPTIONS = {"protocol": "--protocol", "leads": "--train-leads", "limit": "--limit"}
_OPTIONS |= {"folds": "--folds", "contract": "input.contract", "control": "the control"}
_OPTIONS |= {"exclude": "data.exclude", "fix": "data.fix"}
_OPTIONS |= dict.fromkeys(("draw", "rows"), "scoring.")
"""Setting -> its option, or its key or section for --set; others are of training."""


def _option(name: str, value: Any) -> str:
    """A setting as the command line spells it."""
    option = _OPTIONS.get(name, "training.")
    if isinstance(value, bool):
        value = "on" if value else "off"
    if isinstance(value, list):
        value = ",".join(value)
    if option.startswith("--"):
        return f"no {option}" if value is None else f"{option} {value}"
    option += name if option.endswith(".") else ""
    return f"--set {option}={'none' if value is None else value}"


def free(path: Path) -> Path:
    """The first of runs/demo, runs/demo-2, runs/demo-3, ... that does not exist."""
    named = path if path.name.strip(".") else path.resolve()
    names = chain([named], (Path(f"{named}-{n}") for n in count(2)))
    return next(p for p in names if not p.exists())


def cells_of(path: Path) -> Iterable[Path]:
    """Folders of all finished cells of a run, whether or not its plan names them."""
    return map(path.joinpath, _cells_in(path))


def _cells_in(path: Path) -> Iterator[str]:
    """The same below the run, each as cells/<task>/<model>/<setting>/<key>."""
    places = below(path, "cells", 4)
    return (place for place in places if os.path.exists(f"{path}/{place}/{DONE}"))


def claimed(folder: Path) -> tuple[str, str, float]:
    """What a finished cell says of itself: identity, key, when it was finished; ("", "", 0) where
    it is damaged.
    """
    try:
        says = read_json(folder, "cell.json")
        return str(says["identity"]), str(says["key"]), float(says["finished"])
    except (BadSetting, KeyError, TypeError, ValueError):
        return "", "", 0.0


def _written(file: Path | None) -> tuple[int, int] | None:
    with suppress(OSError):
        facts = file.stat() if file else None
        return (facts.st_ino, facts.st_mtime_ns) if facts else None
    return None


def made_by(folder: Path) -> str:
    """The id of the command that computed a finished cell; "" where it is not known."""
    try:
        return str(read_json(folder, "cell.json").get("command", ""))
    except BadSetting:
        return ""


def _scanned(path: Path, indexed: Collection[str]) -> dict[str, str]:
    """Identity -> key of finished cells whose keys the index does not name.

    Of several of one cell: the newest whose key was not replaced.
    """
    names = set(map(folder_name, indexed))
    unknown = [path / cell for cell in _cells_in(path) if cell.rpartition("/")[2] not in names]
    folders = (folder for folder in unknown if not (folder / _OUTDATED).exists())
    cells = sorted(((*claimed(f), f.name) for f in folders), key=lambda cell: cell[2])
    return {identity: k for identity, k, _, name in cells if folder_name(k) == name}


def _current(outdated: Path, identity: str) -> Path | None:
    """Where a cell lies whose folder was marked as outdated though the index names it: its last
    lines are gone.
    """
    folders = [
        folder
        for folder in outdated.parent.glob("[!.]*")
        if finished(folder) and not (folder / _OUTDATED).exists()
    ]
    mine = [folder for folder in folders if claimed(folder)[0] == identity]
    return max(mine, key=lambda folder: claimed(folder)[2], default=None)
