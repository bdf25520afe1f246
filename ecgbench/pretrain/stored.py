"""A pre-training as a report reads it, from the files that `ecgbench pretrain` leaves, finished or
not.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ecgbench.core.files import facts_of
from ecgbench.core.text import quoted
from ecgbench.errors import BadWeights, MissingData

RECIPE, REPORT = "recipe.json", "pretraining.json"
FILES = (RECIPE, REPORT)
"""A folder that holds one of these, and is no run, is a pre-training."""
NEAR = "a standard error of the difference"
"""How far below the best an encoder may be that is as good (`margin`)."""
OWN = (
    "LAEF's weights as this project makes them by the recipe below, not the checkpoint of the "
    "paper."
)
SYNTHETIC = (
    "Recordings of the demo are computed, not measured: no number here says anything "
    "about patients, and the weights are of no use."
)


def _facts(text: str) -> Any:
    content = json.loads(text)
    return facts_of(content) if isinstance(content, dict) else content


def compared_on(task: str, apart: int | None) -> str:
    """In words: the recordings that encoders are compared on.

    >>> compared_on("ptbxl_super", 8), compared_on("ribeiro_dev", None)
    ('training patients of ptbxl_super who are set apart', 'validation split of ribeiro_dev')
    """
    return (
        f"training patients of {task} who are set apart" if apart else f"validation split of {task}"
    )


def margin(one: Sequence[float], best: Sequence[float]) -> float:
    """How far below the best score one may be that is as good: a standard error of their
    difference. Both: what each patient adds to the error (`clustered.Influence.parts`), of the same
    patients.

    >>> round(margin((0.01, -0.02, 0.01), (0.02, -0.01, -0.01)), 3)
    0.03
    """
    difference = np.subtract(best, one)
    patients = len(difference)
    variance = float(difference @ difference) * patients / max(patients - 1, 1)
    return math.sqrt(variance)


def chosen(scores: Sequence[float], parts: Sequence[Sequence[float]], falling: bool) -> int:
    """Which of the kept encoders of a stage is selected, in the order of their steps: of those as
    good as the best (`margin`) the first, or the last where the learning rate falls to 0, as such a
    schedule is worth what its end is.

    >>> parts = 0.001 * np.eye(5)
    >>> [chosen((0.7, 0.8, 0.8005, 0.8002, 0.79), parts, falling) for falling in (False, True)]
    [1, 3]
    """
    best = int(np.argmax(scores))
    near = [i for i, s in enumerate(scores) if scores[best] - s <= margin(parts[i], parts[best])]
    return near[-1] if falling else near[0]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage that began."""

    name: str
    sizes: list[int]
    """Of its codebooks."""
    books: dict[str, Any]
    """codebook.json, or empty."""
    curve: list[dict[str, float]]
    """One row per step: step, loss, accuracy_1, ..., nodes, seconds, waiting."""
    elbow: list[dict[str, float]]
    """One row per size: codes, used, perplexity, sse, inertia, vectors."""
    checkpoints: list[dict[str, Any]]
    """Encoders that were kept: step, score, layers (block, entropy, intra, inter), encoder
    (digest), seconds.
    """
    falling: bool = False
    """Whether its learning rate falls to 0."""

    @property
    def best(self) -> float:
        """The highest score of a kept encoder."""
        return max((float(kept["score"]) for kept in self.checkpoints), default=0.0)

    @property
    def margins(self) -> list[float]:
        """Of each kept encoder: how far below the best it may be."""
        top = max(self.checkpoints, key=lambda kept: float(kept["score"]), default={})
        return [margin(kept["parts"], top["parts"]) for kept in self.checkpoints]

    @property
    def selected(self) -> dict[str, Any] | None:
        """The encoder that is `chosen`; None before one is kept."""
        if not self.checkpoints:
            return None
        scores = [float(kept["score"]) for kept in self.checkpoints]
        parts = [kept["parts"] for kept in self.checkpoints]
        return self.checkpoints[chosen(scores, parts, self.falling)]


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """What there is of a pre-training."""

    recipe: dict[str, Any]
    finished: dict[str, Any]
    """pretraining.json: stages, phases, development, made_with; empty before both stages are
    finished.
    """
    stages: list[Stage]
    corpora: dict[str, Any]
    """Digests and counts of its recordings."""
    open: str
    """A sentence where it is not finished, else empty."""

    @property
    def compared_on(self) -> str:
        """In words: the recordings that encoders are compared on."""
        return compared_on(self.recipe["task"], self.recipe.get("apart"))

    @property
    def star(self) -> str:
        """In words: which encoder is selected."""
        which = "latest" if any(stage.falling for stage in self.stages) else "earliest"
        return f"t*: the {which} kept encoder within {NEAR} of the best"

    @property
    def phases(self) -> list[dict[str, Any]]:
        """One row per phase: what it took, here and in the paper."""
        return list(self.finished.get("phases", []))

    @property
    def data(self) -> str:
        """Its datasets, in words."""
        return ", ".join(
            f"{name} (synthetic)" if name == "demo" else name for name in self.recipe["datasets"]
        )

    @property
    def warning(self) -> str:
        """A sentence where its recordings are synthetic, else empty."""
        return SYNTHETIC if "demo" in self.recipe["datasets"] else ""


def read_file(path: Path, parse: Callable[[str], Any] = _facts) -> Any:
    """A file of a pre-training, by default one of JSON; {} where there is none, BadWeights where it
    is damaged.
    """
    try:
        return parse(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadWeights(
            f"{path} cannot be read; remove its folder and run the same command again, or choose "
            f"another folder"
        ) from error


def read(folder: Path) -> Pretraining:
    """A pre-training. MissingData: nothing is there yet; BadWeights: a damaged file."""
    finished, claimed = read_file(folder / REPORT), read_file(folder / RECIPE)
    recipe = finished.get("recipe") or claimed.get("recipe")
    stages = (
        [_stage(folder / f"stage{number}", recipe, number) for number in (1, 2)] if recipe else []
    )
    stages = [stage for stage in stages if stage.curve or stage.elbow or stage.checkpoints]
    if not stages:
        raise MissingData(
            f"nothing of a pre-training in {folder} yet; run: ecgbench pretrain NAME "
            f"--out {quoted(folder)}"
        )
    return Pretraining(
        recipe=recipe,
        finished=finished,
        stages=stages,
        corpora=finished.get("data") or claimed,
        open=_open(stages, finished),
    )


def _open(stages: list[Stage], finished: dict[str, Any]) -> str:
    steps = {stage.name: len(stage.curve) for stage in stages}
    if finished and steps.items() <= {n: s["steps"] for n, s in finished["stages"].items()}.items():
        return ""
    so_far = ", ".join(f"{count:,} in {name}" for name, count in steps.items())
    rest = " and makes encoder and times anew" if finished else ""
    return f"Steps so far: {so_far}. The same command goes on{rest}."


def _stage(folder: Path, recipe: dict[str, Any], number: int) -> Stage:
    settings = recipe["stages"][number - 1]
    last, every = settings["steps"], settings["probe_every"]
    encoders = sorted(
        (read_file(path) for path in folder.glob("encoders/*.json")),
        key=lambda kept: kept["step"],
    )
    return Stage(
        name=f"stage {number}",
        sizes=recipe[("codes", "refined")[number - 1]],
        books=read_file(folder / "codebook.json"),
        curve=read_file(folder / "curve.csv", _rows) or [],
        elbow=read_file(folder / "elbow.csv", _rows) or [],
        checkpoints=[  # as `Stage.probed` of ecgbench.pretrain says
            kept
            for kept in encoders
            if kept["step"] == last or (kept["step"] < last and kept["step"] % every == 0)
        ],
        falling=settings.get("decay", "none") != "none",
    )


def _rows(text: str) -> list[dict[str, float]]:
    """Rows of a table of numbers; a last line that is not whole is left out."""
    head, *rows = [row.split(",") for row in text[: text.rfind("\n") + 1].splitlines()] or [[]]
    numbers = [[int(word) if word.isdigit() else float(word) for word in row] for row in rows]
    return [dict(zip(head, row, strict=True)) for row in numbers]
