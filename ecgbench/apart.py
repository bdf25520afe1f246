"""A plug-in from outside whose functions take and give arrays, in a process of its own: what its
code changes in its process, no other number meets.

`python -m ecgbench.apart PACKAGE PLUGIN` is that process: on standard input come questions, a line
of JSON and behind it the bytes of the arrays, and on standard output goes an answer to each, alike.
"""

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import IO, Any

import numpy as np

from ecgbench.errors import BadSetting, EcgbenchError, named
from ecgbench.processes import end_group, ended_in_words, goes_first, python

KINDS = "biuf"
"""Of numbers that travel: truth values, whole numbers, floating-point numbers."""
Given = np.ndarray | None


class Apart:
    """A plug-in as its module would be: CARD, `__file__` and its functions."""

    def __init__(self, package: str, argument: str, declares: Callable[..., Any]) -> None:
        """`argument`: its name, or the absolute path of its file. BadSetting where it cannot be
        imported.
        """
        self._said = f"{package.rpartition('.')[2]}: {argument}"
        self._command = python(__name__, package, argument)
        about = self._started()
        self.CARD = declares(**{k: _fixed(v) for k, v in about["card"].items()})
        self.__file__ = str(about["file"])
        self._functions = frozenset(map(str, about["functions"]))

    def _started(self) -> dict[str, Any]:
        self._user = os.getpid()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            return self._answer()[0]
        except BaseException:
            self.end()
            raise

    def __getattr__(self, name: str) -> Callable[..., Given]:
        if name.startswith("_") or name not in self._functions:
            raise AttributeError(name)
        return lambda *arrays: self._called(name, arrays)

    def source_hash(self) -> str:
        """sha256 of its files, as they are now (`plugin_files`)."""
        return str(self._ask({"source": True})[0]["source"])

    def mapped(self, function: str, name: str, *arrays: np.ndarray) -> Given:
        """`FUNCTION(value, *arrays)` of this package, `value` being the function `name` of the
        plug-in; FUNCTION is spelled `module:name`.
        """
        return self._ask({"function": name, "by": function}, arrays)[1]

    def _called(self, name: str, arrays: Sequence[np.ndarray]) -> Given:
        return self._ask({"function": name}, arrays)[1]

    def _ask(
        self, question: dict[str, Any], arrays: Sequence[np.ndarray] = ()
    ) -> tuple[dict[str, Any], Given]:
        if self._user != os.getpid():  # a fork: two must not ask through one pipe
            self._started()
        assert self._process.stdin is not None
        try:
            _send(self._process.stdin, question, arrays)
        except OSError:
            raise self._died() from None
        return self._answer()

    def _answer(self) -> tuple[dict[str, Any], Given]:
        assert self._process.stdout is not None
        try:
            answer, arrays = _received(self._process.stdout)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise self._died() from None
        if "error" in answer:
            raise named(str(answer["error"]), str(answer["reason"]))
        return answer, arrays[0] if arrays else None

    def _died(self) -> BadSetting:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        self.end()
        how = "it wrote among its answers" if code is None else ended_in_words(code)
        return BadSetting(f"{self._said} gives no number any more: {how}")

    def end(self) -> None:
        """End its process."""
        end_group(self._process)
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with suppress(OSError):  # a question that nobody read
                pipe.close()


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _send(out: IO[bytes], words: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    whole = [np.asarray(array, order="C") for array in arrays]
    about = [{"kind": a.dtype.str, "shape": list(a.shape)} for a in whole]
    out.write(json.dumps({**words, "arrays": about}).encode() + b"\n")
    for array in whole:
        out.write(array.data.cast("B") if array.size else b"")
    out.flush()


def _received(source: IO[bytes]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """ValueError, KeyError or TypeError where there is none."""
    words = dict(json.loads(source.readline()))
    arrays = []
    for about in words.pop("arrays"):
        kind, shape = np.dtype(about["kind"]), tuple(map(int, about["shape"]))
        if kind.kind not in KINDS or min(shape, default=0) < 0:
            raise ValueError("no array of numbers")
        content = source.read(kind.itemsize * int(np.prod(shape, dtype=object)))
        arrays.append(np.frombuffer(content, kind).reshape(shape).copy())
    return words, arrays


def main() -> None:
    """In the process: answer until there are no more questions."""
    goes_first()
    answers, nowhere = os.fdopen(os.dup(1), "wb"), os.open(os.devnull, os.O_RDWR)
    questions = os.fdopen(os.dup(0), "rb")
    # what it prints must not stand between the answers, nor may it read the questions
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    room = replace(importlib.import_module(sys.argv[1]).ROOM, apart=False)
    try:
        name = room.resolve(sys.argv[2])
        module = room.get(name)
    except EcgbenchError as error:
        _send(answers, {"error": type(error).__name__, "reason": str(error)}, ())
        return
    functions = [n for n, f in vars(module).items() if callable(f) and not n.startswith("_")]
    about = {"card": asdict(module.CARD), "file": module.__file__, "functions": functions}
    _send(answers, about, ())
    while questions.peek(1):
        question, arrays = _received(questions)
        try:
            if "source" in question:
                _send(answers, {"source": room.source_hash(name)}, ())
                continue
            with room.calling(name):
                given = _computed(module, question, arrays)
            _send(answers, {}, () if given is None else (given,))
        except EcgbenchError as error:
            _send(answers, {"error": type(error).__name__, "reason": str(error)}, ())
        except BaseException:  # a mistake of ours
            reason = traceback.format_exc()
            _send(answers, {"error": "EcgbenchError", "reason": reason}, ())


def _computed(module: Any, question: dict[str, Any], arrays: list[np.ndarray]) -> Given:
    function = getattr(module, question["function"])
    if "by" in question:
        place, _, name = question["by"].partition(":")
        given = getattr(importlib.import_module(place), name)(function, *arrays)
    else:
        given = function(*arrays)
    if given is None:
        return None
    numbers = np.asarray(given)
    if numbers.dtype.kind not in KINDS:
        raise TypeError(f"it gives {numbers.dtype} where numbers belong")
    return numbers


if __name__ == "__main__":
    main()
