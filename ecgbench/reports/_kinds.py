"""The kinds of folder that can be reported, and the head of the page of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgbench.core.text import counted, enumerated, quoted
from ecgbench.errors import BadSetting, MissingData
from ecgbench.reports._facts import columns, grave, tasks
from ecgbench.reports._filters import filters
from ecgbench.reports._section import Heading, Reads
from ecgbench.reports._trace import traces
from ecgbench.results import ablation, pretraining, profile, study
from ecgbench.results.ahead import Stage
from ecgbench.results.origin import PUBLISHED


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind."""

    source: type
    """What its reports receive."""
    files: tuple[str, ...]
    """A folder that holds one of these is of this kind."""
    read: Callable[[Path], Any]
    heading: Callable[[Any], Heading]


def read(folder: Path, metrics: Sequence[str], stage: Stage | None, tasks: Sequence[str]) -> Any:
    """See `reports.read`."""
    for name, kind in KINDS.items():
        if any((folder / file).is_file() for file in kind.files):
            for option, words in (("--metrics", metrics), ("--tasks", tasks)):
                if words and name != "run":
                    raise BadSetting(
                        f"{option} {','.join(words)}: {folder} is a {name}, and no run; leave it "
                        f"out"
                    )
            if name == "run":
                return study.read(folder, metrics, stage, tasks)
            return kind.read(folder)
    raise MissingData(
        f"no run in {folder} (no plan.toml there), no profile, pre-training or ablation; run: "
        f"ecgbench run --out {quoted(folder)}"
    )


def of(source: object) -> tuple[Reads, Kind]:
    """The name and the kind of what was read."""
    for name, kind in KINDS.items():
        if isinstance(source, kind.source):
            return name, kind
    raise TypeError(f"{type(source).__name__} is nothing that can be reported")


def _of_run(run: study.Study) -> Heading:
    lines = [
        f"{data.title}, version {data.version}: {counted(data.test_records, 'test record')} of "
        f"{counted(data.test_patients, 'patient')}"
        for data in run.datasets
    ]
    said = [text for text in run.notes if grave(text)]
    banners = list(map(_banner, said))
    if PUBLISHED in run.notes:
        lines.append(PUBLISHED)
        said.append(PUBLISHED)
    version = run.provenance.version
    return Heading(
        title=_title(run),
        lines=lines,
        banners=banners,
        said=said,
        version=version,
        filters=filters(run),
        traces=traces(run),
    )


def _title(run: study.Study) -> str:
    """`LAEF and ST-MEM on PTB-XL Super`."""
    models = list(dict.fromkeys(head.title for head in columns(run)))
    on = [task.title for task in tasks(run)]
    who = enumerated(models) if len(models) <= 4 else f"{len(models)} models"
    return f"{who} on {enumerated(on) if len(on) <= 3 else f'{len(on)} tasks'}"


def _banner(note: str) -> tuple[str, str]:
    """What nobody may overlook: synthetic data, random weights, a limit, what is not finished,
    failed or skipped.
    """
    word, _, rest = note.partition(": ")
    return word.capitalize(), rest[:1].upper() + rest[1:]


def _of_profile(source: profile.Profile) -> Heading:
    return Heading(title="What models cost", lines=[f"Device: {source.device}"])


def _of_pretraining(source: pretraining.Pretraining) -> Heading:
    recipe = source.recipe.get("name")
    texts = (
        ("Own weights", pretraining.OWN),
        ("Synthetic", source.warning),
        ("Not finished", source.open),
    )
    banners = [(word, text) for word, text in texts if text]
    return Heading(
        title=f"LAEF, pre-trained by recipe {recipe}" if recipe else "LAEF, in pre-training",
        lines=[f"Data: {source.data}"],
        banners=banners,
        said=[text for _, text in banners],
    )


def _of_ablation(source: ablation.Ablation) -> Heading:
    texts = (("Synthetic", source.warning), ("Not finished", source.open))
    banners = [(word, text) for word, text in texts if text]
    return Heading(
        title=f"Ablation of LAEF: {source.facts['about']['title']}",
        lines=[f"Data: {source.data}"],
        banners=banners,
        said=[text for _, text in banners],
    )


KINDS: dict[Reads, Kind] = {
    "run": Kind(
        source=study.Study,
        files=("plan.toml",),
        read=study.read,
        heading=_of_run,
    ),
    "profile": Kind(
        source=profile.Profile, files=profile.FILES, read=profile.read, heading=_of_profile
    ),
    "pretraining": Kind(
        source=pretraining.Pretraining,
        files=pretraining.FILES,
        read=pretraining.read,
        heading=_of_pretraining,
    ),
    "ablation": Kind(
        source=ablation.Ablation, files=ablation.FILES, read=ablation.read, heading=_of_ablation
    ),
}
"""In the order in which a folder is tried."""
