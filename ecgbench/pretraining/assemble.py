"""From datasets on disk to what a recipe trains on: corpora without what evaluation may see, and the development task."""

from ecgbench import datasets
from ecgbench.benchmark.plan import all_tasks
from ecgbench.benchmark.progress import Watcher, paced
from ecgbench.cells import Places
from ecgbench.datasets._prepare import prepare
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.pretraining.corpus import Guard, Name, gather
from ecgbench.pretraining.exclusion import Exclusion
from ecgbench.pretraining.pretrain import Data
from ecgbench.pretraining.recipe import Recipe
from ecgbench.pretraining.selection import Development


def assemble(recipe: Recipe, places: Places, watcher: Watcher) -> Data:
    """Prepare, leave out, and read the corpora of a recipe; what is prepared already is not prepared again.

    BadSetting: a corpus that no loader reads, a development task of another dataset. MissingData: a dataset that is not under
    `places.data`. LeakError: a recording that must not enter training.
    """
    names = [_loader(recipe, name) for name in recipe.datasets]
    if recipe.task not in all_tasks():
        raise UnknownName("task", recipe.task, list(all_tasks()), "List them: ecgbench tasks")
    owner, _, task = all_tasks()[recipe.task]
    if owner not in names:
        raise BadSetting(f"the development task {task.name} is of {owner}, which recipe {recipe.name} does not read; choose one of its own")
    prepared = [prepare(n, places.data, places.prepared, paced(f"prepare {n}", watcher.note)) for n in names]
    exclusion = Exclusion(prepared)
    chosen: dict[Name, bool] = {}

    def choose(name: Name) -> bool:
        return chosen.setdefault(name, exclusion(name))

    corpus = gather(prepared, Guard.of(prepared), recipe.kept, choose, paced("read the corpora", watcher.note))
    short = len(corpus.short)
    left_out = len(chosen) - len(corpus) - short
    watcher.note(f"{len(corpus)} recordings of {', '.join(names)} to train on, {left_out} left out, {short} too short")
    home = prepared[names.index(owner)]
    development = Development.of(home, task, recipe.probe_records, recipe.seed)
    return Data(corpus=corpus, development=development, prepared={p.name: p.digest for p in prepared}, left_out=dict(exclusion.reasons))


def _loader(recipe: Recipe, name: str) -> str:
    known = set(datasets.names())
    lost = [n for n in recipe.datasets if n not in known]
    if lost:
        raise BadSetting(
            f"recipe {recipe.name} reads {len(recipe.datasets)} corpora, and for {', '.join(lost)} there is no loader yet; "
            "register them as data sets of a plug-in, or run: ecgbench pretrain --recipe small"
        )
    return name
