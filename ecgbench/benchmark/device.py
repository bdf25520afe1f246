"""Which device a run computes on, without torch, which takes a second to import and is needed by
the workers only.
"""

import shutil
import subprocess

from ecgbench.errors import BadSetting


def choose(device: str) -> str:
    """`auto` becomes "cuda" where an NVIDIA GPU answers, else "cpu"; BadSetting for anything else,
    and for a GPU where there is none.
    """
    kind, colon, number = device.partition(":")
    if device == "auto":
        return "cuda" if gpus() else "cpu"
    if device == "cpu":
        return device
    if kind == "cuda" and (number.isdigit() or not colon):
        if not gpus() and not _torch_sees_one():
            raise BadSetting(
                f"--device {device}: no NVIDIA GPU answers on this machine, or torch is a build "
                f"without CUDA; leave --device out, or: --device cpu"
            )
        return device
    raise BadSetting(f"--device {device}: auto, cpu, cuda or cuda:N")


def _torch_sees_one() -> bool:
    """Where the driver's program is not installed; torch is imported in this case only."""
    import torch

    return torch.cuda.is_available()


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
