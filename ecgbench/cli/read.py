"""`ecgbench read`: results that others measured, every score computed again."""

from pathlib import Path

import typer

from ecgbench.cli.options import argument, option, width, words


def read(
    folder: Path = argument("An exported folder, a run, or a published report."),
    metrics: str = option(
        "Metrics, the main one first: auroc,./mine.py.  (default: those of the folder)"
    ),
) -> None:
    """Read results that others measured: every score is computed again from their predictions.

    An export whose predictions are not as they were exported is refused. A published report has
    no predictions: its scores are printed as they stand.

    Example:

      ecgbench read to_send
    """
    from ecgbench import reports
    from ecgbench.exchange import opened
    from ecgbench.study.progress import display

    study = opened(folder, words(metrics) or (), display().stage)
    for line in reports.summary(study, width()):
        typer.echo(line)
    for text in dict.fromkeys(str(note) for notes in study.main["note"] for note in notes):
        typer.echo(text, err=True)
