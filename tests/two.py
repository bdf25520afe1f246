"""Runs `several(FOLDER)` of a test file in two gloo processes: `python two.py FILE FOLDER`, with
MASTER_ADDR and MASTER_PORT set. What they print to standard error stands in FOLDER/stderr0 and
FOLDER/stderr1.
"""

import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

# an optimiser imports it at its first step
import torch._dynamo
import torch.distributed


def main() -> None:
    """One process imports and starts the other two; it ends with 1 where either fails, and the
    other is then killed, for it would wait.
    """
    file, folder = sys.argv[1:]
    # a test file may import from `tests`, as under pytest
    sys.path.insert(0, str(Path(__file__).parents[1]))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ranks = {started(rank, module.several, Path(folder)) for rank in "01"}
    while ranks:
        pid, status = os.wait()
        ranks.discard(pid)
        if status:
            for other in ranks:
                os.kill(other, signal.SIGKILL)
            sys.exit(1)


def started(rank: str, several: Callable[[Path], None], folder: Path) -> int:
    """The number of a copy of this process that is one of the two."""
    if pid := os.fork():
        return pid
    os.environ.update(RANK=rank, LOCAL_RANK=rank)
    os.dup2(os.open(folder / f"stderr{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    try:
        several(folder)
        torch.distributed.barrier()
        # its threads must not outlive the interpreter
        torch.distributed.destroy_process_group()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
