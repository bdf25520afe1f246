"""Controls of a study: the same study without one source of information, or with a simple baseline
instead of its models, each in its own folder below the run.

The expected result of each is known beforehand. A control with another result shows that a score of
the run does not mean what it seems to mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ecgbench import perturbations
from ecgbench.cards.cell import RELEASED, Training, TrainLeads
from ecgbench.cards.plan import Request
from ecgbench.core.registry import folder_name
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.evaluate import protocols
from ecgbench.perturbations import PERTURBED, Perturbation

FOLDER = "controls"
"""Below a run."""
PERTURBATIONS = "perturbations"
"""Folder of perturbed test recordings below a run."""
HEADS, RETRAINED = "heads ", "heads"
"""Before the leads that training shows, in the control of a plan; and their folder below a run."""
USED = "labels-used "
"""Before the number of labelled patients and their draw, in the control of a plan."""
CURVE = "labels_used"
"""Folder of heads trained on fewer labelled patients, below a run."""
FOLDERS = (FOLDER, PERTURBATIONS, RETRAINED, CURVE)
FEWEST, MANY = 5, 400
"""Labelled patients; and how many need fewer draws."""
DRAWS, DRAWS_OF_MANY = 10, 3
ALL = "all"
"""Of `--controls`: every control."""
REPEATS = 20
"""Permutations of the labels."""
LABELS, LEADS, PHASES = "labels", "leads", "phases"
Kind = Literal["chance", "less", "shortcut"]
"""The expected result: chance; less than the model; a baseline below the model."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """What is changed, and the expected result."""

    name: str
    """On the command line."""
    title: str
    summary: str
    """What is done."""
    kind: Kind
    tabular: bool = False
    """Whether it uses only the tables of the dataset, and no signal."""


CONTROLS = {
    c.name: c
    for c in (
        Control(
            name=LABELS,
            title="Labels permuted",
            summary="labels are permuted among the patients of each split, then everything is "
            "trained and tested as in the run",
            kind="chance",
        ),
        Control(
            name=LEADS,
            title="Lead names scrambled",
            summary="in each test record every lead stands under the name of another one; training "
            "saw the right names",
            kind="less",
        ),
        Control(
            name=PHASES,
            title="Phases randomised",
            summary="all recordings keep their spectra and lose the shapes of their waves, in "
            "training and test",
            kind="less",
        ),
        Control(
            name="age_sex",
            title="Age and sex",
            summary="age and sex in place of the recording",
            kind="shortcut",
            tabular=True,
        ),
        Control(
            name="rate_qrs",
            title="Heart rate and QRS duration",
            summary="heart rate and QRS duration, measured in the leads that are there, in place "
            "of the recording",
            kind="shortcut",
        ),
        Control(
            name="recorder",
            title="Site and device",
            summary="where and with which device it was recorded, in place of the recording",
            kind="shortcut",
            tabular=True,
        ),
    )
}
"""In the order in which they run and are reported."""


def resolve(names: Sequence[str]) -> tuple[str, ...]:
    """The named controls, in their usual order; UnknownName."""
    wanted = list(CONTROLS) if ALL in names else list(names)
    for name in wanted:
        if name not in CONTROLS:
            raise UnknownName("control", name, [ALL, *CONTROLS])
    return tuple(name for name in CONTROLS if name in wanted)


def of(control: str) -> Control:
    """The control of a plan: `labels@3` is the fourth permutation.

    >>> of("labels@3").title
    'Labels permuted'
    """
    return CONTROLS[control.partition("@")[0]]


def named(control: str) -> Control | None:
    """The control of a plan; None of a study, a perturbation or other heads."""
    return CONTROLS.get(control.partition("@")[0])


def permutation(control: str) -> int | None:
    """Number of the permutation of the labels; None for a control that permutes none.

    >>> permutation("labels@3"), permutation("phases"), permutation("")
    (3, None, None)
    """
    name, _, number = control.partition("@")
    return int(number) if name == LABELS else None


def perturbation(control: str) -> Perturbation | None:
    """What is done to the test recordings of a plan, at heads that were fitted to others.

    >>> str(perturbation("perturb em@6")), perturbation("phases")
    ('em@6', None)
    """
    own = control.startswith(PERTURBED)
    return perturbations.one(control.removeprefix(PERTURBED)) if own else None


def of_perturbations(text: str) -> tuple[str, ...]:
    """Of `--perturb`: the controls of plans."""
    return tuple(f"{PERTURBED}{one}" for one in perturbations.parse(text))


def retrained(control: str) -> str:
    """Which leads training shows in a plan of other heads; "" of any other plan.

    >>> retrained("heads same"), retrained("phases")
    ('same', '')
    """
    return control.removeprefix(HEADS) if control.startswith(HEADS) else ""


def of_heads(others: Sequence[str]) -> tuple[str, ...]:
    """Of the further words of `--train-leads`: the controls of plans."""
    for word in others:
        if word not in get_args(TrainLeads):
            raise UnknownName("way to train (--train-leads)", word, get_args(TrainLeads))
    return tuple(f"{HEADS}{word}" for word in others)


def of_labels(words: Sequence[str], protocol: str) -> tuple[str, ...]:
    """Of `--labels-used`: the controls of plans. `all` is the run itself. BadSetting.

    >>> of_labels(["25", "100", "all"], "probe")
    ('labels-used 25', 'labels-used 100')
    """
    typed = ",".join(words)
    for word in words:
        if word != ALL and not (word.isdecimal() and int(word) >= FEWEST):
            raise BadSetting(
                f"--labels-used {typed}: {word!r}; numbers of labelled patients, {FEWEST} or more, "
                f"and all: --labels-used 25,100,400,all"
            )
    if words and protocol != "probe":
        raise BadSetting(
            f"--labels-used {typed}: only for --protocol probe, whose heads are fitted to stored "
            f"features; this study has --protocol {protocol}"
        )
    return tuple(f"{USED}{number}" for number in sorted({int(w) for w in words if w != ALL}))


def labelled(control: str) -> tuple[int, int] | None:
    """Number of labelled patients in training, and their draw; None where all are.

    >>> labelled("labels-used 100@3"), labelled("phases")
    ((100, 3), None)
    """
    number, _, draw = control.removeprefix(USED).partition("@")
    return (int(number), int(draw)) if control.startswith(USED) else None


def reuses_fits(control: str) -> bool:
    """Whether the heads of the run are tested, on other recordings."""
    return control == LEADS or control.startswith(PERTURBED)


def sources(control: str) -> dict[str, Any]:
    """What else stands in keys."""
    done = perturbation(control)
    return {"perturbation": perturbations.identity(done.name)} if done else {}


def names(control: str, training: Training) -> list[str]:
    """Names of the plans of a control: one, or one for each permutation or draw of patients."""
    if control.startswith(USED):
        few = int(control.removeprefix(USED)) < MANY
        return [f"{control}@{draw}" for draw in range(DRAWS if few else DRAWS_OF_MANY)]
    if control != LABELS:
        return [control]
    repeats = REPEATS if protocols.is_frozen(training.protocol) else 1
    return [f"{control}@{number}" for number in range(repeats)]


def folder(run: Path, control: str) -> Path:
    """Folder of a control, a perturbation or heads of another training of a run."""
    if way := retrained(control):
        return run / RETRAINED / way
    if control.startswith(PERTURBED):
        return run / PERTURBATIONS / folder_name(control.removeprefix(PERTURBED))
    if labelled(control):
        return run / CURVE / control.removeprefix(USED)
    return run / FOLDER / control


def derived(request: Request, control: str) -> Request:
    """A control of a study: its first draw of leads and first fit, all else unchanged. A shortcut
    replaces all models, and is always a probe.
    """
    name = f"{request.name} {control}".strip()
    if way := retrained(control):
        training = replace(request.training, leads=cast(TrainLeads, way))
        return replace(request, name=name, control=control, training=training)
    first = replace(request, name=name, control=control, seeds=1, fit_seeds=request.fit_seeds[:1])
    if not shortcut(control):
        return first
    return replace(
        first,
        models=(control,),
        weights=RELEASED,
        contract="paper",
        policies=("native",),
        fit_seeds=(0,),
        training=Training(),
    )


def shortcut(control: str) -> bool:
    """Whether it replaces all models."""
    known = named(control)
    return known is not None and known.kind == "shortcut"
