"""A worker process, as the run that started it sees it: jobs go in, events come out, and what the
models print goes to a log.
"""

import contextlib
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from ecgbench.core.registry import folder_name
from ecgbench.core.text import shortened
from ecgbench.processes import SAY_WHERE, end_group, ended_in_words, python
from ecgbench.study.events import (
    BadEvent,
    Died,
    Disqualified,
    Event,
    Failed,
    Lines,
    Over,
    Stage,
    Started,
    Stopped,
)
from ecgbench.study.job import Job

HEAD, TAIL = 1 << 20, 1 << 16
"""Bytes of a model's output that its log keeps: of the beginning and of the end."""
START = 120.0
"""Seconds that a new process may take to import what every job needs, before patience with the
model begins.
"""
POLL = 0.25
"""Seconds between two checks whether a silent process still lives."""
GARBAGE = "its process was ended: the model wrote into the pipe of its events"


class WorkerProcess:
    """One worker, which carries out one job at a time."""

    def __init__(self, log: Path, patience: float) -> None:
        self.log, self.patience = log, patience
        self.job: Job | None = None
        """The job in flight."""
        self._pipe, write_end = os.pipe()
        self._process = subprocess.Popen(
            command(write_end),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(write_end,),
            bufsize=0,
            start_new_session=True,
        )
        os.close(write_end)
        assert self._process.stdout is not None
        self._drain = threading.Thread(target=_drain, args=(self._process.stdout, log), daemon=True)
        self._drain.start()
        self._lines, self._loaded, self._closed, self._last_event = Lines(), False, False, 0.0
        self._doing = ""
        """The stretch of work that began last."""

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def fileno(self) -> int:
        """Readable when events wait, for `select`."""
        return self._pipe

    def submit(self, job: Job) -> None:
        """Give it a job; it must have none."""
        assert self._process.stdin is not None
        self.job, self._last_event, self._doing = job, time.monotonic(), ""
        with contextlib.suppress(BrokenPipeError):  # it died between two jobs: `events` finds out
            self._process.stdin.write((json.dumps(job.to_json()) + "\n").encode())

    def events(self, timeout: float) -> Iterator[Event]:
        """Events of the job in flight; waits for the first. After Over, Stopped or Died there is no
        job; after Died the process is gone.
        """
        if self.job is None:
            return
        until = time.monotonic() + timeout
        while True:
            data = self._data(min(POLL, max(0.0, until - time.monotonic())))
            try:
                for event in self._lines.feed(data):
                    yield self._checked(event)
                    if self.job is None:
                        return
            except BadEvent:
                yield self._died(GARBAGE)
                return
            if data:
                return
            if reason := self._why_lost():
                yield self._died(reason)
                return
            if time.monotonic() >= until:
                return

    def _data(self, seconds: float) -> bytes:
        if not self._readable(seconds):
            return b""
        data = os.read(self._pipe, 1 << 16)
        self._closed = not data  # an end is readable for ever
        if self._closed and self.alive:
            # it closed its end: it is about to exit, or it stays silent until patience ends
            time.sleep(POLL)
        return data

    def _readable(self, seconds: float) -> bool:
        return bool(select.select([self._pipe], [], [], seconds)[0])

    def _checked(self, event: Event) -> Event:
        """An event of the job in flight; BadEvent for one of another job and for those that only an
        engine may send.
        """
        if self.job is None or event.job != self.job.id or isinstance(event, Died):
            raise BadEvent(f"{event} is not of the job in flight")
        self._last_event = time.monotonic()
        self._loaded |= isinstance(event, Started)
        if isinstance(event, Stage):
            self._doing = f" ({shortened(event.text, 100)})"
        if isinstance(event, Over | Stopped):
            self.job = None
        if isinstance(event, Failed | Disqualified):
            return replace(event, log=self.printed())
        return event

    def _why_lost(self) -> str:
        """Why no further event will come, or ""."""
        patience = self.patience if self._loaded else max(self.patience, START)
        if time.monotonic() - self._last_event > patience:
            self._let_it_say_where()
            doing = f"{self.patience:g} s{self._doing}"
            return f"no progress for {doing}, so it was ended (--cell-timeout)"
        if not self.alive and (self._closed or not self._readable(0)):
            return ended_in_words(self._process.returncode)
        return ""

    def _let_it_say_where(self) -> None:
        """Where each of its threads stands goes into its log."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, SAY_WHERE)
            time.sleep(POLL)

    def _died(self, reason: str) -> Died:
        assert self.job is not None
        job = self.job.id
        self.end()
        return Died(job, reason, self.printed())

    def printed(self) -> str:
        """The file with what a model wrote to standard output and error; "" where it wrote nothing.

        Output of a living process may still be on its way to the file, so it waits up to a second.
        """
        started = time.monotonic()
        while self.alive and not self.log.exists() and time.monotonic() - started < 1:
            time.sleep(0.01)
        return str(self.log) if self.log.exists() else ""

    def end(self) -> None:
        """End the process and all it started, however they are; its log is complete afterwards."""
        assert self._process.stdin is not None
        self.job = None
        if self._pipe < 0:  # by now its number may be another process's
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        end_group(self._process)
        self._drain.join(timeout=5)  # one that left the group may hold the pipe open
        os.close(self._pipe)
        self._pipe = -1


def command(pipe: int) -> list[str]:
    """What starts a worker that writes its events to this file descriptor."""
    return python("ecgbench.study.worker", str(pipe))


def log_file(folder: Path, name: str) -> Path:
    """The file with the output of the models that run under a name."""
    return folder / f"{folder_name(name)}.log"


def _drain(source: IO[bytes], log: Path) -> None:
    """Write the beginning and the end of a process's output to its log; a log that cannot be
    written is no reason to stop.

    A log that earlier processes have filled takes the ends of this one's only.
    """
    seen, tail, room = 0, b"", HEAD
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
            tail = (tail + late)[-TAIL:]
        with contextlib.suppress(OSError):
            if file is not None and tail:
                file.write(f"\n... {seen - room - len(tail)} bytes left out ...\n".encode() + tail)
    source.close()
