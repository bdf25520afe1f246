"""From datasets on disk to what a recipe trains on: corpora without what evaluation may see, and
the development task.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice

from ecgbench import datasets, models
from ecgbench.benchmark.plan import all_tasks
from ecgbench.benchmark.progress import Display, counting
from ecgbench.cells import Folders
from ecgbench.errors import BadRecord, BadSetting, Lacking, MissingData, UnknownName
from ecgbench.prepared.prepare import Prepared, held, prepare
from ecgbench.prepared.source import root_of
from ecgbench.pretraining.corpus import PTBXL, Guard, Name, gather
from ecgbench.pretraining.exclusion import Exclusion
from ecgbench.pretraining.kept_encoders import Development
from ecgbench.pretraining.network import new_network
from ecgbench.pretraining.pretrain import Data
from ecgbench.pretraining.recipe import DEVELOPMENT, Recipe
from ecgbench.seeds import rng


def assemble(
    recipe: Recipe, folders: Folders, progress: Display, records: int | None = None
) -> Data:
    """Prepare, leave out, and read the corpora of a recipe, or at most so many of their `records`,
    the same at every call; what is prepared already is not prepared again.

    Left out is what evaluation may see (`Exclusion`) of the corpora and of every other dataset that
    is prepared here.

    BadSetting: a model that cannot be pre-trained, a corpus that no loader reads. MissingData: a
    dataset that is not under `folders.data`. LeakError: a recording that must not enter training.
    """
    names = list(recipe.datasets)
    # a model that cannot be pre-trained is refused before anything is read
    new_network(recipe.model, recipe.shape)
    lost = [n for n in names if n not in datasets.names()]
    if lost:
        raise BadSetting(
            f"recipe {recipe.name} reads {len(names)} corpora, and for {', '.join(lost)} there is "
            f"no loader yet; register them as data sets of a plug-in, or run: ecgbench pretrain "
            f"--recipe small"
        )
    if recipe.task not in all_tasks():
        raise UnknownName("task", recipe.task, list(all_tasks()), "List them: ecgbench tasks")
    owner, _, task = all_tasks()[recipe.task]
    progress.note(development(recipe, folders))
    _demand_data(names, folders)
    made = {}
    for name in dict.fromkeys([*names, owner]):
        with counting(f"prepare {name}", progress) as shown:
            made[name] = prepare(name, folders.data, folders.prepared, shown)
    prepared = [made[name] for name in names]
    beside = _beside(names, folders)
    exclusion = Exclusion([*prepared, *beside])
    chosen: dict[Name, bool] = {}

    def allowed(name: Name) -> bool:
        return chosen.setdefault(name, exclusion(name))

    # PTB-XL may be prepared here, perhaps in part, without being a corpus
    ptbxl = next((p.published for p in [*prepared, *beside] if p.name == PTBXL), None)
    guard = Guard.of(prepared, ptbxl)
    drawn = None if records is None else _some(prepared, records, allowed)
    contract = models.ROOM.card(recipe.model).contracts[0]
    with counting("read the corpora", progress) as shown:
        choose = allowed if drawn is None else drawn.__contains__
        corpus = gather(prepared, guard, contract, recipe.kept, choose, shown)
    short = len(corpus.short)
    left_out = len(chosen) - len(corpus) - short
    progress.note(
        f"{len(corpus)} recordings of {', '.join(names)} to train on, {left_out} left out, "
        f"{short} too short"
    )
    return Data(
        corpus=corpus,
        development=Development.of(made[owner], task, contract, recipe.probe_records, recipe.seed),
        prepared={p.name: p.digest for p in prepared},
        left_out=dict(exclusion.reasons),
    )


def _some(prepared: Sequence[Prepared], records: int, choose: Callable[[Name], bool]) -> set[Name]:
    """So many of the recordings that may be chosen, drawn at random."""
    names = [
        Name(p.name, record)
        for p in prepared
        for record in p.index.loc[p.index["split"] == "train", "record"]
    ]
    order = rng("records to train on").permutation(len(names))
    return set(islice((names[i] for i in order if choose(names[i])), records))


def development(recipe: Recipe, folders: Folders) -> str:
    """One line: on which task encoders are compared, and for which one it stands in."""
    task, known = recipe.task, all_tasks()
    told = f"development task: {task}"
    if task in known and known[task][1].synthetic:
        return told
    try:
        root_of(known[DEVELOPMENT][0], known[DEVELOPMENT][1], folders.data)
        lacking = ""
    except MissingData:
        lacking = f", whose data, CODE, are not in {folders.data or 'a folder that is named'}"
    if task == DEVELOPMENT:
        return f"{told}{lacking}{'; recipe small has ptbxl_super instead' if lacking else ''}"
    return f"{told}, which stands in for the paper's {DEVELOPMENT}{lacking}"


def _demand_data(names: Sequence[str], folders: Folders) -> None:
    """MissingData where a corpus is not here, Lacking where several are not."""
    missing = []
    for name in names:
        try:
            root_of(name, datasets.get(name).CARD, folders.data)
        except MissingData as error:
            missing.append(str(error))
    if len(missing) == 1:
        raise MissingData(missing[0])
    if missing:
        raise Lacking(f"{len(missing)} corpora of this recipe are not here:", *missing)


def _beside(names: Sequence[str], folders: Folders) -> list[Prepared]:
    """Prepared datasets that are no corpora: what evaluation sees of them must not come under
    another name.
    """
    copies = []
    for name in sorted({*datasets.names()} - {*names}):
        with suppress(MissingData, BadRecord, BadSetting):
            copies.append(held(name, folders.data, folders.prepared))
    return copies
