"""Protocol `finetune-modern`: the whole network is trained by the recipe of timm: rates that fall
from layer to layer, a warm-up, a cosine, and an average of the weights.

Source: timm (Wightman, doi:10.5281/zenodo.4414861), whose functions do it. A layer's rate is
`layer_decay` times that of the layer above it (`param_groups_layer_decay`; vectors have no weight
decay). All rates rise linearly in the first `warmup` of the steps and fall to 0 as half a cosine
(`CosineLRScheduler`, anew at each step). What is validated and kept are the averaged weights
(`ModelEmaV3`, decay `ema`, less in the first steps). The rest is that of `finetune`.

The layers are those of the network's `group_matcher`, as most networks of timm have one. timm
guesses where there is none, or leaves all rates equal without a word; here the groups early and
late of the card are two layers, and a network with one layer is refused.
"""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ecgbench.cards.cell import Fit
from ecgbench.errors import BadSetting
from ecgbench.evaluate.protocols import Trained, finetune, linear
from ecgbench.evaluate.rows import Needed

if TYPE_CHECKING:
    from ecgbench.evaluate.evaluation import Evaluation

SETTINGS = (*linear.SETTINGS, "precision", "micro_batch", "layer_decay", "warmup", "ema")
frozen = False
SAME_LEADS = True
needs = finetune.needs


def facts() -> dict[str, str]:
    """The version of timm: another one may train otherwise. BadSetting where there is none."""
    try:
        return {"timm": version("timm")}
    except PackageNotFoundError:
        raise BadSetting(
            "--protocol finetune-modern needs the package timm; run: pip install "
            "'ecgbench-leads[timm]'"
        ) from None


def fit(evaluation: "Evaluation", fit: Fit, needed: Needed, checkpoint: Path) -> Trained:
    """Fine-tune a copy of the network."""
    from ecgbench.evaluate.tuning_modern import Modern

    return finetune.fit(evaluation, fit, needed, checkpoint, Modern)
