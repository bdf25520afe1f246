"""`python -m ecgbench.data.reading_process DATASET ROOT ROWS FIX`: reads records for another
process, which `readers` started.

ROWS is a file of Arrow's, a batch of rows of the index after the other. On standard input come
numbers of batches, a line each; on standard output goes for each a line of JSON, and behind it the
samples of the records that are kept. Torch is not needed, and not imported.
"""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ecgbench import datasets
from ecgbench.data.reading import Kept, Outcome, described, look
from ecgbench.data.source import rows
from ecgbench.errors import EcgbenchError
from ecgbench.processes import goes_first


def main() -> None:
    """Answer until there are no more questions."""
    goes_first()
    # what a reader prints must not stand between the answers, nor may a program that it starts wait
    # for the questions
    answers, nowhere = os.fdopen(os.dup(1), "wb"), os.open(os.devnull, os.O_RDWR)
    questions = os.fdopen(os.dup(0))
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    dataset, root, file, fix = sys.argv[1:]
    with pa.memory_map(file) as mapped:
        table = pa.ipc.open_file(mapped)
        for line in questions:
            try:
                name, place = datasets.resolve(dataset), Path(root) if root else None
                batch = pa.Table.from_batches([table.get_batch(int(line))]).to_pandas()
                found = [look(name, place, row, fix == "fix") for row in rows(batch)]
                parts = list(answer(found))
            except EcgbenchError as error:
                parts = [_line({"error": type(error).__name__, "reason": str(error)})]
            except Exception:  # a mistake of ours; the other process raises it
                parts = [_line({"error": "", "reason": traceback.format_exc()})]
            try:
                answers.write(b"".join(parts))
                answers.flush()
            except BrokenPipeError:  # nobody waits for it any more
                os._exit(0)


def answer(outcomes: list[Outcome]) -> Iterator[bytes]:
    """A line of JSON, and the samples of those that are kept."""
    yield _line({"outcomes": [described(outcome) for outcome in outcomes]})
    yield from (outcome.steps for outcome in outcomes if isinstance(outcome, Kept))


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


if __name__ == "__main__":
    main()
