"""The package timm, imported where its torchvision may be built for another torch.

timm imports torchvision. The registry's torchvision (0.28.0) holds a library for CUDA, which the
CPU build of torch 2.13.0 cannot load, and without it `import torchvision` fails: it describes two
operators, `nms` and `qnms`, that are not there. Declared here they exist without an implementation;
no network of this project calls them. Where torchvision imports by itself, nothing is declared.
"""

from functools import cache
from typing import Any

import torch

from ecgbench.errors import BadSetting

_OPERATORS = ("nms", "qnms")
_ARGUMENTS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@cache
def import_timm() -> Any:
    """The package timm, its optimisers and schedulers; BadSetting where one is not installed."""
    try:
        _import_torchvision()
        import timm.optim
        import timm.scheduler
    except ImportError as error:
        raise BadSetting(
            f"networks of timm need the packages timm and torchvision ({error}); run: pip install "
            f"'ecgbench-leads[timm]'"
        ) from None
    return timm


def _import_torchvision() -> None:
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in _OPERATORS:
            library.define(f"{name}{_ARGUMENTS}")
        _declared.append(library)
        import torchvision  # noqa: F401


_declared: list[torch.library.Library] = []
"""Operators live as long as the library that declares them."""
