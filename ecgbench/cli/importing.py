"""`ecgbench data import`, and the options of recordings that other commands have too."""

import re
from functools import partial
from pathlib import Path

from ecgbench.cli.options import argument, flag, option, words
from ecgbench.errors import BadSetting

_own = partial(option, rich_help_panel="Own recordings")

RECORDS = _own("Folder of recordings, added to the tasks.", "--records", metavar="FOLDER")
LABELS = _own("Table with a row per record: record, labels, perhaps patient.", "--labels")
FS = _own("Sampling rate where a file does not state it, Hz: 500.", "--fs")
UNIT = _own("Unit where a file does not state it: V, mV, uV, nV, or of a step: 4.88uV.", "--unit")
SIGNALS = _own(
    "Leads of the signals: in file order (I,II,V1), or by name (ch1=I,ch2=II).", "--signals"
)


def import_(
    folder: Path = argument(
        "Folder of recordings: WFDB, CSV, EDF, DICOM, SCP-ECG, XML, .npz ...", metavar="FOLDER"
    ),
    labels: Path = option("Table with a row per record: record, labels, patient.", default=...),
    name: str = option("Name of the dataset and of its task.  (default: the folder's)"),
    to: Path = option("Folder for card.toml and records.csv.  (default: ./NAME)"),
    fs: float = FS,
    unit: str = UNIT,
    signals: str = SIGNALS,
    label_columns: str = option("Columns of labels.  (default: those of 0 and 1, or yes and no)"),
    patients: str = option(
        "Which part of a patient's cell is the person: '(P[0-9]+)_[0-9]+'.", metavar="PATTERN"
    ),
    split: str = option("Column of splits or folds.  (default: split or fold)", metavar="COLUMN"),
    partial: bool = flag("Skip rows of the table that have no file.", "--partial"),
    match_zeros: bool = flag(
        "Let record 1 of the table match the file 00001.csv.", "--match-zeros"
    ),
    overwrite: bool = flag(
        "Replace an edited records.csv, or a card.toml that cannot be read.", "--overwrite"
    ),
) -> None:
    """Make a dataset of a folder of recordings and a table of labels.

    Every file is read once. Recordings that cannot be trusted are left out, with the reason. The
    result is card.toml, which you may edit, records.csv, with a patient-wise split where the table
    has none, and the recordings prepared for runs. Run the command again after correcting the table
    or the files: it reads what changed, prints it, and patients stay in their splits.

      ecgbench data import recordings --labels labels.csv --name mine

      ecgbench run --tasks ./mine/card.toml --models laef,simple_features --leads I

    Signals are identified by the names of leads; others are ignored.
    """
    from ecgbench.ecg.readers.notation import ReadOptions
    from ecgbench.study.own_records import RecordFiles, import_records, is_taken, name_of
    from ecgbench.study.plan_file import RecordSettings

    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise BadSetting(f"--name {name}: letters, digits, _ and -; a letter or digit comes first")
    if name and is_taken(name):
        raise BadSetting(f"--name {name} is taken already; give another, for example own_{name}")
    chosen = name or name_of(folder)
    how = RecordSettings(
        label_columns=words(label_columns) or (),
        patients=patients,
        split=split,
        partial=partial,
        match_zeros=match_zeros,
        overwrite=overwrite,
    )
    options = ReadOptions(fs=fs, unit=unit, signals=words(signals) or ())
    records = RecordFiles(folder=folder, labels=labels, options=options, how=how)
    import_records(records.order(chosen, to or Path(chosen)))
