"""How a file of weights is read, by the end of its name."""

from pathlib import Path

from ecgbench.errors import BadSetting

SAFE = (".safetensors",)
TORCH = (".pth", ".pt", ".ckpt", ".bin")
INDEX = ".index.json"
"""Ending of the file that says which of several files holds each tensor."""


def ending(path: Path) -> str:
    """What says how a file is read, of whatever case: ".pth" of `best.PTH.tar`."""
    name = path.name.lower().removesuffix(".tar")
    return next((e for e in (*SAFE, *TORCH, ".zip", INDEX) if name.endswith(e)), "")


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
