"""The kinds of folder that can be reported, and the head of the page of each."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ecgbench.cards.rooms import Reads
from ecgbench.core.registry import Room
from ecgbench.core.text import counted, enumerated, quoted
from ecgbench.errors import BadSetting, MissingData
from ecgbench.reports._facts import columns, tasks
from ecgbench.reports._filters import filters
from ecgbench.reports._section import Heading, Kind
from ecgbench.results import study
from ecgbench.results.precompute import Stage


def read(
    room: Room,
    folder: Path,
    metrics: Sequence[str],
    stage: Stage | None,
    tasks: Sequence[str],
    others: Sequence[Path],
) -> Any:
    """See `reports.read`."""
    found = (each for each in _kinds(room) if any((folder / f).is_file() for f in each[1].files))
    name, kind = next(found, (None, None))
    if kind is None:
        raise MissingData(
            f"no run in {folder} (no plan.toml there), no profile, pre-training or ablation; run: "
            f"ecgbench run --out {quoted(folder)}"
        )
    if name == "run":
        return study.read(folder, metrics, stage, tasks, others)
    for option, words in (("--metrics", metrics), ("--tasks", tasks), ("--with", others)):
        if words:
            raise BadSetting(
                f"{option} {','.join(map(str, words))}: {folder} is a {name}, and no run; leave it "
                f"out"
            )
    return kind.read(folder)


def of(room: Room, source: object) -> tuple[Reads, Kind]:
    """The name and the kind of what was read."""
    return next((name, kind) for name, kind in _kinds(room) if isinstance(source, kind.source))


def _of_run(run: study.Run) -> Heading:
    lines = [
        f"{data.title}, version {data.version}: {counted(data.test_records, 'test record')} of "
        f"{counted(data.test_patients, 'patient')}"
        for data in run.datasets
    ]
    published = [note.text for note in run.notes if note.kind == "published"]
    banners = [note for note in run.notes if note.grave]
    models = list(dict.fromkeys(head.title for head in columns(run)))
    on = [task.title for task in tasks(run)]
    who = enumerated(models) if len(models) <= 4 else f"{len(models)} models"
    return Heading(
        title=f"{who} on {enumerated(on) if len(on) <= 3 else f'{len(on)} tasks'}",
        lines=[*lines, *published],
        banners=[(n.kind.capitalize(), n.text[:1].upper() + n.text[1:]) for n in banners],
        in_banners=[*map(str, banners), *published],
        version=run.provenance.version,
        filters=filters(run),
    )


RUN = Kind(study.Run, ["plan.toml"], study.read, _of_run)


def _kinds(room: Room) -> Iterator[tuple[Reads, Kind]]:
    """In the order in which a folder is tried. The reports of what is no run stand beside what they
    are about, with its KIND.
    """
    yield "run", RUN
    for module in map(import_module, room.elsewhere.values()):
        yield module.CARD.reads, module.KIND
