"""Checks of a request: names and numbers, before anything heavy is loaded; no network is built."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from ecgbench import datasets, metrics, models, policies, published
from ecgbench.cards.cell import PAPER, Training
from ecgbench.cards.dataset import DatasetCard, Task
from ecgbench.cards.model import OURS
from ecgbench.cards.plan import EXCLUDABLE, Request, weights_of
from ecgbench.core.division import Division
from ecgbench.core.registry import own_file, plain
from ecgbench.data.source import root_of
from ecgbench.data.splits import ours
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, MissingData, UnknownName
from ecgbench.evaluate import protocols
from ecgbench.policies.hide import NATIVE

MOST_DRAWS = 100_000
ALL = "all"
"""`--tasks all`: every task of the datasets of patients."""


def present(tasks: Sequence[str], data: Path | None) -> tuple[list[str], list[str]]:
    """The tasks of a plan whose data are under `data`, and the others; `all` is every task of the
    datasets of patients.
    """

    def here(task: str) -> bool:
        try:
            (name, *_) = resolve_tasks([task])  # a data set given by path is known from here on
            dataset, card, _ = datasets.tasks()[name]
            root_of(dataset, card, data)
        except (MissingData, UnknownName):
            return False
        return True

    named = _expanded(tasks)
    there = [task for task in named if here(task)]
    return there, [task for task in named if task not in there]


def _expanded(tasks: Sequence[str]) -> list[str]:
    """Names of tasks, with those of every dataset that holds patients for `all`."""
    real = [task for task, (_, card, _) in datasets.tasks().items() if not card.synthetic]
    return [name for task in tasks for name in (real if plain(task) == ALL else [task])]


def resolve_tasks(names: Sequence[str]) -> list[str]:
    """Proper spellings of task names, and all tasks of a dataset given by path or found in
    ./adapters; UnknownName with the nearest names.
    """
    given = {
        n: [task.name for task in datasets.get(n).CARD.tasks]
        for n in names
        if datasets.ROOM.is_path(n)
    }
    known = list(datasets.tasks())
    loose = {plain(n): [n] for n in known}
    found: list[str] = []
    for name in names:
        tasks = given.get(name) or loose.get(plain(name))
        if tasks is None and own_file(name):
            tasks = [task.name for task in datasets.get(name).CARD.tasks]
        if tasks is None:
            hint = "List them: ecgbench list tasks; or give the path of a dataset's file"
            raise UnknownName("task", name, known, hint)
        found += tasks
    return list(dict.fromkeys(found))


def check(request: Request) -> Request:
    """Resolve every name, refuse impossible numbers, and take from the cards what cells depend on.
    EcgbenchError for a contract that a model does not have.
    """
    least_of = {
        "--seeds": (request.seeds, 1),
        "--limit": (request.limit, 3),
        "--set training.epochs": (request.training.epochs, 1),
        "--set training.batch": (request.training.batch, 1),
        "--set scoring.draws": (request.scoring.draws, 100),
        "--set training.micro_batch": (request.training.micro_batch, 1),
    }
    for flag, (value, least) in least_of.items():
        if value is not None and value < least:
            typed = f"{flag}={value}" if flag.startswith("--set") else f"{flag} {value}"
            raise BadSetting(f"{typed}: at least {least}")
    if request.scoring.draws > MOST_DRAWS:
        raise BadSetting(f"--set scoring.draws={request.scoring.draws}: at most {MOST_DRAWS:,}")
    if not 0 < request.training.lr < float("inf"):
        raise BadSetting(
            f"--set training.lr={request.training.lr}: a learning rate is above 0; the default is "
            f"0.001"
        )
    protocol = protocols.resolve(request.training.protocol)
    request = replace(request, training=replace(request.training, protocol=protocol))
    _of_the_protocol(request.training)
    _of_the_leads(request)
    if other := [word for word in request.exclude if word not in EXCLUDABLE]:
        raise BadSetting(
            f"--set data.exclude={','.join(other)}: there is {', '.join(EXCLUDABLE)} to leave out"
        )
    lists = {
        "--models": request.models,
        "--tasks": request.tasks,
        "--policy": request.policies,
        "--metrics": request.scoring.metrics,
        "--set training.seeds": request.fit_seeds,
    }
    for flag, values in lists.items():
        if not values:
            raise BadSetting(f"{flag} names nothing; leave it out for the default")
    names = tuple(dict.fromkeys(m for word in request.models for m in _models(word)))
    _demand_groups(names, protocol)
    weights = weights_of(request.weights, names, models.resolve)
    chosen = tuple(dict.fromkeys(map(metrics.resolve, request.scoring.metrics)))
    found = tuple(resolve_tasks(_expanded(request.tasks)))
    every = datasets.tasks()
    _demand_one(weights, [every[task][2] for task in found], protocol)
    return replace(
        request,
        tasks=found,
        models=names,
        weights=",".join(f"{n}={w}" for n, w in weights.items())
        if "=" in request.weights
        else request.weights,
        policies=tuple(dict.fromkeys(map(_policy, request.policies))),
        parents={t: parent for t in found if (parent := every[t][2].parent)},
        own_policies={model: _usual_policy(model, request.contract) for model in names},
        division=_division(request.division, {every[t][0]: every[t][1] for t in found}),
        scoring=replace(request.scoring, metrics=chosen),
    )


def _models(word: str) -> list[str]:
    """The models that a word of `--models` names."""
    match plain(word):
        case "all":
            return models.names()
        case "baselines":
            return [name for name in published.MODELS if name != "laef"]
        case "published":
            every = (*models.names(), *models.ROOM.variants())
            cards = {name: models.ROOM.card(name) for name in every}
            return [n for n, c in cards.items() if c.weights and c.origin != OURS]
    return [models.resolve(word)]


def _of_the_protocol(training: Training) -> None:
    """BadSetting for a share that is none, for a setting of another protocol, or where a package
    that the protocol needs is not installed.
    """
    with protocols.ROOM.calling(training.protocol):
        protocols.facts(training)
    usual, used = Training(), protocols.get(training.protocol).SETTINGS
    for name in ("layer_decay", "warmup", "ema"):
        if not 0 <= (share := getattr(training, name)) <= 1:
            own = getattr(usual, name)
            raise BadSetting(f"--set training.{name}={share}: from 0 to 1; the default is {own}")
    for name in (f.name for f in fields(Training) if f.name not in ("protocol", "precision")):
        if name in used or getattr(training, name) == getattr(usual, name):
            continue
        others = " or ".join(p for p in protocols.names() if protocols.uses(p, name))
        raise BadSetting(
            f"training.{name}={getattr(training, name)}: --protocol {training.protocol} has no "
            f"such setting; choose --protocol {others}, or leave it out"
        )


def _demand_groups(names: Sequence[str], protocol: str) -> None:
    """BadSetting where a protocol sorts parameters into groups and a model's card has none."""
    sorts = any(protocols.uses(protocol, setting) for setting in ("lr_groups", "layer_decay"))
    for name in names if sorts else ():
        try:
            card = models.ROOM.card(name)
        except BadSetting:  # its cells fail
            continue
        if not card.groups and card.parameters != 0:
            raise BadSetting(
                f"--protocol {protocol}: the card of {name} has no groups, which sort its "
                f"parameters into early and late ones; add them to the card, or choose --protocol "
                f"linear"
            )


def _demand_one(weights: Mapping[str, str], tasks: Sequence[Task], protocol: str) -> None:
    """BadSetting where a protocol is for none of the models, with these weights, on any task."""
    if refuses := getattr(protocols.get(protocol), "refuses", None):
        pairs = [(models.ROOM.card(model), word) for model, word in weights.items()]
        why = [refuses(*pair, task) for pair in pairs for task in tasks]
        if all(why):
            raise BadSetting(why[0])


def _of_the_leads(request: Request) -> None:
    """BadSetting for training leads where nothing is trained, and where `--train-leads same` cannot
    be: of other protocols, and of random leads, which are not the same in two records.
    """
    protocol = request.training.protocol
    if request.training.leads == "random" and not protocols.learns(protocol):
        raise BadSetting(
            f"--train-leads random with --protocol {protocol}: nothing is trained; leave it out"
        )
    if request.training.leads != "same":
        return
    if not getattr(protocols.get(request.training.protocol), "SAME_LEADS", False):
        able = [n for n in protocols.names() if getattr(protocols.get(n), "SAME_LEADS", False)]
        raise BadSetting(
            f"--train-leads same with --protocol {request.training.protocol}: a fit for each set "
            f"of leads is for {' or '.join(able)}; choose one, or --train-leads random"
        )
    for count in (n for n in request.leads if isinstance(n, int) and n < len(LEADS)):
        raise BadSetting(
            f"--train-leads same with --leads {count}: leads drawn at random are not the same in "
            f"two records; name them, for example --leads I,II,V1, or choose --train-leads random"
        )


def _usual_policy(model: str, contract: str) -> str:
    """What a model's contract says; zero for one that cannot be imported, whose cells fail."""
    try:
        card = models.ROOM.card(model)
    except BadSetting:
        return "zero"
    return str(card.contract(contract).policy)


def _policy(name: str) -> str:
    """The proper name of a policy; UnknownName."""
    if plain(name) in (PAPER, NATIVE):
        return plain(name)
    known = [*policies.names(), NATIVE, PAPER]
    found = next((one for one in known if plain(one) == plain(name)), None)
    if found is None and (name.endswith(".py") or own_file(name)):
        return policies.resolve(name)
    if found is None:
        raise UnknownName("policy", name, known, "List them: ecgbench list policies")
    return found


def _division(division: Division, chosen: Mapping[str, DatasetCard]) -> Division:
    """With the datasets' proper names, and without numbers that are those of their cards.

    chosen: the datasets of the study. BadSetting for one that is not among them, or whose split is
    published; UnknownName.
    """
    own = {}
    for word, number in division.own:
        name = datasets.resolve(word)
        if name not in chosen:
            raise BadSetting(
                f"--folds {division}: no task of dataset {name} is in this run, only of "
                f"{', '.join(chosen)}; leave {word}={number} out"
            )
        card = chosen[name]
        if not ours(card):
            raise BadSetting(
                f"--folds {division}: the split of {card.title} is published and stays as it is "
                f"({card.splits}); leave {word}={number} out, or cross-validate: --folds 5"
            )
        if number != card.folds:
            own[name] = number
    if division.reference and not any(map(ours, chosen.values())):
        splits = "; ".join(f"{name}: {card.splits}" for name, card in chosen.items())
        raise BadSetting(
            f"--folds {division}: the split of every dataset here is published, so there is "
            f"nobody to move ({splits}); leave reference out"
        )
    return replace(division, own=tuple(sorted(own.items())))
