"""`ecgbench read`: results that others measured, every score computed again."""

from pathlib import Path
from typing import Any

import typer

from ecgbench.cli.options import DATA, PREPARED, argument, option, width, words
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting


def read(
    path: Path = argument("An exported folder, a published report, or a table of predictions."),
    metrics: str = option(
        "Metrics, the main one first: auroc,./mine.py.  (default: those of the folder)"
    ),
    task: str = option("Of a table: the task whose test records it predicts."),
    model: str = option("Of a table: the name of the model.  (default: that of the file)"),
    leads: str = option("Of a table: the leads that were measured.  (default: 12)"),
    by: str = option("Of a table: who measured it.  (default: somebody)"),
    to: Path = option("Of a table: a new folder that others can read, as of runs export."),
    data: Path = DATA,
    prepared: Path = PREPARED,
) -> None:
    """Read results that others measured: every score is computed again from their predictions.

    An export whose predictions are not as they were exported is refused. A published report has
    no predictions: its scores are printed as they stand.

    A table (.csv, .tsv, .parquet) has the columns record, label and probability, and perhaps target
    and patient; an .npz the arrays probability and target. Without targets, --data says where the
    recordings are.

    Examples:

      ecgbench read to_send

      ecgbench read mine.csv --task ptbxl_super --model mine --data DIR --to to_send
    """
    from ecgbench import reports
    from ecgbench.exchange import opened
    from ecgbench.study.progress import display

    typed = {"task": task, "model": model, "leads": leads, "by": by, "to": to}
    typed = {name: value for name, value in typed.items() if value}
    if typed and path.is_dir():
        option = next(f"--{name} {quoted(value)}" for name, value in typed.items())
        raise BadSetting(
            f"{option} is of a table of predictions, and {path} is a folder; leave it out"
        )
    how: dict[str, Any] = {"data": data, "prepared": prepared, "to": to}
    how |= {name: typed[name] for name in ("model", "leads", "by") if name in typed}
    study = opened(path, words(metrics) or (), display().stage, words(task) or (), **how)
    for line in reports.summary(study, width()):
        typer.echo(line)
    for text in dict.fromkeys(str(note) for notes in study.main["note"] for note in notes):
        typer.echo(text, err=True)
