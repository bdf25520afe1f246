"""What Slurm says of its jobs."""

import re
import subprocess
from collections.abc import Iterable
from contextlib import suppress

ENDED = {
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"),
    *("DEADLINE", "REVOKED"),
}
UNKNOWN = "UNKNOWN", "squeue gives no answer"
TIMEOUT = 120.0
"""Seconds that a command of Slurm may take: a controller of a large cluster is slow at times."""
LARGEST = 1001
"""Slurm's own MaxArraySize, where a cluster does not say."""


def queued(ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """id -> (state, why it waits) of jobs that squeue knows and that have not ended long ago;
    UNKNOWN of all where it gives no answer.
    """
    ids = list(ids)
    arrays = ",".join(dict.fromkeys(name.partition("_")[0] for name in ids))
    try:
        done = _output("squeue", "-h", "-r", "--states=all", "-o", "%F_%K|%T|%r", "-j", arrays)
    except (OSError, subprocess.SubprocessError) as error:
        gone = "Invalid job id" in str(getattr(error, "stderr", ""))
        return {} if gone else dict.fromkeys(ids, UNKNOWN)
    rows = [line.strip().removesuffix("|None").split("|") for line in done.splitlines()]
    known = {row[0].removesuffix("_N/A"): (row[1], "".join(row[2:])) for row in rows}
    return {name: known[name] for name in ids if name in known}


def accounted(name: str) -> str:
    """The state of a job that squeue has forgotten; "" where the cluster keeps no accounts."""
    with suppress(OSError, subprocess.SubprocessError):
        return _output("sacct", "-n", "-X", "-P", "-o", "State", "-j", name).strip()
    return ""


def largest_array() -> int:
    """Jobs that one array may have."""
    with suppress(OSError, subprocess.SubprocessError):
        if found := re.search(r"MaxArraySize\s*=\s*(\d+)", _output("scontrol", "show", "config")):
            return max(1, int(found[1]))
    return LARGEST


def _output(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    return done.stdout
