"""The store of a run, format 2: plain files, each whole or absent. A finished folder is complete.

<run>/plan.toml, plan-2.toml, ...           what each command asked for that was new, and its hash
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
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any, Literal

from ecgbench.core.cells import FORMAT, OFFICIAL, Cell, Fit, Plan, Request, key, plan_of
from ecgbench.core.files import as_json, locked, put
from ecgbench.core.folders import DONE, below, damaged, document, finished, read_json
from ecgbench.core.registry import folder_name
from ecgbench.core.text import enumerated
from ecgbench.errors import BadSetting, Damaged, MissingData
from ecgbench.study.index import Index
from ecgbench.study.plan_file import FILE, PlanFile, dump, parse
from ecgbench.study.quarantine import set_aside

Status = Literal["ok", "skipped", "failed", "damaged", "missing"]
_WITHOUT: tuple[Status, ...] = ("failed", "skipped")
"""What a stored reason can say."""
_OUTDATED = "OUTDATED"
"""File in a finished cell's folder: its cell got another key since. It says so where the index is
gone.
"""
_MARK = "# sha256 "
"""Before the hash of a plan file, in its last line."""
_FORMAT = f"format = {FORMAT}"
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

    def plan_files(self) -> list[Path]:
        """The files with what was asked for, oldest first."""
        names = chain(["plan.toml"], (f"plan-{n}.toml" for n in count(2)))
        return [*takewhile(Path.exists, map(self.path.joinpath, names))]

    def plan(self) -> Plan | None:
        """What was asked for in this folder, None before the first run; Damaged where a file is not
        what was hashed, BadSetting where it is of another format.
        """
        if (old := self.path / "plan.json").exists():
            raise BadSetting(
                f"{old} is of an earlier version, and this one reads {FILE}; {_ELSEWHERE}"
            )
        texts = tuple(map(_text_of, self.plan_files()))
        self.plan_hash = key({"requests": texts}) if texts else ""
        return _plan_of(self.path, texts)

    def requested(self) -> list[PlanFile]:
        """What each command asked for that was new, oldest first; Damaged."""
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
        """The plan with what earlier runs asked of this folder; BadSetting when settings differ."""
        return joined(self.path, self.plan(), plan)

    def add_request(self, request: Request, plugins: Iterable[tuple[str, str]] = ()) -> Plan:
        """Keep a checked request in a plan file of its own, unless nothing in it is new; returns
        the plan of all.

        plugins: (room, path) of the plug-ins that it was given by path.
        """
        with self.alone("plan"):
            old = self.plan()
            both = joined(self.path, old, plan_of(request))
            if both != old:
                number = len(self.plan_files()) + 1
                name = FILE if number == 1 else f"plan-{number}.toml"
                body = f"{_FORMAT}\n{dump(request, plugins)}"
                put(self.path / name, f"{body}{_MARK}{_sha256(body)}\n")
        return both

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
        name = _sha256(cell.identity)[:32]
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
        return locked(self.path / "locks", _sha256(name)[:32], wait)


def _setting_folders(cell: Cell) -> Iterator[str]:
    return map(folder_name, (cell.task, cell.fit.model, str(cell.setting)))


def _text_of(file: Path) -> str:
    """A plan file of a run without its hash; Damaged, BadSetting where it is of another format."""
    body, mark, stated = file.read_text(encoding="utf-8", errors="replace").rpartition(_MARK)
    if not mark or _sha256(body) != stated.strip():
        raise Damaged(
            f"{file} is not what a run wrote; restore it, or move it away and give the commands of "
            f"this folder again, which find what is computed, or {_ELSEWHERE}"
        )
    first = body.partition("\n")[0]
    if first != _FORMAT:
        raise BadSetting(
            f"{file} holds a run of another version ({first}), and this one reads {_FORMAT}; "
            f"{_ELSEWHERE}"
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
    """A plan with what was asked of its folder before; BadSetting when settings differ.

    A plan that holds all that was asked before keeps its own order, so a grid that grew reads like
    one asked for at once.
    """
    if old is None:
        return plan
    ours, theirs = _flat(plan.shared()), _flat(old.shared())
    names = {**ours, **theirs}
    if differing := [name for name in names if ours.get(name) != theirs.get(name)]:
        raise _other(path, *([_option(n, of.get(n)) for n in differing] for of in (theirs, ours)))
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
        f"{path} holds a run with {enumerated(there)}, and asked for is {enumerated(here)}; "
        f"{_ELSEWHERE}"
    )


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
