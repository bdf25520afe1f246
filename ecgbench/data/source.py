"""The files of a dataset: its folder, its index, and the recording of a row.

A run uses the prepared copy, whose folder is named by a hash of the card and the tables of a
release; no record's file is looked at. `ecgbench data prepare` and `ecgbench data check` compare
the files.
"""

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import platformdirs

from ecgbench import datasets
from ecgbench.cards.checked import facts
from ecgbench.cards.dataset import DatasetCard
from ecgbench.core.files import as_parquet, put_hashed, read_hashed, sha256_of, sha256_once
from ecgbench.core.text import hidden, quoted, shortened
from ecgbench.datasets import ROOM, get, resolve
from ecgbench.datasets.indexing.tables import alike, below, either, within
from ecgbench.datasets.own import Recordings
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, MissingData, WriteError
from ecgbench.stats.known import UNKNOWN

LAYOUT = 8
"""Raised by hand when reading, checking or storing changes: all prepared copies are then made
again.
"""
LONG, LONG_OF_TABLES = 2.0, 0.1
"""An index, or its folds, that took more seconds than this is cached next to the prepared copies;
an index of tables, whose hash names it.
"""
T = TypeVar("T")


def where(prepared: Path | None, data: Path | None, name: str = "") -> Path:
    """The folder of prepared copies: of own recordings beside their card; `prepared`, else
    ECGBENCH_PREPARED, else DATA/prepared, if they can be written; else the user's cache folder.
    name: of a dataset.
    """
    if name and isinstance(module := get(name), Recordings) and _is_writable(module.home):
        return module.home
    if named := prepared or os.environ.get("ECGBENCH_PREPARED"):
        return Path(named).expanduser()
    downloads = data_folder(data)
    if downloads and _is_writable(downloads / "prepared"):
        return downloads / "prepared"
    return Path(platformdirs.user_cache_dir("ecgbench")) / "prepared"


def _is_writable(folder: Path) -> bool:
    return os.access(folder if folder.exists() else folder.parent, os.W_OK)


def data_folder(data: Path | None) -> Path | None:
    """The folder of downloads: `data`, else ECGBENCH_DATA, else None."""
    named = data or os.environ.get("ECGBENCH_DATA")
    return Path(named).expanduser() if named else None


def root_of(name: str, card: DatasetCard, data: Path | None) -> Path | None:
    """The folder of a dataset: among the downloads, or where the plug-in says; None where its data
    are generated; MissingData when it is not there.
    """
    if not card.folder:
        return None
    downloads, module = data_folder(data), get(name)
    if isinstance(module, Recordings):
        if module.root.is_dir():
            return module.root
        raise MissingData(
            f"{name}: its recordings are not in {module.root}; correct the line recordings in "
            f"{module.__file__}"
        )
    root = (downloads or Path("DIR")) / card.folder
    missing = [f.replace("|", " or ") for f in card.index_files if not either(root, f)]
    if downloads and root.is_dir() and not missing:
        return root
    what = f"{', '.join(missing)} not found in {root}"
    if downloads is None:
        what = "no data folder is set"
    elif not root.is_dir():
        what = f"there is no folder {root if downloads.is_dir() else downloads}"
    do = f"download {card.title} {card.version} from {card.url}"
    if any(hasattr(module, kind) for kind in ("FILES", "MANIFEST", "LISTING")):
        do += f" (ecgbench data fetch {name} does it)"
    for packed in (root / f"{one}.zip" for one in missing if (root / f"{one}.zip").is_file()):
        do = f"unpack {packed} (in several files: 7z x {packed.name})"
    raise MissingData(
        f"{name}: {what}; {do} into {root}, set --data DIR or ECGBENCH_DATA=DIR, then: "
        f"{command(name, downloads)}"
    )


def command(name: str, data: Path | None, fix: bool = False) -> str:
    """The command that prepares a dataset, for error messages."""
    elsewhere = get(name).CARD.folder and not isinstance(get(name), Recordings)
    option = f" --data {quoted(data or 'DIR')}" if elsewhere else ""
    return f"ecgbench data prepare {quoted(ROOM.argument(name))}{option}{' --fix' if fix else ''}"


@dataclass(frozen=True, eq=False)
class Source:
    """A dataset as published, before preparing."""

    name: str
    module: Any
    """Its plug-in: CARD, index, read."""
    root: Path | None
    """Its folder; None where the data are generated."""
    fingerprint: str
    """sha256 of the card, the tables, and the code of generated data."""
    fix: bool
    """Whether preparing corrects errors beyond doubt (`reading.checked`)."""
    index: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The checked index from `index(root)` of the module, sorted by record."""

    @classmethod
    def of(
        cls,
        name: str,
        data: Path | None,
        prepared: Path | None = None,
        fix: bool = False,
        thorough: bool = False,
    ) -> "Source":
        """The dataset called `name` under `data`; MissingData or BadRecord where it cannot be used.
        prepared: folder of copies. fix: the field. thorough: read the index again.
        """
        name, module = resolve(name), get(name)
        root = root_of(name, module.CARD, data)
        source = cls(name, module, root, fingerprint(name, module, root), fix)
        if root is None or source.own:
            return source.divided(_index(name, module, root))
        file = where(prepared, data) / name / f"index-{source.folder(Path()).name}-{_code()}"
        if thorough:
            with suppress(OSError):
                file.unlink(missing_ok=True)
        index = cached(
            file,
            make=lambda: _index(name, module, root),
            write=as_parquet,
            read=lambda content: pd.read_parquet(io.BytesIO(content)),
            long=LONG_OF_TABLES if _tables(module, root) else 0.0,
        )
        return source.divided(index)

    @property
    def own(self) -> bool:
        """Whether these are own recordings."""
        return isinstance(self.module, Recordings)

    @property
    def count(self) -> int:
        """Number of published records."""
        return len(self.index)

    def folder(self, home: Path) -> Path:
        """Folder of its prepared copy below the folder of all copies; it may not exist."""
        of = [self.fingerprint, self.fix]
        if self.root is not None and not self.own and not _tables(self.module, self.root):
            # two folders of headers differ by their place
            of.append(os.path.relpath(self.root, home))
        return home / self.name / _short(repr(of))

    def divided(self, index: pd.DataFrame) -> "Source":
        """The same with another split in its index."""
        return replace(self, index=index)

    def states(self, table: pd.DataFrame) -> list[str]:
        """Of the files of each record of an index: names, sizes and modification times, and of own
        recordings what they hold and why one is left out; "" where there are none. Only files below
        the root are looked at.
        """
        paths = list(table["path"]) if "path" in table else [""] * len(table)
        wanted = {p for p in paths if below(p)} if self.root else set()
        found, root = dict[str, list[str]](), self.root or Path()
        for folder in {p.rpartition("/")[0] for p in wanted}:
            if not (root / folder).is_dir():
                continue
            for entry in os.scandir(root / folder):
                path = f"{folder}/{entry.name}" if folder else entry.name
                for named in {path, path.rpartition(".")[0]} & wanted:
                    stat = entry.stat()
                    state = f"{stat.st_size} {stat.st_mtime_ns}"
                    state = sha256_once(Path(entry.path)) if self.own else state
                    found.setdefault(named, []).append(f"{entry.name} {state}")
        whys = table["damaged"] if self.own and "damaged" in table else [""] * len(table)
        return [
            " ".join([*sorted(found.get(path, ())), why]).strip() for path, why in zip(paths, whys)
        ]


def _index(name: str, module: Any, root: Path | None) -> pd.DataFrame:
    """The index, made now and checked."""
    with ROOM.calling(name):
        index = module.index(root)
    check(name, module.CARD, index)
    # by record: features are addressed by position, and the order of lines in a CSV must not move
    # a number
    return index.sort_values("record", ignore_index=True)


def cached(
    file: Path,
    make: Callable[[], T],
    write: Callable[[T], bytes],
    read: Callable[[bytes], T],
    long: float = 0.0,
) -> T:
    """The result of `make`, read from a file if an earlier call took so many seconds (0: LONG)."""
    content = read_hashed(file)
    if content is not None:
        return read(content)
    began = time.monotonic()
    made = make()
    if time.monotonic() - began > (long or LONG):
        with suppress(OSError, WriteError):  # it can be made again
            put_hashed(file, write(made))
    return made


def fingerprint(name: str, module: Any, root: Path | None) -> str:
    """sha256 of all that decides how the files of a dataset are read."""
    if isinstance(module, Recordings):  # whatever else changes, a file is read as it was
        return hashlib.sha256(canonical([LAYOUT, asdict(module.said.options)])).hexdigest()
    total = hashlib.sha256(canonical([LAYOUT, facts(module.CARD)]))
    # LAYOUT knows nothing of a plug-in from outside, nor of data that are made by code
    total.update((ROOM.source_hash(name) or "").encode())
    code = [Path(module.__file__)] if root is None else []
    for file in [*code, *_tables(module, root)]:
        total.update(sha256_of(file).encode())
    return total.hexdigest()


def _tables(module: Any, root: Path | None) -> list[Path]:
    files = module.CARD.index_files
    return [t for f in files if root for t in either(root, f) if t.is_file()]


def _code() -> str:
    """Of the files that make indices of the built-in datasets."""
    here = Path(str(datasets.__file__)).parent
    files = sorted(p for p in here.rglob("*") if p.suffix in (".py", ".csv", ".toml"))
    return _short("".join(map(sha256_of, files)))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rows(index: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of an index as a dataset's `read` receives them: column -> value."""
    columns = [str(c) for c in index.columns]
    for values in index.itertuples(index=False, name=None):
        yield dict(zip(columns, values))


def read(source: Source, row: dict[str, Any]) -> Recording:
    """The recording of a row of the index. BadRecord and OSError concern the record alone; any
    other error of the plug-in is BadSetting.
    """
    root, card = source.root, source.module.CARD
    if root is not None and row["path"]:  # else no file of the release holds it
        within(root, row["path"], row["record"])
    with nullcontext() if source.own else ROOM.calling(source.name, OSError):
        recording = source.module.read(root, row)
    if not isinstance(recording, Recording):
        raise BadSetting(
            f"dataset {source.name!r}: its read() gives a {type(recording).__name__} where a "
            f"Recording belongs"
        )
    if not card.any_leads and (missing := [n for n in card.leads if n not in recording.leads]):
        raise BadRecord(f"{recording.record}: lead {', '.join(missing)} is missing")
    vars(recording).pop("extremes", None)  # its samples may have changed since it was made
    return recording.completed().clinical()


def check(name: str, card: DatasetCard, index: pd.DataFrame) -> None:
    """Refuses an index that cannot be used: BadRecord names the fault, BadSetting where it is no
    table.
    """
    if not isinstance(index, pd.DataFrame):
        raise BadSetting(
            f"dataset {name!r}: its index() gives a {type(index).__name__} where a "
            f"pandas.DataFrame belongs"
        )
    labels = [c for t in card.tasks for c in t.columns]
    paths = ["path"] if card.folder else []
    if missing := {"record", "patient", "split", *paths, *labels} - {*index.columns}:
        raise BadRecord(f"{name}: its index lacks the column {', '.join(sorted(missing)[:5])}")
    texts = {f"column {c}": index[c] for c in ("record", *paths)}
    for what, values in {**texts, "row of column names": index.columns}.items():
        odd = [v for v in values if not isinstance(v, str)]
        if odd:
            raise BadRecord(f"{name}: the {what} of its index holds {odd[0]}, where a str belongs")
    if (blank := index["patient"].isna()).any():
        one = index.loc[blank, "record"].iloc[0]
        raise BadRecord(f"{name}: record {one} of its index has no patient; give it one of its own")
    for column in ("record", "patient", *paths):
        for text in (t for t in map(str, index[column]) if not t.isprintable() and hidden(t)):
            raise BadRecord(
                f"{name}: the {column} {shortened(ascii(text), 80)} of its index holds a control "
                f"character; correct the table or the name of the file"
            )
    if (twice := index["record"].duplicated()).any():
        raise BadRecord(
            f"{name}: record {index.loc[twice, 'record'].iloc[0]} is there twice in its index"
        )
    if splits := {*map(str, index["split"])} - {"train", "val", "test"}:
        raise BadRecord(
            f"{name}: splits are train, val and test; its index has {', '.join(sorted(splits))}"
        )
    masked = {c for t in card.tasks if t.masked for c in t.columns}
    for column in (c for c in index.columns if ":" in c):
        if not index[column].isin([0, 1, UNKNOWN] if column in masked else [0, 1]).all():
            unknown = " (-1, unknown, is for tasks with masked=True)"
            raise BadRecord(
                f"{name}: the label column {column} of its index has other values than 0 and 1"
                f"{unknown if index[column].eq(UNKNOWN).any() else ''}"
            )
    spread = index.groupby(index["patient"].map(alike))["split"].nunique()
    if (spread > 1).any():
        raise BadRecord(f"{name}: patient {spread.index[spread > 1][0]} is in more than one split")


def canonical(value: Any) -> bytes:
    """JSON for hashing: the same value gives the same bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
