"""The device of a run, found without torch, which takes a second to import."""

import os
import shutil
import subprocess
from pathlib import Path

from ecgbench.errors import BadSetting


def choose(device: str) -> str:
    """`auto` becomes "cuda" where an NVIDIA GPU answers, else "cpu"; BadSetting for anything
    else.
    """
    kind, colon, number = device.partition(":")
    if device == "auto":
        return "cuda" if gpus() else "cpu"
    if device == "cpu" or (kind == "cuda" and (number.isdigit() or not colon)):
        return device
    raise BadSetting(f"--device {device}: auto, cpu, cuda or cuda:N")


def demand(device: str) -> None:
    """BadSetting for a GPU on a machine that has no NVIDIA driver."""
    driver = any(Path(p).exists() for p in ("/proc/driver/nvidia", "/dev/dxg"))
    if device.startswith("cuda") and not driver and not gpus():
        raise BadSetting(
            f"--device {device}: no NVIDIA GPU answers on this machine; leave --device out, or: "
            f"--device cpu"
        )


def gpus() -> list[str]:
    """Names of the NVIDIA GPUs that the driver shows."""
    if not shutil.which("nvidia-smi"):
        return []
    try:
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()]


def usable_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [card for card in named.split(",") if card.strip()]
    return [str(number) for number in range(len(gpus()))]
