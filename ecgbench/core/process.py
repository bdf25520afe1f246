"""A module in a separate process, which may hang, abort or fill the memory. It answers with one
line of JSON.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import parent_process
from typing import Any, NoReturn

from ecgbench.core.text import shortened
from ecgbench.errors import EcgbenchError

GRACE = 5
"""Seconds that a child may outlive its parent's timeout before its own alarm ends it."""
LOADING = 60
"""Seconds that a plug-in's import may take."""
LONGEST = 300
"""Longest message of an error, in characters; errors of this package are kept in full."""


_serving = threading.Event()


def serves_jobs() -> None:
    """Say that this process carries out jobs of a command."""
    _serving.set()


def is_command() -> bool:
    """Whether this is the process of a command, and none of those that it started."""
    return parent_process() is None and not _serving.is_set()


class DiedError(Exception):
    """A child process ended, or was killed, before its answer."""


def ask(module: str, arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """The answer of `python -m MODULE SECONDS *WORDS`, which uses this process's import path and is
    killed after `seconds`. DiedError gives the reason for a missing answer.
    """
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", module, str(int(seconds) + GRACE), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": path},
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        raise DiedError(f"no answer within {seconds:g} s, so it was killed") from None
    except (ValueError, IndexError):
        raise DiedError(ended_in_words(done.returncode)) from None


def answer(work: Callable[[list[str]], dict[str, Any]]) -> NoReturn:
    """In the child: print the result of `work(words)`, or `error` (its type) and `reason`, and end.

    Other output is discarded.
    """
    seconds, *arguments = sys.argv[1:]
    # not a handler: it ends a loop in C too, and a child that nobody waits for
    signal.alarm(int(seconds))
    answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        result = work(arguments)
    except BaseException as error:  # a model may raise anything
        own = isinstance(error, EcgbenchError)
        reason = str(error) if own else shortened(str(error), LONGEST)
        result = {"error": type(error).__name__, "reason": reason}
    os.write(answers, (json.dumps(result) + "\n").encode())
    os._exit(0)  # threads and exit handlers of the model are not waited for


def ends(work: Callable[[], object]) -> str:
    """How a copy of this process that does this work ends before it is done, or within LOADING, in
    words; "" where it does neither, whatever it raises. Nothing is tried where processes cannot be
    copied.
    """
    if sys.platform != "linux":
        return ""
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            faulthandler.disable()
            signal.alarm(LOADING)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            work()
        os.write(ours, b".")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(ours, b"!")  # something to read, whatever it left behind
    done = os.read(theirs, 1) == b"."
    os.close(ours)
    os.close(theirs)
    if code == -signal.SIGALRM:
        return f"it was not done within {LOADING} s"
    return "" if done else ended_in_words(code)


def ended_in_words(code: int) -> str:
    """An exit code in words, negative for a signal.

    >>> ended_in_words(-6), ended_in_words(3)
    ('its process was killed by SIGABRT', 'its process ended with exit code 3')
    """
    if code >= 0:
        by_itself = ", by a call such as os._exit" if code == 0 else ""
        return f"its process ended with exit code {code}{by_itself}"
    known = {s.value: s.name for s in signal.Signals}
    memory = " (memory may have run out)" if code == -signal.SIGKILL else ""
    return f"its process was killed by {known.get(-code, f'signal {-code}')}{memory}"
