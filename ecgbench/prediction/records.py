"""Files of recordings that belong to no run, treated as a run treats its own.

So a test recording of a run gets the features that the run computed: 16 bits a sample, filter and
rate of the contract, hidden leads, policy, all windows in one batch. Files are read one after the
other; an unusable one does not stop the others.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ecgbench import models
from ecgbench.core.text import counted, line, visible
from ecgbench.data.imported import matching
from ecgbench.data.reading import as_stored, checked
from ecgbench.datasets import demo, own
from ecgbench.ecg import draw, preprocess
from ecgbench.ecg.leads import ALL, LIMB, LeadSubset
from ecgbench.ecg.readers import by_suffix
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, EcgbenchError
from ecgbench.evaluate.rows import MOST
from ecgbench.policies.hide import sees
from ecgbench.study.progress import SILENT, Display

if TYPE_CHECKING:  # with torch, which names are checked without
    from ecgbench.evaluate.encode import Encoder

Values = tuple[dict[str, Any], list[str], np.ndarray]
"""Of a recording: columns of the table, its notes, and its values (column,)."""
Choose = Callable[[Recording], LeadSubset]
"""The leads of a recording that are used; BadRecord where it has none of them."""
RESEARCH = "research use only"
WITHOUT_EFFECT = (
    *("rate", "unit", "names", "ignored signal", "head line", "renamed", "not measured"),
)
"""Kinds of a reader's notes that change no number of a single recording."""
OF_LIMBS = ("identities", "arms")
"""Kinds of findings that concern the limb leads alone."""
FIRST, LAST = ("record", "file", "leads"), ("use", "note", "reason")
"""Columns before all others, and behind them."""
LISTED = 3
"""Reasons that a message lists."""


def features(recording: Recording, leads: LeadSubset, encoder: "Encoder", model: str) -> np.ndarray:
    """(window, dim) float32; BadRecord where there is no window, or the network sees no lead."""
    contract = encoder.contract
    if not sees(contract, leads.mask, encoder.policy):
        raise BadRecord(f"the model sees nothing of {leads}")
    if (count := contract.windows(int(recording.seconds * contract.fs))) > MOST:
        raise BadRecord(
            f"a record of {count:,} windows: at most {MOST:,} are read; cut it into shorter files"
        )
    try:
        signal = preprocess.view(recording.signal, recording.fs, contract.preparation)
    except ValueError as error:
        if recording.fs >= contract.fs:
            raise
        raise BadRecord(
            f"{recording.fs:g} Hz is too low to be filtered for {model}; {contract.fs:g} Hz always "
            f"does"
        ) from error
    seen = replace(recording, signal=signal).rows
    seen[~leads.mask] = np.nan
    windows = np.arange(contract.windows(seen.shape[1]))
    if not len(windows):
        raise BadRecord(
            f"{recording.seconds:.3g} s: shorter than a window of {contract.seconds:g} s"
        )
    with models.ROOM.calling(model):
        return encoder(seen, {leads.bits: windows})[leads.bits]


def _opened(path: Path, record: str, typed: ReadOptions, stated: ReadOptions) -> Recording:
    """A recording in a file. What was stated of the recordings of a run fills the gaps of files
    that say less than they must; what is typed is meant for this file.
    """
    if typed == stated:
        return by_suffix.read(path, record, "", typed)
    renamed = typed.signals or (() if stated.ordered else stated.signals)
    try:
        return by_suffix.read(path, record, "", replace(typed, signals=renamed))
    except (BadRecord, BadSetting):
        return by_suffix.read(path, record, "", stated)


def _is_readable(path: Path, typed: ReadOptions, stated: ReadOptions) -> bool:
    with suppress(EcgbenchError, OSError):
        _opened(path, path.stem, typed, stated)
        return True
    return False


def _read(
    path: Path, record: str, options: tuple[ReadOptions, ReadOptions], fix: bool, choose: Choose
) -> tuple[Recording, LeadSubset, list[str]]:
    """A recording as a run prepares it, the leads that are used, and its notes that concern them;
    BadRecord where one of them is missing or was not measured. options: as of `_opened`.
    """
    recording = _opened(path, record, *options)
    notes = [f"{kind}: {what}" for kind, what in recording.notes if kind not in WITHOUT_EFFECT]
    # the demo's card asks what that of every imported dataset asks
    sound, found, fixed = checked(recording.completed().clinical(), demo.CARD, fix)
    stored = as_stored(sound)
    used = choose(stored)
    if missing := [lead for lead in used if lead not in stored.leads]:
        raise BadRecord(f"lead {', '.join(missing)} is missing; it has {'+'.join(stored.leads)}")
    held = {what.split()[0] for kind, what in recording.notes if what.endswith("throughout")}
    if flat := [lead for lead in used if lead in {*stored.flat(), *held}]:
        raise BadRecord(f"lead {', '.join(flat)} holds one value throughout: not measured")
    apart = {*(() if {*used.leads} & {*LIMB} else OF_LIMBS)}
    apart |= {*(() if len(used.leads) > 1 else ("copies",))}
    return stored, used, [*notes, *(text for kind, text in [*found, *fixed] if kind not in apart)]


def table(  # noqa: PLR0913  (each is a setting)
    compute: Callable[[Recording, LeadSubset], Values],
    columns: Sequence[str],
    records: Path,
    leads: str | None = None,
    fix: bool = False,
    progress: Display = SILENT,
    without: Sequence[Path] = (),
    usual: Choose = lambda recording: LeadSubset(recording.leads),
    stated: ReadOptions = ReadOptions(),  # noqa: B008  (frozen)
    **typed: Any,
) -> pd.DataFrame:
    """A row per recording: the values from `compute`, or the reason why there are none;
    `attrs["notes"]` has the notes. leads, typed: as typed. usual, stated: where nothing is typed.
    BadSetting where no recording has values.
    """
    if not records.exists():
        raise BadSetting(f"--records {records}: there is no such file or folder")
    if records.suffix == ".toml":
        records, stated = own.place(records)
    folder = records if records.is_dir() else records.parent
    leads = str(leads) if leads else None  # 12 may be a number in Python
    leads = draw.SETS.get((leads or "").lower(), leads)
    wanted = ALL if leads == str(len(ALL)) else LeadSubset.parse(leads) if leads else None
    choose = usual if wanted is None else lambda recording: wanted
    known = {option: value for option, value in typed.items() if value}
    options = ReadOptions(**known), replace(stated, **known)
    files = [records.name]
    if records.is_dir():
        every = matching.files(records, without)
        files = matching.recordings(every, lambda file: _is_readable(folder / file, *options))
    rows, values, notes = [], [], Counter[str]()
    with progress.stage("recordings", len(files), "records") as advance:
        for record, file in zip(matching.identities(files), files):
            row = {"record": visible(record), "file": visible(file), "leads": "", "use": RESEARCH}
            these_notes: list[str] = []
            own_values, reason = np.full(len(columns), np.nan), ""
            try:
                recording, used, these_notes = _read(folder / file, record, options, fix, choose)
                more, also, own_values = compute(recording, used)
                row |= {"leads": str(used), **more}
                these_notes += also
                notes.update(set(these_notes))
            except (EcgbenchError, OSError) as error:
                why = str(getattr(error, "strerror", None) or error).removeprefix(f"{record}: ")
                reason, these_notes = line(why), []
                notes[f"left out: {line(why.replace(Path(file).name, 'the file'))}"] += 1
            rows.append({**row, "note": visible("; ".join(these_notes)), "reason": reason})
            values.append(own_values)
            advance(1)
    lines = [f"{counted(count, 'recording')}: {text}" for text, count in notes.most_common()]
    if all(row["reason"] for row in rows):
        readable = f"files are read that end in {', '.join(by_suffix.READERS)}"
        raise BadSetting(
            f"{records}: no recording can be used: {'; '.join(lines[:LISTED]) or readable}"
        )
    made = pd.DataFrame(rows).join(pd.DataFrame(np.stack(values), columns=pd.Index(columns)))
    middle = [c for c in dict.fromkeys([*columns, *made]) if c not in (*FIRST, *LAST)]
    made = made[[*FIRST, *middle, *LAST]].astype({"windows": "Int32"})  # blank where left out
    made.attrs["notes"] = [RESEARCH, *lines]
    return made
