"""What the commands of Slurm say of its jobs."""

import shutil
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting

PATIENCE = 120.0
"""Seconds that a command of Slurm may take: a controller of a large cluster is slow at times."""
RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "CONFIGURING", "STAGE_OUT")
"""States of a job that has begun and not ended."""
ASLEEP = ("SUSPENDED", "STOPPED")
"""Those in which its processes live and do nothing."""
_FORGOTTEN = "Invalid job id"
"""What squeue says of a job that ended a while ago."""


class Silent(Exception):
    """Slurm does not say how its jobs are."""


class Queued(NamedTuple):
    """A job, or a task of an array."""

    name: str
    """<array>_<index>; <job>_N/A of one that is no array."""
    state: str
    why: str
    """Why it waits; "None" where it does not."""


def queued(job: str) -> Iterator[Queued]:
    """What squeue says of a job or of every task of an array, some that have ended too; nothing of
    those that it knows no more. Silent where it gives no answer.
    """
    words = ["--noheader", "--array", "--states=all", "--format=%F_%K|%T|%r"]
    try:
        told = said(["squeue", f"--jobs={job}", *words])
    except BadSetting as error:
        if _FORGOTTEN in str(error):
            return
        raise Silent(str(error)) from error
    for line in told.splitlines():
        name, _, rest = line.strip().partition("|")
        state, _, why = rest.partition("|")
        yield Queued(name, state, why)


def there(program: str = "squeue") -> bool:
    """Whether this machine has a command of Slurm."""
    return shutil.which(program) is not None


def said(command: list[str]) -> str:
    """What a command of Slurm prints; BadSetting with its own words where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise BadSetting(f"{command[0]} gave no answer within {PATIENCE:g} s") from None
    except OSError as error:
        raise BadSetting(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise BadSetting(f"{command[0]}: {shortened(done.stderr.strip(), 300)}")
    return done.stdout
