"""The recordings of an import, each read once: into the prepared copy, from which all that an
import must know of them comes. An unusable one does not stop the others.
"""

import glob
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ecgbench.core.text import counted, enumerated
from ecgbench.data.copy import Copy, Progress
from ecgbench.data.prepare import read_all
from ecgbench.data.source import Source, fingerprint
from ecgbench.datasets import demo, own
from ecgbench.ecg.readers import by_suffix
from ecgbench.errors import BadSetting

Notes = dict[str, list[tuple[str, str]]]
"""Of a recording: (kind, what), with its "leads" and its largest "swing"; of a file that asks for a
setting, "asked".
"""


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
) -> tuple[Copy, pd.DataFrame, Notes]:
    """The prepared copy of the recordings of a table with record and file; the table with what was
    found in the files (`own.FOUND`) and `left_out`, why one cannot be used; and notes by record.
    Only new and changed files are read. BadSetting for a question about half of the files or more,
    and where no recording can be used.
    """
    copy = read_all(source(folder, said, to, table), to / own.COPIES, progress)
    known = copy.known.loc[table["record"]]
    notes = {record: json.loads(text) for record, text in zip(table["record"], known["notes"])}
    asked = [what for each in notes.values() for kind, what in each if kind == "asked"]
    if 2 * len(asked) >= max(1, len(notes)):
        raise BadSetting(asked[0])
    whys = zip(known["reason"], table["file"])
    table = table.assign(
        leads=[dict(each).get("leads", "") for each in notes.values()],
        fs=[f"{fs:.10g}" if fs else "" for fs in known["fs"]],
        seconds=[f"{n / fs:.10g}" if fs else "" for n, fs in zip(known["samples"], known["fs"])],
        sha256=[*map(held, known["state"])],
        left_out=[why and f"{why}{_beside(folder / file)}" for why, file in whys],
    )
    if table["left_out"].all():
        raise BadSetting(
            f"none of the {counted(len(table), 'recording')} can be used: "
            f"{'; '.join(left_out(table))} (--signals NAME=LEAD: what a name in the files means)"
        )
    return copy, table, notes


def held(state: str) -> str:
    """A hash of what the files of a record hold, by their state: of one file its own."""
    found = re.findall(r"\b[0-9a-f]{64}\b", state)
    return found[0] if len(found) == 1 else hashlib.sha256(" ".join(found).encode()).hexdigest()


def _beside(path: Path) -> str:
    """Other files of the name of one that cannot be used, with the suffix of a known format."""
    files = sorted(path.parent.glob(f"{glob.escape(path.stem)}.*"))
    known = [f.name for f in files if f != path and f.suffix.lower() in by_suffix.READERS]
    return f"; the table may name {enumerated(known)} instead" if known else ""


def left_out(table: pd.DataFrame) -> list[str]:
    """Unusable records with their reasons, grouped by reason, largest group first."""
    lost = table[table["left_out"] != ""]
    kinds: dict[str, list[str]] = {}
    for record, path, why in lost[["record", "file", "left_out"]].to_numpy():
        kind = re.sub(r"[\d.,]+", "#", why.replace(Path(path).name, "").replace(record, ""))
        kinds.setdefault(kind, []).append(f"{record}: {why}")
    most = sorted(kinds.values(), key=len, reverse=True)
    return [each[0] + (f" (and {len(each) - 1:,} like it)" if each[1:] else "") for each in most]
