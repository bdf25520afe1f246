"""The room of datasets: one file per dataset, each with a card, an index and a reader."""

from collections.abc import Mapping

from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.contracts import Dataset
from ecgbench.core.registry import Room, plain
from ecgbench.errors import BadSetting

ROOM = Room(
    "ecgbench.datasets",
    "dataset",
    Dataset,
    besides=frozenset({"own"}),
    as_data={".toml": "ecgbench.datasets.own"},
)
names, get, resolve = ROOM.names, ROOM.get, ROOM.resolve


def codes(dataset: str) -> Mapping[str, str]:
    """Label -> its SNOMED CT code, several separated by `|`; of as many labels as have one."""
    found: Mapping[str, str] = getattr(get(dataset), "CODES", {})
    return found


def vocabulary(task: Task) -> dict[str, frozenset[str]]:
    """Label of a built-in task -> its codes in the vocabularies of `cards.model.VOCABULARIES`, such
    as "SCP AFIB"; only labels that have one.
    """
    from ecgbench.datasets import _labels  # with pandas

    return _labels.vocabulary(task.parent or task.name)


def tasks() -> dict[str, tuple[str, DatasetCard, Task]]:
    """Task -> (dataset, its card, task), in the order of the cards; those of a plug-in that cannot
    be imported are not among them (`ecgbench list tasks` names it).

    BadSetting where two datasets have a task of one name; case, `-` and `_` do not count.
    """
    found: dict[str, tuple[str, DatasetCard, Task]] = {}
    datasets: dict[str, str] = {}
    for dataset in names():
        try:
            card = ROOM.card(dataset)
        except BadSetting:
            continue
        for task in card.tasks:
            other = datasets.setdefault(plain(task.name), dataset)
            if other != dataset:
                ROOM.refuse(dataset)
                raise BadSetting(
                    f"the datasets {other} and {dataset} both have a task {task.name!r}; rename "
                    f"one in its CARD"
                )
            found[task.name] = dataset, card, task
    return found
