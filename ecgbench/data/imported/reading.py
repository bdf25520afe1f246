"""Reads the files of an import, each once; an unusable one does not stop the others."""

import glob
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.core.text import counted, enumerated, one_line
from ecgbench.ecg.fingerprint import NOTHING, Fingerprint, fingerprint
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting

COMPARED = 60
"""Seconds of a recording, from its start, that are compared with other recordings."""
Progress = Callable[[int, int], None]
"""Called with (files read, files to read)."""


@dataclass(frozen=True)
class Seen:
    """Facts of a file that was read."""

    leads: tuple[str, ...] = ()
    fs: float = 0.0
    seconds: float = 0.0
    swing: float = 0.0
    """Largest range of a lead, mV."""
    reason: str = ""
    """Why it cannot be used, or ""."""
    notes: tuple[tuple[str, str], ...] = ()
    """Notes of the recording: (kind, what)."""
    question: str = ""
    """What must be stated of such files first, or ""."""
    prints: Fingerprint = field(default=NOTHING, repr=False, compare=False)
    """Of its start, by which a copy is found."""


def read(
    folder: Path, table: pd.DataFrame, options: ReadOptions, progress: Progress | None
) -> dict[str, Seen]:
    """Facts of each file of a table with record and path; BadSetting for a question about half of
    the files or more.
    """
    seen = {}
    for done, (record, path) in enumerate(zip(table["record"], table["path"]), 1):
        seen[path] = _seen(folder / path, record, options)
        if progress is not None:
            progress(done, len(table))
    asked = [one.question for one in seen.values() if one.question]
    if 2 * len(asked) >= max(1, len(seen)):
        raise BadSetting(asked[0])
    return seen


def _seen(path: Path, record: str, options: ReadOptions) -> Seen:
    """What `look` finds; of a file that cannot be used others of its name are named."""
    found = look(path, options, record)
    if found.reason and (others := _beside(path)):
        return replace(found, reason=f"{found.reason}; the table may name {others} instead")
    return found


def look(path: Path, options: ReadOptions, record: str = "") -> Seen:
    """Facts of a file, or why it cannot be used, whatever a library makes of it."""
    try:
        recording = by_suffix.read(path, record or path.stem, "", options)
    except BadSetting as error:
        return Seen(reason=str(error), question=str(error))
    except BadRecord as error:
        return Seen(reason=str(error).removeprefix(f"{record}: "))
    except Exception as error:
        return Seen(reason=f"cannot be read ({one_line(error)})")
    swing = float(np.ptp(recording.signal, axis=1).max())
    leads = tuple(n for n in LEADS if n in recording.leads)
    prints = fingerprint(*start(recording))
    facts = leads, recording.fs, recording.seconds, swing, "", recording.notes
    return Seen(*facts, prints=prints)


def _beside(path: Path) -> str:
    """Other files of its name, with the suffix of a known format."""
    files = sorted(path.parent.glob(f"{glob.escape(path.stem)}.*"))
    return enumerated(
        [f.name for f in files if f != path and f.suffix.lower() in by_suffix.READERS]
    )


def start(recording: Recording) -> tuple[np.ndarray, float]:
    """(12, time) samples of the first minute, and their rate in Hz."""
    first = recording.signal[:, : math.ceil(COMPARED * recording.fs)]
    return replace(recording, signal=first).rows, recording.fs


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
    for record, path, why in lost[["record", "path", "left_out"]].to_numpy():
        kind = re.sub(r"[\d.,]+", "#", why.replace(Path(path).name, "").replace(record, ""))
        kinds.setdefault(kind, []).append(f"{record}: {why}")
    most = sorted(kinds.values(), key=len, reverse=True)
    return [each[0] + (f" (and {len(each) - 1:,} like it)" if each[1:] else "") for each in most]
