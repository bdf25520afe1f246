"""Work in a fresh process, which a model may end, hang or fill without harm to this one."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from ecgbench.core.process import ended_in_words
from ecgbench.core.text import shortened
from ecgbench.errors import EcgbenchError

Report = dict[str, Any]


def in_fresh_process(
    work: Callable[..., Report], words: Sequence[object], seconds: float
) -> Report:
    """What `work(*words)` gives in a process of its own, with ok and error (why there is none)."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_answer, args=(there, work, words), daemon=True)
    process.start()
    there.close()
    try:
        if here.poll(seconds):
            return dict(here.recv())
        return {"ok": False, "error": f"no answer within {seconds:g} s, so it was killed"}
    except EOFError:
        process.join()
        return {"ok": False, "error": ended_in_words(process.exitcode or 0)}
    finally:
        process.kill()
        process.join()


def _answer(answers: Connection, work: Callable[..., Report], words: Sequence[object]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what a model prints is no part of the answer
        os.dup2(nowhere, stream)
    try:
        answers.send({"ok": True, "error": "", **work(*words)})
    except Exception as error:  # a model may raise anything
        answers.send({"ok": False, "error": reason_of(error)})


def reason_of(error: Exception) -> str:
    """What an error says, in one line; with its type where it is none of this package."""
    kind = "" if isinstance(error, EcgbenchError) else f"{type(error).__name__}: "
    return f"{kind}{shortened(str(error), 300)}"
