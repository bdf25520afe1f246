"""Where a dataset's files lie, and what distinguishes one copy of them from another."""

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import platformdirs

from ecgbench.core.cards import DatasetCard, facts
from ecgbench.core.text import hidden, quoted, shortened
from ecgbench.data.located import demand_readable
from ecgbench.data.manifest import Manifest, State
from ecgbench.datasets import ROOM, get, resolve
from ecgbench.datasets.indexing.tables import alike, below, either
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, MissingData
from ecgbench.stats.known import UNKNOWN

LAYOUT = 7
"""Raised by hand when reading, checking or storing changes: every prepared copy is then made
anew.
"""


def where(prepared: Path | None, data: Path | None) -> Path:
    """The folder of prepared copies: `prepared`, else ECGBENCH_PREPARED, else DATA/prepared if it
    can be written, else the user's cache folder.
    """
    named = prepared or os.environ.get("ECGBENCH_PREPARED")
    if named:
        return Path(named).expanduser()
    downloads = data_folder(data)
    if downloads is not None:
        beside = downloads / "prepared"
        if os.access(beside if beside.exists() else downloads, os.W_OK):
            return beside
    return Path(platformdirs.user_cache_dir("ecgbench")) / "prepared"


def data_folder(data: Path | None) -> Path | None:
    """The folder of downloads: `data`, else ECGBENCH_DATA, else None."""
    named = data or os.environ.get("ECGBENCH_DATA")
    return Path(named).expanduser() if named else None


def root_of(name: str, card: DatasetCard, data: Path | None) -> Path | None:
    """The dataset's folder among the downloads, or where the plug-in says that it is; None where
    its data are generated; MissingData when it is not there.
    """
    if not card.folder:
        return None
    downloads = data_folder(data)
    module = get(name)
    if hasattr(module, "RECORDINGS"):
        return _own_folder(name, module, downloads)
    itself = hasattr(module, "FILES") or hasattr(module, "MANIFEST")
    fetch = f"download {card.title} {card.version} from {card.url}"
    fetch += f" (ecgbench data fetch {name} does it)" if itself else ""
    if downloads is None:
        raise MissingData(
            f"{name}: no data folder is set; {fetch} into DIR/{card.folder}, set --data DIR or "
            f"ECGBENCH_DATA=DIR, "
            f"then: {command(name, None)}"
        )
    root = downloads / card.folder
    lacking = [f.replace("|", " or ") for f in card.index_files if not either(root, f)]
    if not lacking and root.is_dir():
        return root
    if known := _nearby(downloads, card):
        raise MissingData(f"{name}: {known}")
    what = f"{', '.join(lacking)} not found in {root}" if lacking else f"there is no folder {root}"
    raise MissingData(
        f"{name}: {what if downloads.is_dir() else f'there is no folder {downloads}'} (set by "
        f"--data or ECGBENCH_DATA); {fetch} into {root}, then: {command(name, downloads)}"
    )


def _own_folder(name: str, module: ModuleType, downloads: Path | None) -> Path:
    """RECORDINGS of a plug-in, from its own folder or absolute; else the folder of that name among
    the downloads.
    """
    here = Path(str(module.__file__)).parent / Path(module.RECORDINGS).expanduser()
    beside = [downloads / module.CARD.folder] if downloads else []
    for place in (here, *beside):
        if place.is_dir():
            return Path(os.path.abspath(place))
    raise MissingData(
        f"{name}: its recordings are not in {os.path.abspath(here)}; correct RECORDINGS in "
        f"{module.__file__}, or give the folder that holds {module.CARD.folder}/: --data DIR"
    )


def _nearby(downloads: Path, card: DatasetCard) -> str:
    """Where the dataset lies, and what to give instead, if `downloads` is one folder too deep or
    too high; else "".
    """
    here = Path(os.path.abspath(downloads))
    below = sorted(here.glob("*/"))

    def whole(folder: Path) -> bool:
        # a folder of headers without a table is known by its name alone
        return bool(card.index_files) and all(either(folder, f) for f in card.index_files)

    for home in filter(lambda home: whole(home / card.folder), (*here.parents, *below)):
        own = home / card.folder
        what = "is the folder above" if home in below else "lies beside it"
        if own in (here, *here.parents):
            what = "is that folder itself" if own == here else "lies inside it"
        return f"its folder is {own}, and --data {downloads} {what}; give --data {quoted(home)}"
    for own in filter(whole, (here, *below)):
        right = own.with_name(card.folder)
        return (
            f"its folder must be called {card.folder}, and is {own}; rename it: "
            f"{shlex.join(['mv', str(own), str(right)])}, and give --data {quoted(own.parent)}"
        )
    return ""


def command(name: str, data: Path | None, fix: bool = False) -> str:
    """The command that prepares a dataset, as errors propose it."""
    elsewhere = get(name).CARD.folder and not hasattr(get(name), "RECORDINGS")
    place = f" --data {quoted(data or 'DIR')}" if elsewhere else ""
    return f"ecgbench data prepare {quoted(ROOM.argument(name))}{place}{' --fix' if fix else ''}"


@dataclass(frozen=True, eq=False)
class Source:
    """A dataset as published, before preparing."""

    name: str
    module: ModuleType
    """Its plug-in: CARD, index, read."""
    root: Path | None
    """Its folder; None where the data are generated."""
    fingerprint: str
    """sha256 of card, index files, and path, size and time of every record file, relative to the
    root.
    """
    identity: str
    """See the function of that name."""
    count: int
    """Records that are published."""
    _index: Callable[[], pd.DataFrame]
    fix: bool = False
    """Whether preparing puts right what is wrong beyond doubt (`prepared.checked`)."""

    @classmethod
    def of(
        cls,
        name: str,
        data: Path | None,
        prepared: Path | None = None,
        fix: bool = False,
        thorough: bool = False,
    ) -> "Source":
        """The dataset called `name` under `data`; MissingData or BadRecord when no result may rest
        on it. prepared: where copies are, and what was found before (`manifest`). fix: the field.
        thorough: look at every file nevertheless.
        """
        name, module = resolve(name), get(name)
        root = root_of(name, module.CARD, data)
        manifest = None if root is None else Manifest(name, module, root, where(prepared, data))
        if manifest and not thorough and (found := manifest.trusted()):
            known = found.fingerprint, found.identity, found.records, found.index
            return cls(name, module, root, *known, fix)
        index = manifest.kept() if manifest else None
        if index is None:
            with ROOM.calling(name):
                index = module.index(root)
            check(name, module.CARD, index)
            # by record: features are addressed by position, and the order of lines in a CSV must
            # not move a number
            index = index.sort_values("record", ignore_index=True)
        files = [] if root is None else _record_files(root, index["path"])
        fingerprint = _fingerprint(name, module, root, files)
        known = fingerprint, identity(states(files)), len(index), lambda: index
        if manifest:
            manifest.write(index, *known[:2], files)
        source = cls(name, module, root, *known, fix)
        vars(source)["files"] = files  # as they were before any is read
        return source

    @cached_property
    def index(self) -> pd.DataFrame:
        """What `index(root)` of the module gave, checked, in the order of the record ids."""
        return self._index()

    @cached_property
    def files(self) -> list[State]:
        """The files that records name, sorted."""
        return [] if self.root is None else _record_files(self.root, self.index["path"])

    @cached_property
    def states(self) -> np.ndarray:
        """See the function of that name."""
        return states(self.files)

    def folder(self, home: Path) -> Path:
        """Where the prepared copy of exactly these files lies, or would."""
        of = [self.fingerprint, "fix"] if self.fix else [self.fingerprint]
        total = hashlib.sha256(canonical(of)).hexdigest()
        return home / self.name / total[:16]

    def divided(self, index: pd.DataFrame) -> "Source":
        """The same with another split in its index."""
        return replace(self, _index=lambda: index)


def _fingerprint(name: str, module: ModuleType, root: Path | None, files: list[State]) -> str:
    card = module.CARD
    total = hashlib.sha256(canonical([LAYOUT, facts(card)]))
    # LAYOUT knows nothing of a plug-in from outside, nor of data that are made by code
    total.update((ROOM.source_hash(name) or "").encode())
    code = _sources(module) if root is None else []
    tables = [t for f in card.index_files if root for t in either(root, f)]
    for file in [*code, *filter(Path.is_file, tables)]:
        total.update(hashlib.sha256(file.read_bytes()).digest())
    for file_state in files:
        total.update(canonical(file_state[:3]))
    return total.hexdigest()


def states(files: list[State]) -> np.ndarray:
    """(file, 3): inode and time of the last change, and 1."""
    return np.array([(*state[3:], 1) for state in files], "<u8").reshape(-1, 3)


def identity(states: np.ndarray) -> str:
    """sha256 of inodes and times of the last change: other files of the same size and time stamp
    have another.
    """
    return hashlib.sha256(states[:, :2].tobytes()).hexdigest()


def _sources(module: ModuleType) -> list[Path]:
    """The file of generated data, and those in its own package that it imports from."""
    own = Path(str(module.__file__))
    package = module.__name__.partition(".")[0]
    files = {own}
    for value in vars(module).values():
        name = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
        file = Path(getattr(sys.modules.get(name), "__file__", None) or own)
        if file.parent == own.parent or name.startswith(f"{package}."):
            files.add(file)
    return sorted(files)


def _record_files(root: Path, paths: Iterable[str]) -> list[State]:
    """States of the files that records name, with or without their suffix; sorted. Nothing outside
    the root is looked at.
    """
    wanted, states = {p for p in paths if below(p)}, []
    for folder in sorted({p.rpartition("/")[0] for p in wanted}):
        if not (root / folder).is_dir():
            continue
        for entry in os.scandir(root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if path in wanted or path.rpartition(".")[0] in wanted:
                stat = entry.stat()
                times = stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns
                states.append((path, stat.st_size, *times))
    return sorted(states)


def rows(index: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of an index one after the other, as a dataset's `read` receives them: column ->
    value.
    """
    columns = [str(c) for c in index.columns]
    for values in index.itertuples(index=False, name=None):
        yield dict(zip(columns, values))


def read(name: str, root: Path | None, row: dict[str, Any]) -> Recording:
    """The recording of a row of the index. BadRecord and OSError cost the record alone, all else
    that the dataset's plug-in does is BadSetting.
    """
    card = get(name).CARD
    if root is not None:
        demand_readable(root, row, card)
    with ROOM.calling(name, OSError):
        recording = get(name).read(root, row)
    if not isinstance(recording, Recording):
        raise BadSetting(
            f"dataset {name!r}: its read() gives a {type(recording).__name__} where a Recording "
            f"belongs"
        )
    if not card.any_leads and (lacking := [n for n in card.leads if n not in recording.leads]):
        raise BadRecord(f"{recording.record}: lead {', '.join(lacking)} is missing")
    return recording.completed().clinical()


def check(name: str, card: DatasetCard, index: pd.DataFrame) -> None:
    """Refuses an index that no result may rest on; BadRecord says what is wrong, BadSetting where
    it is no table.
    """
    if not isinstance(index, pd.DataFrame):
        raise BadSetting(
            f"dataset {name!r}: its index() gives a {type(index).__name__} where a "
            f"pandas.DataFrame belongs"
        )
    columns = [
        "record",
        "patient",
        "split",
        *(["path"] if card.folder else []),
        *(c for t in card.tasks for c in t.columns),
    ]
    lacking = [c for c in columns if c not in index.columns]
    if lacking:
        raise BadRecord(f"{name}: its index lacks the column {', '.join(lacking[:5])}")
    texts = {f"column {c}": index[c] for c in ("record", "path") if c in columns}
    for what, values in {**texts, "row of column names": index.columns}.items():
        odd = [v for v in values if not isinstance(v, str)]
        if odd:
            raise BadRecord(f"{name}: the {what} of its index holds {odd[0]}, where a str belongs")
    for column in {"record", "patient", "path"} & {*columns}:
        odd = [text for text in map(str, index[column]) if not text.isprintable() and hidden(text)]
        if odd:
            raise BadRecord(
                f"{name}: the {column} {shortened(ascii(odd[0]), 80)} of its index holds a control "
                f"character; correct the table or the name of the file"
            )
    if index["record"].duplicated().any():
        raise BadRecord(
            f"{name}: record {index.loc[index['record'].duplicated(), 'record'].iloc[0]} is there "
            f"twice in its index"
        )
    if not index["split"].isin(["train", "val", "test"]).all():
        raise BadRecord(
            f"{name}: splits are train, val and test; its index has "
            f"{', '.join(sorted(set(map(str, index['split']))))}"
        )
    masked = {c for t in card.tasks if t.masked for c in t.columns}
    for column in (c for c in index.columns if ":" in c):
        if not index[column].isin([0, 1, UNKNOWN] if column in masked else [0, 1]).all():
            unknown = " (-1, unknown, is for tasks with masked=True)"
            raise BadRecord(
                f"{name}: the label column {column} of its index holds something else than 0 and 1"
                f"{unknown if index[column].eq(UNKNOWN).any() else ''}"
            )
    spread = index.groupby(index["patient"].map(alike))["split"].nunique()
    if (spread > 1).any():
        raise BadRecord(f"{name}: patient {spread.index[spread > 1][0]} is in more than one split")


def canonical(value: Any) -> bytes:
    """JSON for hashing: the same value gives the same bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
