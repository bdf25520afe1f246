"""How a file of weights is read, by the end of its name."""

import json
from pathlib import Path
from typing import Any

from ecgbench.errors import BadSetting, BadWeights

SAFE = (".safetensors",)
TORCH = (".pth", ".pt", ".ckpt", ".bin")
INDEX = ".index.json"
"""Ending of the file that says which of several files holds each tensor."""


def ending(path: Path) -> str:
    """What says how a file is read, of whatever case: ".pth" of `best.PTH.tar`."""
    name = path.name.lower().removesuffix(".tar")
    return next((e for e in (*SAFE, *TORCH, ".zip", INDEX) if name.endswith(e)), "")


def places(index: Path) -> dict[str, Path]:
    """The file of each tensor that an index names; BadWeights where it is no index of files beside
    it.
    """
    try:
        content: Any = json.loads(index.read_text(encoding="utf-8"))
        files = {str(n): index.with_name(f) for n, f in content["weight_map"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadWeights(
            f"{index} names no files of weights beside it ({type(error).__name__}); get it again"
        ) from None
    if wrong := [f.name for f in files.values() if ending(f) not in SAFE + TORCH]:
        raise BadWeights(f"{index} names {wrong[0]!r}, which is no file of weights; get it again")
    return files


def demand_ending(path: Path, setting: str, archive: bool) -> None:
    """BadSetting, which repeats the setting, where the name of a file does not say how it is
    read.
    """
    known = (*SAFE, *TORCH, INDEX, *((".zip",) if archive else ()))
    if ending(path) not in known:
        raise BadSetting(
            f"{setting}: the name of the file must end in {', '.join(known)}, which says how it is "
            f"read"
        )
