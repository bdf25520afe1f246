"""The store of a run: plain files, each whole or absent, `DONE` last. Finished means DONE is there; nothing else counts.

<run>/plan.json                                        what was asked for, with its hash, and the facts it rests on
      fits/<task>/<model>/<key>/                       head, training log, fit.json, DONE
      cells/<task>/<model>/<setting>/<key>/            predictions.parquet, features.npy, scores.parquet,
                                                       replicates.npy, cell.json, DONE
      features/<dataset>/<model>/<key>/                features of frozen encoders, shared by tasks and settings
      locks/                                           empty files: who computes what; logs/: what the models printed
"""

import fcntl
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.cells import Cell, Fit, Plan, key
from ecgbench.errors import BadSetting
from ecgbench.files import Content, as_json, put, writing
from ecgbench.room import folder_name

DONE, FAILED, SKIPPED = "DONE", "FAILED.json", "SKIPPED.json"
_BY_NAME = ("models", "tasks", "datasets")
"""Facts of plan.json that are kept by name, so that runs at work side by side add to one another's."""


class Store:
    """One run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def plan_file(self) -> Path:
        """Where the plan lies."""
        return self.path / "plan.json"

    def document(self) -> dict[str, Any] | None:
        """plan.json, or None before the first run."""
        if not self.plan_file.exists():
            return None
        try:
            found = json.loads(self.plan_file.read_text())
            found["plan"], found["facts"], found["keys"]
        except (ValueError, KeyError, TypeError):
            raise BadSetting(f"{self.plan_file} is not what a run wrote; restore it, or choose another folder with --out") from None
        return dict(found)

    def join(self, plan: Plan) -> Plan:
        """The plan together with what earlier runs asked of this folder; BadSetting when their settings differ.

        A plan that holds all that was asked before keeps its own order, so a grid that grew reads like one asked for at once.
        """
        before = self.document()
        if before is None:
            return plan
        old = Plan.from_json(before["plan"])
        ours, theirs = plan.shared(), old.shared()
        if ours != theirs:
            differing = ", ".join(k for k in ours if ours[k] != theirs[k])
            raise BadSetting(f"{self.path} holds a run with other settings ({differing}); choose another folder with --out")
        loaded = {f.model: f.weights for f in old.fits}
        for f in plan.fits:  # one row of a table is one model: its seeds are averaged, its weights must not be
            if loaded.get(f.model, f.weights) != f.weights:
                raise BadSetting(f"{self.path} holds {f.model} with weights {loaded[f.model]}; choose another folder with --out")
        both = plan if set(old.cells) <= set(plan.cells) else old.joined(plan)
        return both.powered(max(plan.scoring.draws, old.scoring.draws))

    def write_plan(self, plan: Plan, facts: Mapping[str, Any], keys: Mapping[str, str]) -> None:
        """Write plan.json: the plan, its hash, the facts of its models, tasks and datasets, and the key of each cell.

        What another run wrote meanwhile stays. BadSetting when it changed what the numbers of this one mean.
        """
        with self._held("plan"):
            before = self.document()
            if before is not None:
                joined = self.join(plan)
                if joined.scoring != plan.scoring:
                    raise BadSetting(f"another run gave {self.path} more bootstrap draws meanwhile; run the same command again")
                plan, keys = joined, {**before["keys"], **keys}
                named = {k: {**before["facts"].get(k, {}), **facts.get(k, {})} for k in _BY_NAME}
                facts = {**before["facts"], **facts, **named}
            body = plan.to_json()
            put(self.plan_file, as_json({"plan": body, "hash": key(body), "facts": facts, "keys": keys}))

    def fit_folder(self, fit: Fit, fit_key: str) -> Path:
        """Where a fit lies."""
        return self.path.joinpath("fits", *map(folder_name, (fit.task, fit.model, fit_key)))

    def cell_folder(self, cell: Cell, cell_key: str) -> Path:
        """Where a cell lies."""
        return self.path.joinpath("cells", *map(folder_name, (cell.task, cell.fit.model, str(cell.setting), cell_key)))

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Whether this process may compute what is called `name`: one at a time does, and a dead one's claim ends with it."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._held(f"claim {name}", wait=False))
                mine = True
            except BlockingIOError:
                mine = False
            yield mine

    @contextmanager
    def _held(self, name: str, wait: bool = True) -> Iterator[None]:
        """Holds a lock of the operating system, which the death of its process releases. BlockingIOError instead of waiting."""
        file = self.path / "locks" / hashlib.sha256(name.encode()).hexdigest()[:32]
        with writing(file):  # but not the lock itself: that another holds it is no fault of the disk
            file.parent.mkdir(parents=True, exist_ok=True)
            opened = file.open("w")
        with opened as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield


def finished(folder: Path) -> bool:
    """Whether everything in a folder of the store is there."""
    return (folder / DONE).exists()


def finish(folder: Path, content: Mapping[str, Content]) -> None:
    """Write all files of a cell or fit, then DONE with their hashes; earlier failures of it are removed."""
    put(folder / DONE, as_json({name: _hash(put(folder / name, data), data) for name, data in content.items()}))
    for name in (FAILED, SKIPPED):
        (folder / name).unlink(missing_ok=True)


def _hash(path: Path, content: Content) -> str:
    if callable(content):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def excuse(folder: Path, name: str, reason: str, trace: str = "", log: str = "") -> None:
    """Store why a cell has no number: `name` is FAILED or SKIPPED; `log`: what its model printed."""
    content = as_json({"reason": reason, "trace": trace, "log": log})
    if not (folder / name).exists() or (folder / name).read_text() != content:
        put(folder / name, content)
    (folder / (FAILED if name == SKIPPED else SKIPPED)).unlink(missing_ok=True)


def state(folder: Path) -> tuple[str, str]:
    """(status, reason) of a cell: ok, skipped, failed or missing."""
    if finished(folder):
        return "ok", ""
    for name, status in ((SKIPPED, "skipped"), (FAILED, "failed")):
        if (folder / name).exists():
            return status, json.loads((folder / name).read_text())["reason"]
    return "missing", "not computed yet; the same `ecgbench run` command goes on where it stopped"


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON file of a finished folder, checked against DONE."""
    return dict(json.loads(read_bytes(folder, name)))


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """A parquet file of a finished folder, checked against DONE."""
    return pd.read_parquet(io.BytesIO(read_bytes(folder, name)))


def read_array(folder: Path, name: str) -> np.ndarray:
    """A npy file of a finished folder, checked against DONE; BadSetting where it is none, or holds objects."""
    try:
        return np.asarray(np.lib.format.read_array(io.BytesIO(read_bytes(folder, name)), allow_pickle=False))
    except ValueError:
        raise BadSetting(f"{folder / name} is no array of numbers; nothing of it was run; remove {folder} and run again") from None


def read_bytes(folder: Path, name: str) -> bytes:
    """A file of a finished folder; BadSetting where it is gone or is not what DONE says."""
    data = (folder / name).read_bytes() if (folder / name).is_file() else b""
    if hashlib.sha256(data).hexdigest() != json.loads((folder / DONE).read_text()).get(name):
        raise BadSetting(f"{folder / name} is not what the run wrote; remove {folder} and run the same command again")
    return data
