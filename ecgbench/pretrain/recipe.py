"""Recipes: every choice that a pre-training rests on, from the corpora to the checkpoint that is
kept.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from ecgbench import models
from ecgbench.core.keys import key
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.pretrain import descriptors
from ecgbench.pretrain.collapse import WINDOWS
from ecgbench.pretrain.stage import STAGES, Stage

Init = Literal["previous", "scratch"]
LAEF = "laef"
CORPORA = (
    "code",
    "ikem",
    "ptbxl",
    "cpsc2018",
    "cpsc_extra",
    "chapman",
    "georgia",
    "mimic_iv_ecg",
    "ningbo",
    "ptb",
    "sph",
)
"""The paper's eleven (table of datasets, column "SSL PT"). It counts 8.2 million recordings of
CODE, of which 5.9 million are unlabelled; the card of CODE counts those with labels.
"""
DEVELOPMENT = "ribeiro_dev"
"""The paper's development task, of CODE, which is given on request only."""
PAPER = "paper"
"""Name of the paper's own recipe."""
SMALL_RATE = 1e-4
"""Learning rate on small data. At the paper's 1e-3 without warm-up all nodes became equal within
100 steps of 64 recordings and told no code from another; docs/howto/pretrain.md has what was tried.
"""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A pre-training of two stages, or of the first alone. BadSetting where it is impossible."""

    name: str
    summary: str
    """One line for people."""
    datasets: tuple[str, ...]
    """Corpora: the training splits of these datasets, minus what is equal to a validation or test
    recording of any of them.
    """
    task: str
    """Development task of the selection; its recordings of validation and test stay out of
    training.
    """
    apart: int | None = None
    """Encoders are compared on one in so many training patients of the development task's dataset,
    who are then not trained on; None: on the validation split of the task.
    """
    model: str = LAEF
    """Whose network is pre-trained: a name of the room of models, where one from outside has
    entered by its path.
    """
    shape: tuple[tuple[str, Any], ...] = ()
    """Choices of the model's configuration (`laef.LaefConfig`) that differ: (("blocks", 3),)."""
    descriptor: str = "mfcc-paper"
    """A preset of `descriptors`: what segments of the signal are described by in stage 1."""
    codes: tuple[int, ...] = (50,)
    """C, one codebook each, all predicted at once."""
    block: int = 1
    """Whose nodes the second stage clusters."""
    refined: tuple[int, ...] = (500,)
    """C' of stage 2."""
    init: Init = "previous"
    """Where stage 2 starts: from the selected checkpoint of stage 1, or from new weights."""
    stages: tuple[Stage, ...]
    """One or two."""
    elbow: tuple[tuple[int, ...], tuple[int, ...]] = (
        (10, 30, 50, 70, 100, 200, 300),
        (100, 500, 1000, 1500),
    )
    """Sizes of further codebooks per stage, fitted beside those that are used, for the elbow curve
    only.
    """
    probe_records: int | None = None
    """Training recordings of the development task that a probe sees at most."""
    windows: int = WINDOWS
    """For the signs of collapse."""
    seed: int = 0
    """Of initial weights, codebooks and the development recordings; masks and windows are drawn by
    the seeds of the stages.
    """

    def __post_init__(self) -> None:
        name, sizes = f"recipe {self.name}", (self.codes, self.refined)
        if self.apart is not None and self.apart < 2:
            raise BadSetting(
                f"{name}: one in {self.apart} training patients compares encoders; 2 or more, for "
                f"example --set held_out=8"
            )
        if self.probe_records is not None and self.probe_records < 1:
            raise BadSetting(
                f"{name}: a probe that learns from {self.probe_records} recordings; 1 or more, for "
                f"example --set probe_records=800"
            )
        if self.init not in get_args(Init):
            raise BadSetting(f"init {self.init}: previous (the checkpoint of stage 1) or scratch")
        if min(min(codes, default=0) for codes in sizes) < 2:
            raise BadSetting(
                f"codes {self.codes} and {self.refined}: at least one codebook of at least 2 for "
                f"each stage, for example 50"
            )
        descriptors.preset(self.descriptor)

    def facts(self) -> dict[str, Any]:
        """Everything that decides the result, as plain JSON; name and summary do not.

        LAEF as the model is left out, a shape that is the model's own, and patients where none are
        apart: recipes had no other before they named one, and keep their hashes.
        """
        free = ("name", "summary", "stages", "elbow", "model", "shape", "apart")
        own = {k: v for k, v in asdict(self).items() if k not in free}
        if self.model != LAEF:
            own |= {"model": self.model, "model_source": models.ROOM.source_hash(self.model)}
        if self.apart is not None:
            own["apart"] = self.apart
        if self.shape:
            own["shape"] = dict(self.shape)
        own["kept"] = "float16"  # the type of samples, which recipes could once choose
        own["stages"] = stages = [stage.choices() for stage in self.stages]
        if len(stages) == 1:
            for unused in ("refined", "block", "init"):
                del own[unused]
        for stage in stages:
            del stage["checkpoint_every"]
        return json.loads(json.dumps(own))

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """Of the codebooks of each stage."""
        return (self.codes, self.refined)[: len(self.stages)]

    @property
    def digest(self) -> str:
        """sha256 (hex) of the facts."""
        return key(self.facts())

    def lines(self) -> list[str]:
        """The recipe as a terminal shows it."""
        own = {k: v for k, v in self.facts().items() if k != "stages"}
        rows = {"recipe": f"{self.name}: {self.summary}", **own}
        for number, stage in enumerate(self.stages, 1):
            choices = {k: v for k, v in stage.choices().items() if v is not None}
            rows[f"stage {number}"] = [f"{k}={_shown(v)}" for k, v in choices.items()]
        return [f"{k:14} {_shown(v)}" for k, v in {**rows, "digest": self.digest}.items()]

    def passes(self, records: int) -> str:
        """One line: the steps of both stages, and how often they see each of so many recordings."""
        each = [(stage.steps, stage.records(records)) for stage in self.stages]
        steps = " and ".join(f"{count:,} steps of {batch:,}" for count, batch in each)
        often = " and ".join(f"{count * batch / records:,.1f}" for count, batch in each)
        return f"{steps}: {often} passes over {records:,} recordings"

    def changed(self, choices: Mapping[str, Any]) -> "Recipe":
        """With other choices: fields of the recipe or of both stages.

        steps: a pair, one for each stage; edge_drop: of stage 2; seed: of everything, the stages'
        own following from it.
        """
        own = {k: v for k, v in choices.items() if k in self.__dataclass_fields__}
        both = {k: v for k, v in choices.items() if k not in own}
        of_each: list[dict[str, Any]] = [{}, {}]
        for stage, steps in zip(of_each, both.pop("steps", ())):
            stage["steps"] = steps
        if "edge_drop" in both:
            of_each[1]["edge_drop"] = both.pop("edge_drop")
        if "seed" in own:
            of_each[0]["seed"], of_each[1]["seed"] = 2 * own["seed"], 2 * own["seed"] + 1
        stages = (replace(stage, **both, **more) for stage, more in zip(self.stages, of_each))
        return replace(self, **own, stages=tuple(stages))


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _stages(first: int, second: int, **changes: Any) -> tuple[Stage, Stage]:
    masked, refined = STAGES
    return replace(masked, steps=first, seed=0, **changes), replace(
        refined, steps=second, seed=1, **changes
    )


_PTBXL: dict[str, Any] = {
    "datasets": ("ptbxl",),
    "task": "ptbxl_super",
    "apart": 8,
    "descriptor": "mixed-ecg",
}
_CPU = _PTBXL | {
    "elbow": ((10, 30, 50, 70, 100, 200, 300), (100, 500, 1000)),
    "probe_records": 800,
    "windows": 200,
}
RECIPES = {
    r.name: r
    for r in (
        Recipe(
            name=PAPER,
            summary="the paper's eleven corpora, 80,000 and 75,000 steps of 448 recordings",
            datasets=CORPORA,
            task=DEVELOPMENT,
            stages=_stages(80_000, 75_000),
        ),
        Recipe(
            name="small",
            summary=(
                "the PTB-XL at hand, both stages in some 25 minutes on one H100-class GPU "
                "(planned, not measured)"
            ),
            stages=_stages(8_000, 8_000, lr=SMALL_RATE, checkpoint_every=500, probe_every=1000),
            **_PTBXL,
        ),
        Recipe(
            name="small-cpu",
            summary="the PTB-XL at hand on a CPU: 600 and 300 steps of 64 recordings",
            stages=_stages(600, 300, batch=64, lr=SMALL_RATE, checkpoint_every=50, probe_every=150),
            **_CPU,
        ),
        Recipe(
            name="shipped",
            summary=(
                "what LAEF's shipped weights were made with: PTB-XL at hand, 1,500 and 400 steps "
                "of 64 recordings, 1 h 45 min on two cores"
            ),
            stages=_stages(
                1500,
                400,
                batch=64,
                lr=3e-4,
                warmup=100,
                decay="cosine",
                checkpoint_every=50,
                probe_every=300,
            ),
            **_CPU,
        ),
        Recipe(
            name="smoke",
            summary="the synthetic demo, a dozen steps: shows that everything runs",
            datasets=("demo",),
            task="demo",
            apart=4,
            codes=(8,),
            refined=(12,),
            stages=_stages(6, 4, batch=8, precision="float32", checkpoint_every=2, probe_every=3),
            elbow=((4, 8, 12), (6, 12, 18)),
            probe_records=24,
            windows=12,
        ),
    )
}


def get(name: str) -> Recipe:
    """A recipe by name; UnknownName with the nearest ones."""
    if name not in RECIPES:
        raise UnknownName("recipe", name, list(RECIPES))
    return RECIPES[name]
