"""Child processes that answer in one line of JSON, whatever the code they run does: prints, hangs,
aborts or fills the memory.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from ecgbench.core.process import (
    DiedError as DiedError,
)
from ecgbench.core.process import (
    answer as answer,
)
from ecgbench.core.process import (
    ask as ask,
)
from ecgbench.core.process import (
    ended_in_words as ended_in_words,
)

GRACE = 5
"""Seconds that a child may outlive the patience of its parent, before its own alarm ends it."""
SAY_WHERE = signal.SIGUSR1
"""Asks a worker that stands still where its threads are; its guard takes no notice."""
_GUARDED = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "runpy.run_module('ecgbench.guard', run_name='__main__', alter_sys=True)"
)
"""Program of a process under a guard; its first word is where it imports from."""


def python(module: str, *words: str) -> list[str]:
    """The command `python -m MODULE *WORDS`, under a guard that ends what it started: to be started
    in a session of its own, and ended by `end_group`.

    It imports from where this process does: another ecgbench in the folder that one stands in, or a
    file there that is called as a library is, would be taken otherwise.
    """
    places = json.dumps([os.path.abspath(place) for place in sys.path])
    return [sys.executable, "-P", "-c", _GUARDED, places, module, *words]


def end_group(process: "subprocess.Popen[Any]") -> None:
    """Kill a process that leads a session of its own, and whatever it started, by its guard
    (`python`) and where it has none, or that is stopped, in its group; returns when it is gone.
    """
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(2 * GRACE)
    with suppress(ProcessLookupError, PermissionError):  # the latter of macOS: all are dead
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def goes_first() -> None:
    """Where memory runs out, this process is killed before others (Linux)."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
