"""From datasets on disk to what a study sees."""

from ecgbench.ablation.budget import Budget
from ecgbench.ablation.make import Assembled
from ecgbench.benchmark.plan import all_tasks
from ecgbench.benchmark.progress import Display
from ecgbench.cells import Folders
from ecgbench.prepared.prepare import held
from ecgbench.pretraining.assemble import assemble


def assembled(budget: Budget, folders: Folders, progress: Display) -> Assembled:
    """The corpora, the development task and its validation patients; raises what
    `pretraining.assemble` does.
    """
    data = assemble(budget.recipe, folders, progress, records=budget.records)
    owner, _, task = all_tasks()[budget.recipe.task]
    index = held(owner, folders.data, folders.prepared).index
    patients = dict(zip(index["record"], index["patient"].astype(str)))
    return Assembled(
        data=data,
        patients=[patients[record] for record in data.development.check.records],
        labels=task.labels,
    )
