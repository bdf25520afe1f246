"""Jobs in a process of their own: an abort, an endless loop or a full memory costs the model's cells only.

The models of this package share a process, one after the other; a stranger has one that no other model sees.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO

from ecgbench import errors, models
from ecgbench.benchmark.job import Event, Job, Tell

HEAD, TAIL = 1 << 20, 1 << 16
"""Bytes of a model's output that its log keeps: of the beginning and of the end."""
LINE = 1 << 24
"""Bytes after which an event that has not ended is none."""
START = 120.0
"""Seconds that a new process may take to import what every job needs, before patience with the model begins."""
POLL = 0.25
"""Seconds between two looks at whether a silent process still lives."""
GARBAGE = "its process was ended, for the model wrote into the pipe of its events"


class DiedError(Exception):
    """The process of a job ended, or made no progress, before the job was over."""


class Isolated:
    """Carries jobs out in a worker process, which is kept until a job needs another."""

    def __init__(self, out: Path, patience: float) -> None:
        self.logs, self.patience = out / "logs", patience
        self._house, self._worker = "", None  # type: str, _Worker | None

    def __enter__(self) -> "Isolated":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def look(self, model: str, doors: tuple[tuple[str, str], ...], weights: str | None, contract: str) -> Event:
        """The answer of `work.look`; a model whose import ends or hangs the process has no policy to tell."""
        try:
            return self._ask(model, {"look": model, "doors": doors, "weights": weights, "contract": contract}, lambda event: None) or {}
        except DiedError:
            return {"policy": None}

    def measure(self, job: Job) -> Event:
        """The answer of `probe.measure`; {"failed": reason} where the model fails or ends its process."""
        try:
            return self._ask(job.model, {"measure": job.to_json()}, lambda event: None) or {}
        except DiedError as error:
            return {"failed": str(error)}

    def run(self, job: Job, tell: Tell) -> None:
        """Compute a job; its events go to `tell`. DiedError: see there; EcgbenchError: what stops the run."""
        self._ask(job.model, {"job": job.to_json()}, tell)

    def log(self, job: Job) -> str:
        """The file with what a model wrote to standard output and error; "" where it wrote nothing.

        What a living process has said already may still be on its way to the file, so that is waited for a second.
        """
        path, asked = self._path(_house(job.model)), time.monotonic()
        while self._worker is not None and not path.exists() and time.monotonic() - asked < 1:
            time.sleep(0.01)
        return str(path) if path.exists() else ""

    def _path(self, house: str) -> Path:
        return self.logs / (re.sub(r"[^\w.+-]", "_", house)[:100] + ".log")

    def _ask(self, model: str, command: Event, tell: Tell) -> Event | None:
        house = _house(model)
        if self._worker is None or self._house != house or not self._worker.alive:
            self._end()
            self._house, self._worker = house, _Worker(self._path(house))
        try:
            return self._worker.ask(command, tell, self.patience)
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def _house(model: str) -> str:
    return "ecgbench" if models.ROOM.built_in(model) else model


class _Worker:
    """One process, its events and its log."""

    def __init__(self, log: Path) -> None:
        self._events, theirs = os.pipe()
        words = [sys.executable, "-m", "ecgbench.benchmark.engines.worker", str(theirs)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(theirs,), bufsize=0
        )
        os.close(theirs)
        assert self._process.stdout is not None
        self._drain = threading.Thread(target=_drain, args=(self._process.stdout, log), daemon=True)
        self._drain.start()
        self._rest, self._ready, self._ended = b"", False, False

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(self, command: Event, tell: Tell, patience: float) -> Event | None:
        """Send a command, hand on its events, return its answer. DiedError and EcgbenchError: see `Isolated.run`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died between two jobs: the next lines find out
            self._process.stdin.write((json.dumps(command) + "\n").encode())
        heard = time.monotonic()
        while True:
            lines = self._lines()
            for line in lines:
                event = _event(line)
                if event["kind"] == "ready":
                    self._ready = True
                    continue
                if event["kind"] == "over":
                    answer: Event | None = event["answer"]
                    return answer
                if event["kind"] == "stopped":
                    raise errors.named(event["error"], event["reason"])
                tell(event)
            if lines:
                heard = time.monotonic()
            elif time.monotonic() - heard > (patience if self._ready else max(patience, START)):
                raise DiedError(f"no progress for {patience:g} s, so it was ended (--cell-timeout)")
            elif self._process.poll() is not None and (self._ended or not self._readable(0)):
                raise DiedError(_end_of(self._process.returncode))

    def _readable(self, seconds: float) -> bool:
        return bool(select.select([self._events], [], [], seconds)[0])

    def _lines(self) -> list[bytes]:
        """Whole lines that came in; waits a little for the first."""
        if not self._readable(POLL):
            return []
        data = os.read(self._events, 1 << 16)
        self._ended = not data  # an end is readable for ever
        if self._ended and self._process.poll() is None:
            time.sleep(POLL)  # it closed its end and is about to go, or lives on without a voice until patience ends
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE:
            raise DiedError(GARBAGE)
        return whole

    def end(self) -> None:
        """End the process, however it is; its log is complete afterwards."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._drain.join(timeout=5)  # a grandchild may hold the pipe open
        os.close(self._events)


def _event(line: bytes) -> Event:
    """A line of the pipe; DiedError where no worker wrote it.

    >>> _event(b'{"kind": "ready"}')
    {'kind': 'ready'}
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        raise DiedError(GARBAGE) from None
    if not isinstance(event, dict) or not isinstance(event.get("kind"), str):
        raise DiedError(GARBAGE)
    return event


def _end_of(code: int) -> str:
    """Exit code in words.

    >>> _end_of(-6), _end_of(3)
    ('its process was ended by SIGABRT', 'its process ended with exit code 3')
    """
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process was ended by {name}" + (" (memory may have run out)" if code == -signal.SIGKILL else "")


def _drain(source: IO[bytes], log: Path) -> None:
    """Write the beginning and the end of a process's output to its log; a log that cannot be written is no reason to stop.

    A log that earlier processes have filled takes the ends of this one's only.
    """
    seen, tail, held, room = 0, deque[bytes](), 0, HEAD
    with contextlib.suppress(OSError):
        room = max(TAIL, HEAD - log.stat().st_size)
    with contextlib.ExitStack() as stack:
        file: IO[bytes] | None = None
        while data := os.read(source.fileno(), 1 << 16):
            head, late = data[: max(0, room - seen)], data[max(0, room - seen) :]
            seen += len(data)
            with contextlib.suppress(OSError):
                if file is None:
                    log.parent.mkdir(parents=True, exist_ok=True)
                    file = stack.enter_context(log.open("ab", buffering=0))
                    file.write(f"== {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
                file.write(head)
            if late:
                tail.append(late)
                held += len(late)
                while held - len(tail[0]) >= TAIL:
                    held -= len(tail.popleft())
        with contextlib.suppress(OSError):
            if file is not None and tail:
                rest = b"".join(tail)[-TAIL:]
                file.write(f"\n... {seen - room - len(rest)} bytes left out ...\n".encode() + rest)
    source.close()
