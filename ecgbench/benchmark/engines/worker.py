"""The process that `isolated` starts: commands come in as lines of JSON, events go out the same way.

`python -m ecgbench.benchmark.engines.worker FD`: FD is where events go. Standard output and error are the model's own to write to and
end in its log. The process ends at once when its standard input closes: it does not outlive the run that started it.
"""

import contextlib
import ctypes
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
import traceback
from typing import Any

from ecgbench.errors import EcgbenchError

Event = dict[str, Any]
_PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""


def main() -> None:
    """Carry out commands until standard input ends."""
    faulthandler.enable()  # an abort leaves its trace in the log
    _bind_to_the_run()
    os.set_inheritable(events := int(sys.argv[1]), False)
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(os.dup(0), commands), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a model that asks its standard input finds nothing there
    from ecgbench.benchmark import work  # noqa: F401  (seconds of imports, during which the run may die already)

    with os.fdopen(events, "w", buffering=1, encoding="utf-8") as out:
        pipe = os.fstat(events)

        def tell(event: Event) -> None:
            if not os.path.samestat(pipe, os.fstat(events)):  # the model closed it, and the number is another file's by now
                raise OSError("the pipe of events was closed")
            if event.get("trace"):
                with contextlib.suppress(OSError, ValueError):  # closed by the model
                    print(event["trace"], file=sys.stderr, flush=True)  # into the log
            out.write(json.dumps(event) + "\n")

        tell({"kind": "ready"})
        while True:
            command = commands.get()
            try:
                tell({"kind": "over", "answer": _carry_out(command, tell)})
            except EcgbenchError as error:
                tell({"kind": "stopped", "error": type(error).__name__, "reason": str(error)})
            except BaseException:  # the end of the interpreter would wait for the thread that listens
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(70)


def _carry_out(command: dict[str, Any], tell: Any) -> Event | None:
    from ecgbench.benchmark.job import Job
    from ecgbench.benchmark.work import enter, look, work
    from ecgbench.estimate.probe import measure

    if "look" in command:
        enter(command["doors"])
        return look(command["look"], command["weights"], command["contract"])
    if "measure" in command:
        job = Job.from_json(command["measure"])
        enter(job.doors)
        return measure(job)
    work(Job.from_json(command["job"]), tell)
    return None


def _listen(source: int, commands: "queue.SimpleQueue[dict[str, Any]]") -> None:
    with os.fdopen(source, encoding="utf-8") as lines:
        for line in lines:
            commands.put(json.loads(line))
    os._exit(0)


def _bind_to_the_run() -> None:
    """It dies with the run even when it is stuck, leaves an interrupt to the run, and goes first where memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):  # Linux only; elsewhere the end of standard input must do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")


if __name__ == "__main__":
    main()
