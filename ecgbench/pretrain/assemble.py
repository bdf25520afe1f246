"""From datasets on disk to what a recipe trains on: corpora without what evaluation may see, and
the development task.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice

from ecgbench import datasets, models
from ecgbench.cards.plan import Folders
from ecgbench.core.division import Division
from ecgbench.core.seeds import rng
from ecgbench.data.contamination import told_by
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare, seen
from ecgbench.data.source import root_of
from ecgbench.errors import BadRecord, BadSetting, MissingData, MissingRequirements
from ecgbench.evaluate import torchrun
from ecgbench.pretrain.corpus import Corpus, gather
from ecgbench.pretrain.exclusion import (
    HELD_OUT,
    PTBXL,
    Exclusion,
    LeakCheck,
    Name,
    hold_out,
    same_recordings,
)
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

    Left out is whom evaluation may see (`Exclusion`) of the corpora and of every other dataset that
    is here.

    BadSetting: a model that cannot be pre-trained. MissingData: a dataset that is not under
    `folders.data`. LeakError: a recording that must not enter training.
    """
    names = list(recipe.datasets)
    # a model that cannot be pre-trained is refused before anything is read
    new_network(recipe.model, recipe.shape)
    progress.note(development(recipe))
    missing = missing_data(recipe, folders)
    if len(missing) == 1:
        raise MissingData(missing[0])
    if missing:
        raise MissingRequirements(
            f"{len(missing)} data sets for this recipe are missing:", *missing
        )
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
    progress.note(recipe.passes(len(corpus)))
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
    """The corpora, the dataset of the development task, without the patients who only compare
    encoders, and the datasets whose signals tell who must not be trained on.
    """
    of_task, made = datasets.tasks()[recipe.task][0], {}
    by_signal = [name for name, (how, _) in _relatives(recipe).items() if how == "signal"]
    for name in dict.fromkeys([*recipe.datasets, of_task, *by_signal]):
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
    others = _other_copies(recipe, folders, made)
    same = same_recordings(corpora, others, lambda what: counting(what, progress))
    exclusion, chosen = Exclusion([*corpora, *others], same), dict[Name, bool]()

    def allowed(name: Name) -> bool:
        return chosen.setdefault(name, exclusion(name))

    choose: Callable[[Name], bool] = allowed
    if records is not None:
        choose = _some(corpora, records, allowed).__contains__
    # PTB-XL may be prepared here, perhaps in part, without being a corpus
    leak_check = LeakCheck.of(
        corpora, next((p.published for p in [*corpora, *others] if p.name == PTBXL), None)
    )
    contract = models.ROOM.card(recipe.model).contracts[0]
    with counting("pack the corpora", progress) as shown:
        corpus = gather(corpora, leak_check, contract, choose, shown)
    return corpus, dict(exclusion.reasons)


def _other_copies(recipe: Recipe, folders: Folders, made: dict[str, Copy]) -> list[Copy]:
    """Datasets that are no corpora, as far as they are here: whom evaluation sees of them must not
    come under another name, nor patients of the development task who only compare encoders.
    """
    copies, relatives = [], _relatives(recipe)
    for name in sorted({*datasets.names(), *made} - {*recipe.datasets}):
        ignored = () if name in relatives else (MissingData, BadRecord, BadSetting)
        with suppress(*ignored):
            known = made.get(name)
            copies.append(known or seen(name, folders.data, folders.prepared, Division()))
    return copies


def _relatives(recipe: Recipe) -> dict[str, tuple[str, str]]:
    """Datasets of the paper's tasks that have patients in common with a corpus -> how these are
    told (`contamination.told_by`), and that corpus.
    """
    found: dict[str, tuple[str, str]] = {}
    for name, card, task in datasets.tasks().values():
        for corpus in recipe.datasets if task.paper is not None else ():
            how = told_by((corpus, datasets.get(corpus).CARD.title), (name, card.title))
            if how in ("number", "signal") and found.get(name, ("",))[0] != "signal":
                found[name] = how, corpus
    return found


def _some(prepared: Sequence[Copy], records: int, choose: Callable[[Name], bool]) -> set[Name]:
    """So many of the recordings that may be chosen, drawn at random."""
    names = [
        Name(p.name, record)
        for p in prepared
        for record in p.index.loc[p.index["split"] == "train", "record"]
    ]
    order = rng("records to train on").permutation(len(names))
    return set(islice((names[i] for i in order if choose(names[i])), records))


def development(recipe: Recipe) -> str:
    """One line: on which task encoders are compared, and for which one it stands in."""
    task, known = recipe.task, datasets.tasks()
    line = f"development task: {task}"
    if recipe.apart:
        line += f" on one in {recipe.apart} training patients, who are not trained on"
    if task == DEVELOPMENT or (task in known and known[task][1].synthetic):
        return line
    return f"{line}, which stands in for the paper's {DEVELOPMENT}"


def missing_data(recipe: Recipe, folders: Folders) -> list[str]:
    """A line on each dataset that is needed and not on this machine, how to get it: the corpora,
    that of the development task, and those whose tested patients may be among the corpora.
    """
    relatives, of_task = _relatives(recipe), datasets.tasks()[recipe.task][0]
    missing = []
    for name in dict.fromkeys([*recipe.datasets, of_task, *relatives]):
        try:
            root_of(name, datasets.get(name).CARD, folders.data)
        except MissingData as error:
            why = ""
            if name not in recipe.datasets and name in relatives:
                corpus = relatives[name][1]
                why = f" (it tests patients of {corpus}, unknown without it; or leave {corpus} out)"
            elif name not in recipe.datasets:
                why = f" (for the development task {recipe.task}; for another one: --set task=NAME)"
            missing.append(f"{error}{why}")
    return missing
