"""The recordings of an import, each read once: into the prepared copy, from which all that an
import must know of them comes. An unusable one does not stop the others.
"""

import glob
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ecgbench.core.text import counted, enumerated
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import Progress, read_all
from ecgbench.data.source import Source, fingerprint
from ecgbench.datasets import demo, own
from ecgbench.ecg.readers import by_suffix
from ecgbench.errors import BadSetting


@dataclass(frozen=True)
class Seen:
    """Facts of a file that was read."""

    leads: tuple[str, ...] = ()
    """That it holds, without those that follow from them."""
    fs: float = 0.0
    seconds: float = 0.0
    swing: float = 0.0
    """Largest range of a lead, mV."""
    reason: str = ""
    """Why it cannot be used, or ""."""
    notes: tuple[tuple[str, str], ...] = ()
    """Notes of the recording: (kind, what)."""
    state: str = ""
    """What its files hold."""


class _Pending(own.Recordings):
    """Recordings of which nothing is known yet: any number may be lost."""

    CARD = replace(demo.CARD, any_leads=True, losses=1.0)


def source(folder: Path, said: own.Card, to: Path, table: pd.DataFrame) -> Source:
    """The recordings of a table with record and file, before they are read."""
    module = _Pending(to / own.CARD, said, table)
    index = pd.DataFrame({"record": table["record"], "patient": table["record"], "split": "train"})
    index["path"] = [own.named(file) for file in table["file"]]
    index = index.sort_values("record", ignore_index=True)
    known = fingerprint(said.name, module, folder)
    return Source(said.name, module, folder, known, False, index)


def read(
    folder: Path, said: own.Card, to: Path, table: pd.DataFrame, progress: Progress | None
) -> tuple[Copy, dict[str, Seen]]:
    """The prepared copy of the recordings of a table with record and file, and what was found in
    each, by record. Only new and changed files are read. BadSetting for a question about half of
    the files or more.
    """
    copy = read_all(source(folder, said, to, table), to / own.COPIES, progress)
    known = copy.known.to_dict("index")
    rows = zip(table["record"], table["file"])
    seen = {record: _seen(folder / file, known[record]) for record, file in rows}
    asked = [what for one in seen.values() for kind, what in one.notes if kind == "asked"]
    if 2 * len(asked) >= max(1, len(seen)):
        raise BadSetting(asked[0])
    return copy, seen


def _seen(path: Path, row: Mapping[Any, Any]) -> Seen:
    """Of what is stored of a record; of a file that cannot be used others of its name are named."""
    notes = tuple((kind, what) for kind, what in json.loads(row["notes"]))
    if row["reason"]:
        others = _beside(path)
        also = f"; the table may name {others} instead" if others else ""
        return Seen(reason=f"{row['reason']}{also}", notes=notes, state=row["state"])
    said = dict(notes)
    return Seen(
        leads=tuple(said["leads"].split("+")),
        fs=row["fs"],
        seconds=row["samples"] / row["fs"],
        swing=float(said["swing"]),
        notes=notes,
        state=row["state"],
    )


def _beside(path: Path) -> str:
    """Other files of its name, with the suffix of a known format."""
    files = sorted(path.parent.glob(f"{glob.escape(path.stem)}.*"))
    return enumerated(
        [f.name for f in files if f != path and f.suffix.lower() in by_suffix.READERS]
    )


def demand_usable(table: pd.DataFrame) -> None:
    """BadSetting, with the reasons, where no recording can be used."""
    if not (table["left_out"] == "").any():
        raise BadSetting(
            f"none of the {counted(len(table), 'recording')} can be used: "
            f"{'; '.join(left_out(table))} (names that mean leads: --signals ch1=I,ch2=II)"
        )


def left_out(table: pd.DataFrame) -> list[str]:
    """Unusable records with their reasons, grouped by reason, largest group first."""
    lost = table[table["left_out"] != ""]
    kinds: dict[str, list[str]] = {}
    for record, path, why in lost[["record", "file", "left_out"]].to_numpy():
        kind = re.sub(r"[\d.,]+", "#", why.replace(Path(path).name, "").replace(record, ""))
        kinds.setdefault(kind, []).append(f"{record}: {why}")
    most = sorted(kinds.values(), key=len, reverse=True)
    return [each[0] + (f" (and {len(each) - 1:,} like it)" if each[1:] else "") for each in most]
