"""A file of weights as a mapping of tensors. Nothing that a file names is imported or called.

Two readers: safetensors, and torch's restricted one (`weights_only`). Checkpoints of Lightning
(ECG-CPC) and the first release of HuBERT-ECG also pickle configuration objects of their authors'
classes; torch lists the names of these classes, and each is read as an empty stand-in.
"""

import pickle
import re
import shutil
import warnings
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from ecgbench.core.source_hash import unnoted
from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.weights.endings import INDEX, ending, places
from ecgbench.weights.state import flat_of


def is_safe(path: Path) -> bool:
    """Whether a file is of safetensors, by its content, or an index; such a file has no order."""
    with path.open("rb") as file:
        return ending(path) == INDEX or file.read(9)[8:] == b"{"


@unnoted()  # a plug-in's key has the tensors
def read(path: Path) -> Mapping[str, Any]:
    """The mapping in a .safetensors, .pth, .pt, .ckpt or .bin file, or in the files of an index;
    of a list, by its numbers. BadSetting where it cannot be opened, BadWeights where it is none.
    """
    refuse_pages(path)
    try:
        if ending(path) == INDEX:
            content: Any = _of_index(path)
        else:
            content = load_file(path) if is_safe(path) else _checkpoint(path)
        deque(flat_of([content]), maxlen=0)
    except (BadWeights, BadSetting):
        raise
    except RecursionError:
        raise BadWeights(f"{path} holds a dict that holds itself; save a state dict") from None
    except pickle.UnpicklingError:
        # torch's own message is long and proposes to read the file without the restriction
        raise BadWeights(
            f"{path} is damaged, or holds objects that only its own code can make, and nothing of "
            f"it was run; get the file again, or convert its state dict to .safetensors where you "
            f"trust it"
        ) from None
    except Exception as error:  # a damaged file can make its reader fail in any way
        message = shortened(str(error), 200)
        # some are a bare number: a key that the reader did not find
        message = message if re.search("[a-zA-Z]", message) else type(error).__name__
        raise BadWeights(
            f"{path} cannot be read as weights ({message}); get the file again"
        ) from None
    if isinstance(content, list | tuple):
        content = {str(number): value for number, value in enumerate(content)}
    if not isinstance(content, Mapping):
        kind = "object of its authors' classes" if isinstance(content, _StandIn) else None
        raise BadWeights(
            f"{path} holds one {kind or type(content).__name__}, not a dict of tensors; pass a "
            f"file that holds a state dict"
        )
    return content


def _of_index(path: Path) -> dict[str, Any]:
    """The tensors of the files beside an index."""
    files = places(path)
    parts = {file: read(file) for file in dict.fromkeys(files.values())}
    if lost := [name for name, file in files.items() if name not in parts[file]]:
        raise BadWeights(
            f"{path} names {len(lost)} tensors that its files lack, such as {lost[0]}; get them "
            f"again"
        )
    return {name: parts[file][name] for name, file in files.items()}


def _checkpoint(path: Path) -> Any:
    """What `torch.save` wrote, its tensors left on the disk until they are used."""
    if zipped := zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # torch does not look at checksums
        if damaged:
            raise BadWeights(
                f"{path} is damaged: {shortened(damaged, 80)} in it does not have its checksum "
                f"(CRC-32); get the file again"
            )
    with _nothing_allowed(), warnings.catch_warnings(action="ignore"):
        if zipped:
            foreign = torch.serialization.get_unsafe_globals_in_checkpoint(path)
            made: list[Any] = [(_FILLED.get(name, _StandIn), name) for name in foreign]
            if "numpy.dtype" in foreign:
                made += _DTYPES
            torch.serialization.add_safe_globals(made)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)


@contextmanager
def _nothing_allowed() -> Iterator[None]:
    """Without the names that other libraries of this process have allowed torch to build."""
    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


class _StandIn:
    """Takes the place of a class or function of the authors: it can be made, filled and given a
    state, and does nothing.
    """

    def __new__(cls, *_: Any, **__: Any) -> "_StandIn":
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __setstate__(self, state: Any) -> None: ...


def _dict(*_: Any) -> dict[Any, Any]:
    return {}


def _array(_: Any, shape: tuple[int, ...], code: Any) -> np.ndarray:
    """An array that is filled with its bytes afterwards; no subclass."""
    return np.ndarray(shape, code)


_FILLED: dict[str, Any] = {
    "collections.defaultdict": _dict,
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "numpy.core.multiarray._reconstruct": _array,
    "numpy._core.multiarray._reconstruct": _array,
}
"""Stand-ins that are filled with items, which torch allows of its own containers only: Lightning
keeps a defaultdict; and what makes an array of numbers.
"""
_KINDS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?", "c8")
_DTYPES = [type(np.dtype(kind)) for kind in _KINDS]


@contextmanager
def unpacked(path: Path, member: str) -> Iterator[Path]:
    """The file of weights in a download: the download itself or, of an archive, the file called
    `member`, in a temporary folder. BadWeights where there is no such file, or several.
    """
    if not member or path.suffix != ".zip":
        yield path
        return
    refuse_pages(path)
    with TemporaryDirectory(prefix="ecgbench-") as folder:
        out = Path(folder) / Path(member).name
        try:
            with zipfile.ZipFile(path) as archive:
                files = [i for i in archive.infolist() if not i.is_dir()]
                found = [i for i in files if i.filename.split("/")[-1] == member]
                if len(found) != 1:
                    raise ValueError(
                        f"it holds {len(found)} files of that name; it holds "
                        f"{', '.join(i.filename[:80] for i in files[:5])}"
                    )
                with archive.open(found[0]) as source, out.open("wb") as target:
                    shutil.copyfileobj(source, target)
        except Exception as error:  # a damaged archive can make its reader fail in any way
            message = shortened(str(error), 500)
            raise BadWeights(
                f"{member} cannot be unpacked from {path} ({message}); get the archive again"
            ) from None
        yield out


def refuse_pages(path: Path) -> None:
    """BadWeights where a file is a web page or a Git LFS pointer; BadSetting where it cannot be
    opened.
    """
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise BadSetting(
            f"cannot read {path} ({error.strerror}); make it readable, or pass another file"
        ) from None
    # the length before its header may look like anything
    if head[8:9] == b"{":
        return
    head = head.lstrip().lower()
    if head.startswith((b"<", b"version https://git-lfs")):
        kind = "a web page" if head.startswith(b"<") else "a Git LFS pointer"
        raise BadWeights(
            f"{path} is {kind}, not weights; download the file itself and pass its path"
        )
