"""From prepared datasets to a corpus in shards: whether to stream, where the shards lie, what goes
into them, and who of several processes writes them.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from ecgbench.core import machine
from ecgbench.core.cards import InputContract
from ecgbench.core.cells import Folders, key
from ecgbench.core.text import counted, size
from ecgbench.data import views
from ecgbench.data.copy import Copy
from ecgbench.data.disk import SHARDS
from ecgbench.data.source import where
from ecgbench.data.views import View
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.preprocess import normalise
from ecgbench.errors import BadSetting
from ecgbench.evaluate import torchrun
from ecgbench.pretraining import output
from ecgbench.pretraining.corpus import demand_some, trainable
from ecgbench.pretraining.guard import Name
from ecgbench.pretraining.shards import Layout, Shards, Source, opened
from ecgbench.pretraining.streamed import BUFFER, Streamed, demand_buffer

SHARE = 0.5
"""Of the machine's memory: `auto` streams where the copies of all its processes would take more."""

How = Literal["auto", "memory", "stream"]


@dataclass(frozen=True, kw_only=True)
class Holding:
    """How a corpus is held while it is trained on. BadSetting for another word."""

    how: How = "auto"
    shards: Path | None = None
    """Folder of the shards, which every process of a machine sees; None: beside the prepared
    copies.
    """
    buffer: int | None = None
    """Recordings that are shuffled together where they are streamed; None: as many as a
    pre-training began with, else `BUFFER`.
    """

    def __post_init__(self) -> None:
        if self.how not in ("auto", "memory", "stream"):
            raise BadSetting(
                f"--set corpus={self.how}: auto, memory, or stream (from shards on disk)"
            )

        if self.buffer is not None:
            demand_buffer(self.buffer, Layout.block)
        if self.shards is not None:
            there = next(p for p in (self.shards, *self.shards.absolute().parents) if p.exists())
            if not there.is_dir():
                which = "" if there == self.shards else f"{there} "
                raise BadSetting(
                    f"--set shards={self.shards}: {which}is a file; name a folder, which is "
                    f"made where "
                    f"there is none"
                )

    def home(self, folders: Folders) -> Path:
        """Where corpora in shards lie, each in a folder of its own."""
        return self.shards or where(folders.prepared, folders.data) / SHARDS

    def streams(self, out: Path, count: Callable[[], int]) -> bool:
        """Whether to stream into a pre-training in `out`: what is begun goes on as it began. count:
        bytes of a copy in memory, asked where that decides.
        """
        if self.how != "auto":
            return self.how == "stream"
        begun = out / output.RECIPE
        if begun.is_file():
            return "stream" in output.read(begun)
        return too_large(count(), torchrun.on_this_machine())

    def shuffled(self, out: Path) -> int:
        """Recordings that are shuffled together in a streamed pre-training in `out`."""
        if self.buffer is not None:
            return self.buffer
        begun = output.read(out / output.RECIPE) if (out / output.RECIPE).is_file() else {}
        return int(begun.get("stream", {}).get("buffer", BUFFER))


def too_large(count: int, processes: int) -> bool:
    """Whether copies of so many bytes in so many processes take too much of this machine."""
    return count * processes > SHARE * memory()


def memory() -> int:
    """Bytes of this machine's memory, or of what a container may use of it."""
    there = machine.memory()
    return min(n for n in (there["total"], there["limit"]) if n is not None)


def bytes_of(prepared: Sequence[Copy], contract: InputContract, layout: Layout) -> int:
    """Of the samples of all that may be trained on, at most."""
    samples = sum(int(views.lengths(p, contract.preparation)[trainable(p)].sum()) for p in prepared)
    return samples * len(LEADS) * layout.type.itemsize


def source_of(
    prepared: Sequence[Copy],
    contract: InputContract,
    choose: Callable[[Name], bool],
    left_out: Mapping[str, int],
    layout: Layout,
) -> tuple[Source, str]:
    """What of prepared datasets is packed, and its identity: as `corpus.gather` has it, but that
    recordings are computed once, as they are written, and no view is kept of them.

    left_out: why `choose` refused, counted while it is called. The identity covers the digests of
    the datasets, which recordings were chosen, and how they are prepared; what else was prepared
    here changes it only where it changes the choice. BadSetting: no recording is left.
    """
    chosen = [_chosen(p, choose) for p in prepared]
    lengths = [views.lengths(p, contract.preparation)[rows] for p, rows in zip(prepared, chosen)]
    kept = [own[long >= contract.samples] for own, long in zip(chosen, lengths)]
    short = sum(map(len, chosen)) - sum(map(len, kept))
    demand_some(sum(map(len, kept)), short, contract)
    names = pa.concat_tables(
        pa.table(
            {
                "dataset": pa.array([p.name] * len(rows), pa.string()),
                "record": pa.array(p.index[["record"]]["record"].array[rows], pa.large_string()),
            }
        )
        for p, rows in zip(prepared, kept)
    )
    of = np.repeat(np.arange(len(kept)), [len(rows) for rows in kept])
    read_by = [View(p, contract, keep=False) for p in prepared]
    for p in prepared:
        _ = p.rows  # before processes are forked, which then share it

    def read(row: int) -> np.ndarray:
        signal = read_by[of[row]].get(names["record"][row].as_py())
        return normalise(signal, contract.normalisation)

    facts = {
        "corpora": [[p.name, p.digest] for p in prepared],
        "chosen": [hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest() for rows in kept],
        "view": views.key(contract.preparation),
        "normalisation": contract.normalisation,
        "samples": contract.samples,
        "layout": asdict(layout),
    }
    about = {"samples": contract.samples, "too_short": short, "left_out": dict(left_out)}
    fitting = np.concatenate([long[long >= contract.samples] for long in lengths])
    return Source(names=names, lengths=fitting, read=read, about=about), key(facts)


def folder_of(home: Path, identity: str) -> Path:
    """Where the shards of a source lie."""
    return home / identity[:16]


def found(home: Path, identity: str) -> Shards:
    """What another process of this machine has packed; BadSetting where that is not there."""
    shards = opened(folder_of(home, identity), identity)
    if shards is None:
        raise BadSetting(
            f"there are no shards of this corpus in {folder_of(home, identity)}, where another "
            f"process of this machine packed them; give --set shards=DIR, a folder that all "
            f"its processes "
            f"see"
        )
    return shards


def told(corpus: Streamed) -> str:
    """One line: where it lies, what it takes."""
    shards, recordings = corpus.shards, len(corpus)
    held = shards.size * min(corpus.buffer, recordings) // recordings
    count = counted(len(shards.index["shards"]), "shard")
    return (
        f"streamed from {shards.folder}: {size(shards.size)} in {count}, "
        f"{min(corpus.buffer, recordings):,} recordings shuffled together ({size(held)} in memory)"
    )


def _chosen(prepared: Copy, choose: Callable[[Name], bool]) -> np.ndarray:
    """Rows of the index that may be trained on."""
    rows, records = trainable(prepared), prepared.index[["record"]]["record"].array
    passed = (choose(Name(prepared.name, str(records[row]))) for row in rows)
    return rows[np.fromiter(passed, bool, len(rows))]
