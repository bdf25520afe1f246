"""Records read in several processes, in the order asked for.

Who reads a record, and which is ready first, changes nothing of what becomes of it. Some tens of
records for each process are under way at a time, whatever the size of the dataset.
"""

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import pandas as pd
import pyarrow as pa

from ecgbench.core.files import writing
from ecgbench.core.prefetch import prefetched
from ecgbench.data.reading import Outcome, look, outcome_of
from ecgbench.data.source import Source, rows
from ecgbench.datasets import ROOM
from ecgbench.errors import BadSetting, named
from ecgbench.processes import end_group, ended_in_words, python

BATCH = 32
"""Records that a process reads at a time."""
FEW = 400
"""Records below which further processes cost more than they save: a second each to begin."""
MOST = 8
"""Processes, unless more are asked for."""
ROWS = "rows.arrow"
"""The rows of the index that other processes read, while they do."""


def workers_for(records: int, wanted: int | None = None) -> int:
    """How many processes read so many records: as many as are wanted, else one for each core that
    may be used.
    """
    if wanted is not None:
        return wanted
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(MOST, cores or 1) if records >= FEW else 1


def outcomes(
    source: Source, table: pd.DataFrame, workers: int, folder: Path
) -> Generator[Outcome, None, None]:
    """What becomes of the records of some rows of the index, in their order. `folder`: where a file
    may lie meanwhile.

    BadSetting where the dataset's plug-in fails, or a process ends before its answer.
    """
    batches = _written(table, folder / ROWS) if workers > 1 else 0
    if not batches:
        yield from (look(source.name, source.root, row, source.fix) for row in rows(table))
        return
    free: SimpleQueue[_Process] = SimpleQueue()

    def ask(batch: int) -> list[Outcome]:
        process = free.get()
        try:
            return process.ask(batch)
        finally:
            free.put(process)

    processes: list[_Process] = []
    try:
        for _ in range(min(workers, batches)):
            processes.append(_Process(source, folder / ROWS))
            free.put(processes[-1])
        # twice as many: the next question waits where an answer is taken out of its turn
        for part in prefetched(ask, range(batches), 2 * len(processes)):
            yield from part
    finally:
        for process in processes:
            process.end()


def _written(table: pd.DataFrame, file: Path) -> int:
    """Writes the rows for other processes and returns in how many batches; 0 where a plug-in's
    index holds what Arrow does not know, or gives back as something else: a list as an array, an
    int beside None as a float.
    """
    mixed = (table[c] for c in table.columns if table[c].dtype == object)
    if any(not {*map(type, values)} <= {str, type(None)} for values in mixed):
        return 0
    try:
        arrow = pa.Table.from_pandas(table, preserve_index=False).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return 0
    with writing(file), pa.ipc.new_file(str(file), arrow.schema) as out:
        out.write_table(arrow, max_chunksize=BATCH)
    return -(-len(table) // BATCH)


class _Process:
    """A process that reads."""

    def __init__(self, source: Source, file: Path) -> None:
        self._name = source.name
        root = "" if source.root is None else str(source.root)
        words = [ROOM.argument(source.name), root, str(file), "fix" if source.fix else ""]
        self._process = subprocess.Popen(
            python("ecgbench.data.reading_process", *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends this process, which ends the others
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def ask(self, batch: int) -> list[Outcome]:
        """What becomes of the records of a batch."""
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None
        assert answers is not None
        try:
            questions.write(f"{batch}\n".encode())
            questions.flush()
            told = json.loads(answers.readline() or "null")
            if told and "error" in told:
                raise _error(self._name, told["error"], told["reason"])
            return [outcome_of(one, _all(answers, one)) for one in told["outcomes"]]
        except (OSError, ValueError, TypeError):
            code = self._process.wait()
            raise BadSetting(
                f"{self._name}: a process that reads records gave no answer, "
                f"{ended_in_words(code)}; the same command goes on where this one stopped, with "
                f"--workers 1 in its own process"
            ) from None

    def end(self) -> None:
        """Kill it."""
        end_group(self._process)
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with suppress(OSError):  # a question that nobody read
                pipe.close()


def _all(answers: IO[bytes], told: dict[str, Any]) -> bytes:
    """The samples of an outcome; ValueError where the answer ends before."""
    steps = answers.read(told.get("steps", 0))
    if len(steps) < told.get("steps", 0):
        raise ValueError("the answer ends early")
    return steps


def _error(name: str, kind: str, reason: str) -> Exception:
    return named(kind, reason) if kind else RuntimeError(f"{name}: {reason}")
