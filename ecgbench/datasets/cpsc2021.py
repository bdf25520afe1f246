"""CPSC2021: windows of 10 s from 1,436 recordings of two leads at 200 Hz, of 105 patients, with
where atrial fibrillation begins and ends.

The training sets of the 4th China Physiological Signal Challenge (X. Wang et al., PhysioNet
cpsc2021 1.0.0, doi 10.13026/ksya-qw89), 730 recordings of 54 patients and 706 of 51, from Holter
recorders and wearable ones, seconds to hours long:

    cpsc2021/Training_set_I/data_21_7.hea   leads I and II; "# non atrial fibrillation", or
                                            persistent or paroxysmal; data_<patient>_<recording>
    cpsc2021/Training_set_I/data_21_7.dat   WFDB format 16, a gain and baseline of its own per lead
    cpsc2021/Training_set_I/data_21_7.atr   beats; "(AFIB" or "(AFL" where an episode begins, "(N"
                                            where it ends

A recording is cut into windows of 10 s from its beginning, and at most WINDOWS of them are taken,
evenly spread over its length: data_21_7@00010 begins at 10 s. A window is AFIB where all of it lies
in an episode, and not where none of it does. One in which the rhythm changes is left out.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.core.text import one_line
from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets._labels import multi_hot
from ecgbench.datasets.indexing.folds import dealt
from ecgbench.datasets.indexing.records import headers
from ecgbench.ecg.readers import wfdb
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

WINDOWS = 10
"""Most windows of a recording, so that hours of one person do not outweigh the others."""
SECONDS = 10
EPISODES = ("(AFIB", "(AFL")
"""Annotations that begin an episode; the Challenge does not tell fibrillation from flutter."""
CHANGES = "its rhythm changes"
CARD = card("cpsc2021")
MANIFEST = manifest("cpsc2021")
(TASK,) = CARD.tasks


def index(root: Path) -> pd.DataFrame:
    """One row per window: record, patient, split, fold, path, start (s), excluded and the label;
    MissingData where there is no header.

    Of a recording whose header and annotations do not agree there is one row, with the reason.
    """
    files = headers(root, CARD, lambda file: file.match("data_*_*.hea"))
    rows = pd.DataFrame([row for path, file in files.items() for row in _windows(path, file)])
    labels = [["AFIB"] if fibrillates else [] for fibrillates in rows.pop("fibrillates")]
    strata = [own or ["not AFIB"] for own in labels]
    folds = dealt(CARD.folder, rows["patient"].tolist(), strata, CARD.folds)
    return rows.assign(**folds).join(multi_hot(labels, TASK.name, TASK.labels))


def read(root: Path, row: Mapping[str, Any]) -> Recording:
    """One window in mV; BadRecord where the recording's header or samples cannot be trusted."""
    recording = wfdb.read(root / row["path"], row["record"], row["patient"], CARD.fs)
    first = round(row["start"] * CARD.fs)
    return replace(recording, signal=recording.signal[:, first : first + _LENGTH])


_LENGTH = round(SECONDS * CARD.fs)


def _windows(path: str, header: Path) -> list[dict[str, object]]:
    """What the index says of the windows of a recording, or of why there are none."""
    name = header.stem
    about = {"patient": name.split("_")[1], "path": path}
    try:
        samples, episodes = _annotated(header)
    except BadRecord as error:
        lost = {"start": 0, "fibrillates": False, "excluded": "", "damaged": str(error)}
        return [{"record": f"{name}@00000", **about, **lost}]
    within = np.zeros(max(samples, _LENGTH), bool)
    for first, last in episodes:
        within[first : last + 1] = True
    every = np.arange(0, len(within) - _LENGTH + 1, _LENGTH)
    chosen = np.linspace(0, len(every) - 1, min(len(every), WINDOWS)).round().astype(int)
    rows = []
    for first in every[chosen].tolist():
        own = within[first : first + _LENGTH]
        start = int(first // CARD.fs)
        rows.append(
            {
                "record": f"{name}@{start:05d}",
                **about,
                "start": start,
                "fibrillates": bool(own.all()),
                "excluded": CHANGES if own.any() and not own.all() else "",
                "damaged": "",
            }
        )
    return rows


def _annotated(header: Path) -> tuple[int, list[tuple[int, int]]]:
    """Samples of a recording, and the first and the last one of each episode; BadRecord where its
    files cannot be understood or do not say the same.
    """
    import wfdb as package

    try:
        samples = int(header.read_text(encoding="utf-8").split()[3])
        marks = package.rdann(str(header.with_suffix("")), "atr")
    except Exception as error:  # the package raises whatever its parsing runs into
        raise BadRecord(f"its header or annotations cannot be read ({one_line(error)})") from error
    changes = [(int(at), word) for at, word in zip(marks.sample, marks.aux_note) if word[:1] == "("]
    ends = [*(at for at, _ in changes[1:]), samples - 1]
    episodes = [(at, end) for (at, word), end in zip(changes, ends) if word.startswith(EPISODES)]
    stated = next(iter(wfdb.comments(header)), "")
    if bool(episodes) == stated.startswith("non"):
        raise BadRecord(f"its header says {stated!r}, its annotations {len(episodes)} episodes")
    return samples, episodes
