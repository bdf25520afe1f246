"""From datasets on disk to what a recipe trains on: corpora without what evaluation may see, and
the development task.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice

from ecgbench import datasets, models
from ecgbench.core.cells import Folders
from ecgbench.core.seeds import rng
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import find_any, prepare
from ecgbench.data.source import root_of
from ecgbench.errors import BadRecord, BadSetting, MissingData, MissingRequirements
from ecgbench.evaluate import torchrun
from ecgbench.pretrain.corpus import Corpus, gather
from ecgbench.pretrain.exclusion import HELD_OUT, PTBXL, Exclusion, LeakCheck, Name, hold_out
from ecgbench.pretrain.objective import new_network
from ecgbench.pretrain.probes import Development
from ecgbench.pretrain.recipe import DEVELOPMENT, Recipe
from ecgbench.pretrain.run import Data
from ecgbench.study.progress import Display, counting


def assemble(
    recipe: Recipe, folders: Folders, progress: Display, records: int | None = None
) -> Data:
    """Prepare, leave out, and pack the corpora of a recipe; what is there already is not made
    again. records: train on so many at most, and compare encoders on so many, the same at every
    call. Every process of torchrun calls this alike.

    Left out is what evaluation may see (`Exclusion`) of the corpora and of every other dataset that
    is prepared here.

    BadSetting: a model that cannot be pre-trained. MissingData: a dataset that is not under
    `folders.data`. LeakError: a recording that must not enter training.
    """
    names = list(recipe.datasets)
    # a model that cannot be pre-trained is refused before anything is read
    new_network(recipe.model, recipe.shape)
    progress.note(development(recipe, folders))
    missing = missing_data(recipe, folders)
    if len(missing) == 1:
        raise MissingData(missing[0])
    if missing:
        raise MissingRequirements(f"{len(missing)} corpora of this recipe are not here:", *missing)
    first = torchrun.local() == 0
    if not first:  # the first process of this machine prepares and packs
        torchrun.wait()
    made = _prepared(recipe, folders, progress)
    corpus, left_out = _corpus(recipe, folders, made, progress, records)
    if first:
        torchrun.wait()
    if torchrun.of_first(lambda: corpus.digest) != corpus.digest:
        raise BadSetting(
            "the corpus of this process is not that of the first one; give all machines the same "
            "prepared datasets"
        )
    progress.note(
        f"{len(corpus)} recordings of {', '.join(names)} to train on, {sum(left_out.values())} "
        f"left out, {corpus.too_short} too short"
    )
    dataset, _, task = datasets.tasks()[recipe.task]
    contract = models.ROOM.card(recipe.model).contracts[0]
    return Data(
        corpus=corpus,
        development=Development.of(
            made[dataset],
            task,
            contract,
            (recipe.probe_records, records),
            recipe.seed,
            check=HELD_OUT if recipe.apart else "val",
        ),
        prepared={name: made[name].digest for name in names},
        left_out=left_out,
    )


def _prepared(recipe: Recipe, folders: Folders, progress: Display) -> dict[str, Copy]:
    """The corpora and the dataset of the development task, without the patients who only compare
    encoders.
    """
    of_task, made = datasets.tasks()[recipe.task][0], {}
    for name in dict.fromkeys([*recipe.datasets, of_task]):
        with counting(f"prepare {name}", progress) as shown:
            copy = prepare(name, folders.data, folders.prepared, shown)
        apart = recipe.apart if name == of_task else None
        made[name] = hold_out(copy, apart) if apart else copy
    return made


def _corpus(
    recipe: Recipe,
    folders: Folders,
    made: dict[str, Copy],
    progress: Display,
    records: int | None,
) -> tuple[Corpus, dict[str, int]]:
    """The recordings to train on; and why others are not -> how many."""
    corpora = [made[name] for name in recipe.datasets]
    copies = [*corpora, *_other_copies(recipe, folders, made)]
    exclusion, chosen = Exclusion(copies), dict[Name, bool]()

    def allowed(name: Name) -> bool:
        return chosen.setdefault(name, exclusion(name))

    choose: Callable[[Name], bool] = allowed
    if records is not None:
        choose = _some(corpora, records, allowed).__contains__
    # PTB-XL may be prepared here, perhaps in part, without being a corpus
    leak_check = LeakCheck.of(corpora, next((p.published for p in copies if p.name == PTBXL), None))
    contract = models.ROOM.card(recipe.model).contracts[0]
    with counting("pack the corpora", progress) as shown:
        corpus = gather(corpora, leak_check, contract, choose, shown)
    return corpus, dict(exclusion.reasons)


def _other_copies(recipe: Recipe, folders: Folders, made: dict[str, Copy]) -> list[Copy]:
    """Copies of datasets that are no corpora: what evaluation sees of them must not come under
    another name, nor do patients of the development task who only compare encoders.
    """
    copies = []
    for name in sorted({*datasets.names(), *made} - {*recipe.datasets}):
        with suppress(MissingData, BadRecord, BadSetting):
            copies.append(made.get(name) or find_any(name, folders.data, folders.prepared))
    return copies


def _some(prepared: Sequence[Copy], records: int, choose: Callable[[Name], bool]) -> set[Name]:
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
    task, known = recipe.task, datasets.tasks()
    line = f"development task: {task}"
    if recipe.apart:
        line += f" on one in {recipe.apart} training patients, who are not trained on"
    if task in known and known[task][1].synthetic:
        return line
    if task != DEVELOPMENT:
        line += f", which stands in for the paper's {DEVELOPMENT}"
    try:
        root_of(known[DEVELOPMENT][0], known[DEVELOPMENT][1], folders.data)
    except MissingData:
        line += f", whose data, CODE, are not in {folders.data or 'a folder that is named'}"
        line += "; recipe small has ptbxl_super instead" if task == DEVELOPMENT else ""
    return line


def missing_data(recipe: Recipe, folders: Folders) -> list[str]:
    """Of each corpus that is not on this machine a line: how to get it."""
    missing = []
    for name in recipe.datasets:
        try:
            root_of(name, datasets.get(name).CARD, folders.data)
        except MissingData as error:
            missing.append(str(error))
    return missing
