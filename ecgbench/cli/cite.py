"""`ecgbench cite`: BibTeX of what a run used, from references.bib."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import typer

from ecgbench import __version__
from ecgbench.cli.runs import RUN
from ecgbench.errors import MissingData


def cite(run: Path = RUN) -> None:
    """Print BibTeX of the models, data sets and methods that a run used.

    Finished cells count. A line before each entry says what it is for. What has no entry, such as a
    model of your own, is a comment with what its card says.

    Example:

      ecgbench cite runs/demo > references.bib
    """
    typer.echo("\n\n".join(bibtex(used(run))))


def used(run: Path) -> dict[str, str]:
    """What a run used, as references.bib names it, each with what its card says of its source.
    MissingData where no cell is finished.
    """
    from ecgbench import models
    from ecgbench.results.reader import Reader

    reader = Reader.of(run)
    cells = [result.cell for result in reader.results.values()]
    if not cells:
        raise MissingData(
            f"{run} has no finished cell to cite; continue it: ecgbench run --out {run}"
        )
    found = {"ecgbench": ""}
    for name in dict.fromkeys(cell.fit.model for cell in cells):
        known = f"model {name.partition(':')[0]}"  # timm:resnet18 is of timm
        what = known if models.ROOM.built_in(name) else f"your model {name}"
        found[what] = reader.models[name]["paper"]
    tasks = {cell.task for cell in cells}
    for name, facts in reader.datasets.items():
        if tasks & {*facts["tasks"]}:
            found[f"dataset {name}"] = f"{facts['title']} {facts['doi']}".strip()
    drawn = f"bootstrap {reader.plan.scoring.bootstrap}".replace("bootstrap none", "intervals")
    methods = {f"protocol {reader.plan.training.protocol}", drawn}
    if len({cell.fit.model for cell in cells}) > 1:
        methods.add("several models")
    found |= {f"metric {name}": card.source for name, card in reader.cards.items()}
    return found | dict.fromkeys(methods, "")


def bibtex(used: dict[str, str]) -> Iterator[str]:
    """Entries of references.bib for what was used, and comments for what has none."""
    cited = set[str]()
    text = files("ecgbench.cli").joinpath("references.bib").read_text(encoding="utf-8")
    for block in text.split("\n\n% ")[1:]:
        head, _, entry = block.partition("\n")
        if reasons := [what for what in head.split("; ") if what in used]:
            cited |= {*reasons}
            yield f"% {'; '.join(reasons)}\n{entry.strip().replace('VERSION', __version__)}"
    for what, source in used.items():
        if what not in cited and source:
            says = "names no source" if source == "none" else f"says: {source}"
            # to BibTeX an @ begins an entry, also in a comment
            yield f"% {what}: no entry is known; its card {says}".replace("@", " at ")
