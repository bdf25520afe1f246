"""`--folds` of a study: whether its datasets can be divided like that, told before anything is
computed.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from ecgbench import datasets
from ecgbench.core.cards import DatasetCard
from ecgbench.core.cells import Folders, Plan, grouped
from ecgbench.core.division import Division
from ecgbench.data.prepare import seen
from ecgbench.data.select import Selection, taken
from ecgbench.data.splits import demand_enough, ours
from ecgbench.errors import BadRecord, BadSetting, MissingData


def resolved(asked: Division, chosen: Mapping[str, DatasetCard]) -> Division:
    """With the datasets' proper names, and without numbers that are those of their cards.

    chosen: the datasets of the study. BadSetting for one that is not among them, or whose split is
    published; UnknownName.
    """
    own = {}
    for word, number in asked.own:
        name = datasets.resolve(word)
        if name not in chosen:
            raise BadSetting(
                f"--folds {asked}: no task of dataset {name} is in this run, only of "
                f"{', '.join(chosen)}; leave {word}={number} out"
            )
        card = chosen[name]
        if not ours(card):
            raise BadSetting(
                f"--folds {asked}: the split of {card.title} is published and stays as it is "
                f"({card.splits}); leave {word}={number} out, or cross-validate: --folds 5"
            )
        if number != card.folds:
            own[name] = number
    if asked.reference and not any(map(ours, chosen.values())):
        said = "; ".join(f"{name}: {card.splits}" for name, card in chosen.items())
        raise BadSetting(
            f"--folds {asked}: the split of every dataset here is published, so there is nobody to "
            f"move ({said}); leave reference out"
        )
    return replace(asked, own=tuple(sorted(own.items())))


def demand(plan: Plan, folders: Folders, tasks: Mapping[str, str]) -> None:
    """BadSetting where a dataset of the plan cannot be divided as it asks; datasets that are not
    here are not looked at. tasks: task -> its dataset.
    """
    if not plan.division:
        return
    asked = dict.fromkeys(c.task for c in plan.cells)
    for name, own in grouped(asked, lambda task: tasks[task]).items():
        with suppress(MissingData, BadRecord):  # preparing says what is wrong
            copy = seen(name, folders.data, folders.prepared, plan.division)
            if plan.division.cross is None:
                continue
            index = copy.published[copy.published["record"].isin(taken(copy, plan.limit))]
            if len(copy.index) and not set(index["record"]) - set(copy.index["record"]):
                index = Selection(copy, plan.limit, plan.exclude).index
            named = [copy.task(task) for task in own]
            demand_enough(name, copy.tasks, named, index, plan.division.cross)
