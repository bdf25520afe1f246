"""Which device a run computes on, found out without torch, which takes a second to import and is needed by the workers only."""

import shutil
import subprocess

from ecgbench.errors import BadSetting


def choose(asked: str) -> str:
    """`auto` becomes "cuda" where an NVIDIA GPU answers, else "cpu"; BadSetting for words that name no device."""
    kind, colon, number = asked.partition(":")
    if asked == "auto":
        return "cuda" if gpus() else "cpu"
    if asked == "cpu" or (kind == "cuda" and (number.isdigit() or not colon)):
        return asked
    raise BadSetting(f"--device {asked}: auto, cpu, cuda or cuda:N")


def gpus() -> list[str]:
    """Names of the NVIDIA GPUs that the driver shows."""
    if not shutil.which("nvidia-smi"):
        return []
    try:
        words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        told = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in told.stdout.splitlines() if line.strip()]
