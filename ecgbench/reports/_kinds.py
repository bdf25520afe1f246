"""The kinds of folder that can be reported, and the head of the page of each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ecgbench.core.text import counted, enumerated, quoted
from ecgbench.errors import BadSetting, MissingData
from ecgbench.reports._facts import columns, tasks
from ecgbench.reports._filters import filters
from ecgbench.reports._section import Heading, Reads
from ecgbench.results import ablation, pretraining, profile, study
from ecgbench.results.precompute import Stage


class Kind(NamedTuple):
    """One kind."""

    source: type
    """What its reports receive."""
    files: Sequence[str]
    """A folder that holds one of these is of this kind."""
    read: Callable[[Path], Any]
    heading: Callable[[Any], Heading]


def read(folder: Path, metrics: Sequence[str], stage: Stage | None, tasks: Sequence[str]) -> Any:
    """See `reports.read`."""
    names = (n for n, kind in KINDS.items() if any((folder / f).is_file() for f in kind.files))
    name = next(names, None)
    if name is None:
        raise MissingData(
            f"no run in {folder} (no plan.toml there), no profile, pre-training or ablation; run: "
            f"ecgbench run --out {quoted(folder)}"
        )
    if name == "run":
        return study.read(folder, metrics, stage, tasks)
    for option, words in (("--metrics", metrics), ("--tasks", tasks)):
        if words:
            raise BadSetting(
                f"{option} {','.join(words)}: {folder} is a {name}, and no run; leave it out"
            )
    return KINDS[name].read(folder)


def of(source: object) -> tuple[Reads, Kind]:
    """The name and the kind of what was read."""
    return next((name, kind) for name, kind in KINDS.items() if isinstance(source, kind.source))


def _of_run(run: study.Study) -> Heading:
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


def _of_profile(source: profile.Profile) -> Heading:
    return Heading(title="What models cost", lines=[f"Device: {source.device}"])


def _of_pretraining(source: pretraining.Pretraining) -> Heading:
    recipe = source.recipe.get("name")
    title = f"LAEF, pre-trained by recipe {recipe}" if recipe else "LAEF, in pre-training"
    return _of_training(title, source, [("Own weights", pretraining.OWN)])


def _of_ablation(source: ablation.Ablation) -> Heading:
    return _of_training(f"Ablation of LAEF: {source.facts['about']['title']}", source, [])


def _of_training(
    title: str,
    source: pretraining.Pretraining | ablation.Ablation,
    banners: Sequence[tuple[str, str]],
) -> Heading:
    more = (("Synthetic", source.warning), ("Not finished", source.open))
    shown = [*banners, *(each for each in more if each[1])]
    lines = [f"Data: {source.data}"]
    return Heading(title=title, lines=lines, banners=shown, in_banners=[text for _, text in shown])


KINDS: dict[Reads, Kind] = {
    "run": Kind(study.Study, ["plan.toml"], study.read, _of_run),
    "profile": Kind(profile.Profile, profile.FILES, profile.read, _of_profile),
    "pretraining": Kind(
        pretraining.Pretraining, pretraining.FILES, pretraining.read, _of_pretraining
    ),
    "ablation": Kind(ablation.Ablation, ablation.FILES, ablation.read, _of_ablation),
}
"""In the order in which a folder is tried."""
