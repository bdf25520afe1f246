"""Child processes that answer in one line of JSON, whatever the code they run does: prints, hangs,
aborts or fills the memory.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from ecgbench.core.text import shortened

GRACE = 5
"""Seconds that a child may outlive the patience of its parent, before its own alarm ends it."""
SAY_WHERE = signal.SIGUSR1
"""Asks a worker that stands still where its threads are; its guard takes no notice."""
_GUARDED = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "runpy.run_module('ecgbench.guard', run_name='__main__', alter_sys=True)"
)
"""Program of a process under a guard; its first word is where it imports from."""
LONGEST = 300
"""Characters of an error's message that are kept."""


class DiedError(Exception):
    """A child process ended, or was killed, before its answer."""


class LateError(DiedError):
    """It was killed, as its answer did not come in time."""


def ask(module: str, arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """What `python -m MODULE SECONDS *WORDS` answers with `answer`.

    The child, and all that it started, is killed after its answer or after `seconds`.
    DiedError: there is no answer, and why; LateError: it did not come in time.
    """
    process = start(module, arguments, seconds)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise LateError(f"no answer within {seconds:g} s, so it was killed") from None
    finally:
        end_group(process)
    try:
        return dict(json.loads(output.splitlines()[-1]))
    except (ValueError, IndexError):
        raise DiedError(ended_in_words(process.returncode)) from None


def python(module: str, *words: str) -> list[str]:
    """The command `python -m MODULE *WORDS`, under a guard that ends what it started: to be started
    in a session of its own, and ended by `end_group`.

    It imports from where this process does: another ecgbench in the folder that one stands in, or a
    file there that is called as a library is, would be taken otherwise.
    """
    places = json.dumps([os.path.abspath(place) for place in sys.path])
    return [sys.executable, "-P", "-c", _GUARDED, places, module, *words]


def start(module: str, arguments: Sequence[str], seconds: float) -> "subprocess.Popen[str]":
    """`python -m MODULE SECONDS *WORDS`, which `answer`s and ends after `seconds` at the latest, in
    a session of its own.
    """
    return subprocess.Popen(
        python(module, str(int(seconds) + GRACE), *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )


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


def answer(work: Callable[[list[str]], dict[str, Any]]) -> NoReturn:
    """In the child: print the result of `work(words)`, or `error` (its type) and `reason` of what
    it raises, and end.

    Standard output and error are taken away from everything else.
    """
    seconds, *arguments = sys.argv[1:]
    # not a handler: it ends a loop in C too, and a child that nobody waits for
    signal.alarm(int(seconds))
    goes_first()
    answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        result = work(arguments)
    except BaseException as error:  # a model may raise anything
        result = {"error": type(error).__name__, "reason": shortened(str(error), LONGEST)}
    os.write(answers, (json.dumps(result) + "\n").encode())
    os._exit(0)  # threads and exit handlers of the model are not waited for


def goes_first() -> None:
    """Where memory runs out, this process is killed before others (Linux)."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def ended_in_words(code: int) -> str:
    """An exit code, negative for a signal.

    >>> ended_in_words(-6), ended_in_words(3)
    ('its process was killed by SIGABRT', 'its process ended with exit code 3')
    """
    if code >= 0:
        return f"its process ended with exit code {code}"
    known = {s.value: s.name for s in signal.Signals}
    memory = " (memory may have run out)" if code == -signal.SIGKILL else ""
    return f"its process was killed by {known.get(-code, f'signal {-code}')}{memory}"
