"""A process that carries jobs out.

`python -m ecgbench.study.worker FD`: jobs come in as lines of JSON on standard input, events go
out to the file descriptor FD. The process ends at once when its standard input closes, and its
guard ends it with the run even when it is stuck: it does not outlive the run that started it.

`python -m ecgbench.study.worker JOB.json EVENTS.jsonl`: one job, its events appended to a file;
for machines that share a disk only. `ecgbench report` finds its results, although no run gave the
job.

The model may write to standard output and error.
"""

import contextlib
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from ecgbench.processes import SAY_WHERE, goes_first
from ecgbench.study.events import Disqualified, Event, Failed, Stopped, to_line


def main() -> None:
    """Carry out what the command line names."""
    faulthandler.enable()  # an abort leaves its trace in the log
    faulthandler.register(SAY_WHERE)  # so does a hang, in C too
    if len(sys.argv) == 3:
        with Path(sys.argv[2]).open("ab", buffering=0) as out:
            ended = _carry_out(json.loads(Path(sys.argv[1]).read_text()), out, alone=True)
        sys.exit(2 if isinstance(ended, Stopped) else 0)
    _bind_to_the_run()
    os.set_inheritable(pipe := int(sys.argv[1]), False)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(os.dup(0), jobs), daemon=True).start()
    # standard input is empty for a model that reads it
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with os.fdopen(pipe, "wb", buffering=0) as out:
        try:
            while True:
                _carry_out(jobs.get(), out)
        except BaseException:  # a normal exit would wait for the thread that listens
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(70)


def _carry_out(data: dict[str, Any], out: BinaryIO, alone: bool = False) -> Event:
    """Carry a job out and write its events; returns the last."""
    # seconds of imports; the run may die meanwhile
    from ecgbench.study.carry_out import carry_out
    from ecgbench.study.job import Job

    file, last = os.fstat(out.fileno()), Event("")

    def emit(event: Event) -> None:
        nonlocal last
        last = event
        # the model closed it, and its number now belongs to another file
        if not os.path.samestat(file, os.fstat(out.fileno())):
            raise OSError("the file of events was closed")
        if isinstance(event, Failed | Disqualified):
            with contextlib.suppress(OSError, ValueError):  # closed by the model
                print(event.trace, file=sys.stderr, flush=True)  # into the log
        _write(out, to_line(event))

    carry_out(Job.from_json(data), emit, alone)
    return last


def _write(out: BinaryIO, line: bytes) -> None:
    while line:
        line = line[out.write(line) :]


def _listen(source: int, jobs: "queue.SimpleQueue[dict[str, Any]]") -> None:
    with os.fdopen(source, encoding="utf-8") as lines:
        for line in lines:
            jobs.put(json.loads(line))
    os._exit(0)


def _bind_to_the_run() -> None:
    """The process ignores an interrupt, and is killed first where memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    goes_first()


if __name__ == "__main__":
    main()
