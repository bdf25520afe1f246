"""From datasets on disk to what a study sees."""

from ecgbench import datasets
from ecgbench.ablation.budget import Budget
from ecgbench.ablation.make import Assembled
from ecgbench.core.cells import Folders
from ecgbench.pretraining.assemble import assemble
from ecgbench.study.progress import Display


def assembled(budget: Budget, folders: Folders, progress: Display) -> Assembled:
    """The corpora and the development task; raises what `pretraining.assemble` does."""
    data = assemble(budget.recipe, folders, progress, records=budget.records)
    return Assembled(data=data, labels=datasets.tasks()[budget.recipe.task][2].labels)
