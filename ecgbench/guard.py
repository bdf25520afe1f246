"""Runs a module in a process below its own and, however that one ends, ends all that it started:
children, their children, and those that went into a session of their own.

`python -m ecgbench.guard MODULE *WORDS` is `python -m MODULE *WORDS` with that (`processes.python`
starts it). It imports no code
of the module, so it is there when the module hangs, aborts, or is killed for its memory, and when
whoever asked for it is killed. On Linux nothing can leave it (it is the subreaper, see prctl(2));
elsewhere what stays in its process group is ended by whoever asked.
"""

import ctypes
import os
import resource
import runpy
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_PDEATHSIG, _SUBREAPER = 1, 36
"""PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER of linux/prctl.h."""
PATIENCE = 5.0
"""Seconds that a process may take to die once it was killed."""


class _Over(BaseException):
    """Whoever asked wants no more, or is dead."""


def main() -> None:
    """Guard the module that the command line names; in the process below, be it."""
    module, *words = sys.argv[1:]
    _prctl(_SUBREAPER, 1)
    guard = os.getpid()
    below = os.fork()
    if below:
        _watch(below)
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:  # it died before
        os._exit(1)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch(below: int) -> NoReturn:
    """Wait for the end of a process, end what it has left, and end as it did."""
    status = int(signal.SIGKILL)  # as waitpid tells it
    try:
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # meant for the process below
        _prctl(_PDEATHSIG, signal.SIGTERM)
        # a pipe is at its end when all have closed it
        nowhere = os.open(os.devnull, os.O_RDWR)
        for handle in range(3):
            os.dup2(nowhere, handle)
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        ended = 0
        while ended != below:
            ended, status = os.waitpid(-1, 0)
    except _Over:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_all()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the other one has left its own
        with suppress(OSError):  # of SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _Over


def _end_all() -> None:
    """Kill every process below this one. Those whose parent has died are its children (Linux)."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for child in _children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                # the name of a program, in brackets, may hold anything
                parent = int(file.read().rpartition(b")")[2].split()[1])
            if parent == os.getpid():
                yield int(name)


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere nothing."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value)


if __name__ == "__main__":
    main()
