"""A file of weights as `read` gives it, read in a process of its own: what a file does to its
reader (a crash in C, endless recursion, all of the memory) ends that process and is one line here.

`python -m ecgbench.weights.apart` is that process. It writes the numbers into a file, storage by
storage as they lie in memory, and answers with the names; it hands over neither a class nor a
pickle. Safetensors, which cannot do any of this, are read here.
"""

import resource
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import torch
from torch import Tensor

from ecgbench import errors
from ecgbench.core import process
from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.weights import read as within

SECONDS, SPEED = 120, 10**7
"""Time that a file may take: so many seconds, and one more for each SPEED bytes."""
SPARE = 2 * 2**30
"""Bytes of memory that a file may take beside `TIMES` its own size: as it is mapped, and as its
packed parts lie in memory.
"""
TIMES = 4
MOST_NAMES = 100_000
"""Names that a file may hold; the largest checkpoint of an ECG network, with the state of its
optimiser, has some thousands.
"""
LONGEST = 1_000
"""Characters of a name."""
NUMBERS = "numbers"
_ALIGNED = 64
_OTHER = "other"
"""Stands for a value that is no tensor."""


class OtherKey:
    """A name that is no text, as words."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def read(path: Path, depth: int) -> Mapping[Any, Any]:
    """The mapping in a file of weights, as of `read.read`: tensors and mappings, `depth` of them
    inside one another, and None for everything else.

    BadSetting: the file cannot be opened, or there is no room for its numbers. BadWeights: it is no
    file of weights, or its reader died of it.
    """
    if path.suffix in within.SAFE:
        return within.read(path)
    within.refuse_pages(path)
    with TemporaryDirectory(prefix="ecgbench-") as place:
        seconds = SECONDS + path.stat().st_size / SPEED
        try:
            said = process.ask(__name__, [str(path), str(depth), place], seconds)
        except process.DiedError as died:
            raise BadWeights(
                f"{path} cannot be read as weights ({died}); get the file again"
            ) from None
        if "reason" in said:
            raise _refusal(path, said, place)
        numbers = Path(place, NUMBERS)
        size = numbers.stat().st_size
        # stays mapped when the folder is gone
        whole = torch.from_file(str(numbers), shared=False, size=size, dtype=torch.uint8)
    return _mapping(said["entries"], whole)


def _refusal(path: Path, said: Mapping[str, str], place: str) -> Exception:
    if said["error"] in (BadWeights.__name__, BadSetting.__name__):
        kind: type[Exception] = getattr(errors, said["error"])
        return kind(said["reason"])
    if said["error"] == OSError.__name__:
        return BadSetting(
            f"{path}: its numbers cannot be written into {Path(place).parent} ({said['reason']}); "
            f"free some space there, or choose another folder with TMPDIR=DIR"
        )
    why = said["reason"] or said["error"]
    return BadWeights(f"{path} cannot be read as weights ({why}); get the file again")


def _mapping(entries: Sequence[Any], whole: Tensor) -> dict[Any, Any]:
    return {
        (name if is_text else OtherKey(name)): _value(value, whole)
        for name, is_text, value in entries
    }


def _value(value: Any, whole: Tensor) -> Any:
    if value == _OTHER:
        return None
    if isinstance(value, list):
        return _mapping(value, whole)
    if value["kind"] not in _KINDS:
        # of no shape that a network has
        return torch.empty((0,) * 9)
    kind, (start, stop) = _KINDS[value["kind"]], value["bytes"]
    # the storage of a tensor may be its whole file, of any length
    storage = whole[start : stop - (stop - start) % kind.itemsize].view(kind)
    return within.tensor(storage, value["offset"], tuple(value["size"]), tuple(value["stride"]))


_KINDS = {str(kind): kind for kind in within.KINDS}


def work(arguments: Sequence[str]) -> dict[str, Any]:
    """In the child: PATH DEPTH FOLDER; writes the numbers into FOLDER and returns `entries`, or
    `error` and `reason`.
    """
    path, depth, place = Path(arguments[0]), int(arguments[1]), arguments[2]
    content = within.read(path)
    try:
        with Path(place, NUMBERS).open("wb") as file:
            file.write(bytes(_ALIGNED))  # an empty file cannot be mapped
            return {"entries": _Writer(file).entries(content, depth)}
    except OSError as error:
        return {"error": OSError.__name__, "reason": error.strerror or str(error)}


class _Writer:
    """Storages into a file, each once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._written: dict[tuple[int, int], tuple[int, int]] = {}
        self._kept: list[Tensor] = []
        self._names = 0

    def entries(self, content: Mapping[Any, Any], depth: int) -> list[Any]:
        """[name, whether it is text, value] of each entry of a mapping."""
        self._names += len(content)
        if self._names > MOST_NAMES:
            raise ValueError(f"it holds more than {MOST_NAMES:,} names, which no weights do")
        return [
            [
                name if isinstance(name, str) and len(name) <= LONGEST else _word(name),
                isinstance(name, str),
                self._value(value, depth - 1),
            ]
            for name, value in content.items()
        ]

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping) and depth:
            return self.entries(value, depth)
        if not isinstance(value, Tensor):
            return _OTHER
        plain = value.layout == torch.strided and value.device.type == "cpu"
        if not plain or value.is_nested or str(value.dtype) not in _KINDS:
            return {"kind": _OTHER}
        value = value.detach()
        return {
            "kind": str(value.dtype),
            "bytes": self._stored(value),
            "offset": value.storage_offset(),
            "size": list(value.shape),
            "stride": list(value.stride()),
        }

    def _stored(self, value: Tensor) -> tuple[int, int]:
        """Where the bytes of a tensor's storage begin and end in the file."""
        storage = value.untyped_storage()
        key = storage.data_ptr(), storage.nbytes()
        if key not in self._written:
            self._kept.append(value)  # or another storage could get its place in memory
            start = self._file.tell()
            if key[1]:
                flat = torch.empty(0, dtype=torch.uint8).set_(storage)
                self._file.write(flat.numpy().data)
            self._written[key] = start, self._file.tell()
            self._file.write(bytes(-self._file.tell() % _ALIGNED))
        return self._written[key]


def _word(name: Any) -> str:
    return shortened(str(name), 80)


def _limited(arguments: list[str]) -> dict[str, Any]:
    """`work`, with no more memory than a file of this size can need."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    most = used + SPARE + TIMES * Path(arguments[0]).stat().st_size
    with suppress(OSError, ValueError):  # a lower limit is set already
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return work(arguments)


if __name__ == "__main__":
    process.answer(_limited)
