"""`ecgbench predict` and `ecgbench embed`: predictions and features of recordings in files."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer

from ecgbench.cli.importing import FS, SIGNALS, UNIT
from ecgbench.cli.options import DEVICE, argument, demand_writable, flag, option, words
from ecgbench.core.text import visible
from ecgbench.errors import BadSetting

SUFFIXES = {".csv": ",", ".tsv": "\t", ".parquet": ","}
"""Of --to -> what separates columns."""
OURS = (b"record,file,", b"record\tfile\t", b"PAR1")
"""How a table begins that may be replaced; a recording may have the same ending."""
RECORDS = option(
    "A recording, a folder of them (WFDB, CSV, EDF, DICOM, SCP-ECG ...), or a card.toml.",
    default=...,
)
LEADS = option("Leads that are used: I, I+II, 12.  (default: those of the run)")
ALL_LEADS = option("Leads that are used: I, I+II, 12.  (default: all that a recording has)")
TO = option("File for the table: .csv, .tsv or .parquet.", default=...)
OVERWRITE = flag("Replace the file that --to names.", "--overwrite")


def predict(
    run: Path = argument("Folder of the run that has the fits."),
    records: Path = RECORDS,
    to: Path = TO,
    task: str = option("Task whose labels are predicted.  (default: the run's)"),
    model: str = option("Model; a path for your own.  (default: the run's)"),
    weights: str = option("The model's file of weights.  (default: where the run had it)"),
    leads: str = LEADS,
    policy: str = option("How missing leads are filled.  (default: as in the run)"),
    fold: str = option("The fit of one fold, such as 2/5.  (default: the mean of all)"),
    fs: float = FS,
    unit: str = UNIT,
    signals: str = SIGNALS,
    labels: Path = option("Table with labels of the recordings: their scores are printed too."),
    pairs: str = option("Labels of the run = of the table: AFIB=A,SR=N.", "--map"),
    overwrite: bool = OVERWRITE,
    device: str = DEVICE,
) -> None:
    """Predict the labels of recordings with the fits of a run.

    Research use only.

    The table has a row per recording: the probability of each label (with several fits the mean,
    the lowest and the highest), whether it is at or above the threshold of the run, the leads, the
    policy, the fit and its training data, its AUROC in the run at these leads, and a reason where
    there is no probability. Fits that were trained on twelve leads are not calibrated for fewer.
    Files that do not state rate, unit or names are read as those of the run were.

    Examples:

      ecgbench predict runs/ptbxl --task ptbxl_super --model laef --records FOLDER --leads I
      --to predictions.csv

      ecgbench predict runs/mine --records new/ecg_1.csv --fs 512 --unit uV --to one.csv

      ecgbench predict runs/ptbxl --records cinc2017 --labels reference.csv --map AFIB=A --to
      external.csv

    With --labels the fits are tested on these recordings: external.scores.csv beside the table has
    AUROC, sensitivity and specificity at the run's thresholds, and calibration, of each label.
    """
    from ecgbench.core.files import put
    from ecgbench.prediction import external
    from ecgbench.prediction import predict as made

    chosen = {"task": task, "model": model, "weights": weights, "policy": policy, "fold": fold}
    how: dict[str, Any] = {"leads": leads, "fs": fs, "unit": unit, "signals": words(signals) or ()}
    how["device"] = device
    if pairs and labels is None:
        raise BadSetting("--map belongs to --labels, the table that it speaks of")
    wanted = external.mapping(pairs)
    known = None if labels is None else external.labelled(labels, wanted)
    beside = [labels] if labels else []  # it may lie among the recordings
    table = _write(partial(made.predict, run, records, **chosen, **how), to, overwrite, beside)
    if known:
        found = external.scored(table, known, wanted)
        scores = to.with_name(f"{to.stem}.scores.csv")
        put(scores, found.to_csv(index=False, lineterminator="\n"))
        typer.echo("\n".join([*external.lines(found), f"{scores}: the scores"]))


def embed(
    model: str = option("Model; a path for your own.", "--model", "-m", default=...),
    records: Path = RECORDS,
    to: Path = TO,
    leads: str = ALL_LEADS,
    weights: str = option("released, random, a name on its card, or a path.", default="released"),
    policy: str = option("How missing leads are filled; paper: the model's way.", default="paper"),
    fs: float = FS,
    unit: str = UNIT,
    signals: str = SIGNALS,
    overwrite: bool = OVERWRITE,
    device: str = DEVICE,
) -> None:
    """Write a model's features of recordings.

    Research use only.

    Columns f0000, f0001, ... are the means over the windows of a recording. Others give the leads,
    the policy, the weights, and a reason where there are no features.

    Examples:

      ecgbench embed --model laef --records FOLDER --leads I --to features.parquet
    """
    from ecgbench.prediction import predict as made

    chosen = {"weights": weights, "policy": policy, "device": device}
    how: dict[str, Any] = {"leads": leads, "fs": fs, "unit": unit, "signals": words(signals) or ()}
    _write(partial(made.embed, model, records, **chosen, **how), to, overwrite)


def _write(make: "partial[Any]", to: Path, overwrite: bool, without: Sequence[Path] = ()) -> Any:
    """Make a table, write it and return it. without: files that are no recordings. BadSetting,
    WriteError: checked before that.
    """
    from ecgbench.core.files import as_parquet, put
    from ecgbench.study.progress import display

    kind = to.suffix.lower()
    if kind not in SUFFIXES:
        raise BadSetting(f"--to {to}: the name must end in {', '.join(SUFFIXES)}")
    if to.is_dir() or (to.exists() and not overwrite):
        raise BadSetting(f"--to {to} exists; name another file, or replace it: --overwrite")
    if to.exists() and not to.read_bytes().startswith(OURS):
        raise BadSetting(f"--to {to} is no table of this command; name another file")
    demand_writable(to.parent)
    table = make(progress=display(), without=[to, *without])
    text = table.to_csv(index=False, sep=SUFFIXES[kind], lineterminator="\n")
    put(to, as_parquet(table) if kind == ".parquet" else text)
    for note in table.attrs["notes"]:
        typer.echo(visible(note), err=True)
    typer.echo(f"{to}: {(table['reason'] == '').sum():,} of {len(table):,} recordings")
    return table
