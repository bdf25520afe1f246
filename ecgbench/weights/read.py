"""A file of weights as a mapping, whatever was pickled beside its tensors; nothing that a file
names is ever called.

Three readers, by what the file is: safetensors; torch's own restricted one (`weights_only`); and,
where a file also pickles objects of its authors' classes (Lightning checkpoints, a configuration),
one that puts a stand-in in the place of every class.
"""

import pickle
import struct
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting, BadWeights

SAFE = (".safetensors",)
TORCH = (".pth", ".pt", ".ckpt")
LARGEST = 16 * 2**30
"""Bytes that a file of weights may hold once unpacked."""
SWELLING = 100
"""Times its own size that an archive may unpack to; trained weights hardly compress."""
MOST_MEMBERS = 50_000
"""Files that an archive may hold: torch writes one for each tensor."""
_ZIP = b"PK\x03\x04"


def read(path: Path) -> Mapping[str, Any]:
    """The mapping in a .safetensors, .pth, .pt or .ckpt file; BadSetting where it cannot be opened,
    BadWeights where it is none.
    """
    refuse_pages(path)
    try:
        tensors = load_file(path) if path.suffix in SAFE else _torch_load(path)
    except BadWeights:
        raise
    except pickle.UnpicklingError:
        # torch's own message runs over many lines and proposes to read the file without the
        # restriction
        raise BadWeights(
            f"{path} is damaged or asks to build more than tensors and plain containers; nothing "
            f"of it was run. "
            "Get the file again, or convert its state dict to .safetensors where you trust it"
        ) from None
    except Exception as error:  # a damaged file can make its reader fail in any way
        message = shortened(str(error), 200) or type(error).__name__
        raise BadWeights(
            f"{path} cannot be read as weights ({message}); get the file again"
        ) from None
    if not isinstance(tensors, Mapping):
        own = isinstance(tensors, _StandIn)
        kind = "object of its authors' classes" if own else type(tensors).__name__
        raise BadWeights(
            f"{path} holds one {kind}, not a dict of tensors; pass a file that holds a state dict"
        )
    return tensors


def demand_ending(path: Path, setting: str, archive: bool) -> None:
    """BadSetting, which repeats the setting, where the name of a file does not say how it is
    read.
    """
    known = SAFE + TORCH + ((".zip",) if archive else ())
    if path.suffix not in known:
        raise BadSetting(
            f"{setting}: the name of the file must end in {', '.join(known)}, which says how it is "
            f"read"
        )


@contextmanager
def unpacked(path: Path, member: str) -> Iterator[Path]:
    """The file of weights that a download stands for: itself, or where it is an archive the member
    called so, in a folder that goes.

    Only the last part of a name in the archive counts and no file is written under it, so it cannot
    leave the folder. BadWeights: no such member, several, or one that unpacks to more than any
    weights.
    """
    if not member or path.suffix != ".zip":
        yield path
        return
    refuse_pages(path)
    with TemporaryDirectory(prefix="ecgbench-") as place:
        out = Path(place) / Path(member).name
        try:
            with zipfile.ZipFile(path) as archive:
                _refuse_many(path, archive)
                info = _member(path, archive, member)
                with archive.open(info) as source, out.open("wb") as target:
                    _copy(source, target, info.file_size)
        except BadWeights:
            raise
        except Exception as error:  # a damaged archive can make its reader fail in any way
            message = shortened(str(error), 200)
            raise BadWeights(
                f"{member} cannot be unpacked from {path} ({message}); get the archive again"
            ) from None
        yield out


def _member(path: Path, archive: zipfile.ZipFile, member: str) -> zipfile.ZipInfo:
    same = [
        i
        for i in archive.infolist()
        if not i.is_dir() and i.filename.replace("\\", "/").split("/")[-1] == member
    ]
    if len(same) != 1:
        names = ", ".join(i.filename[:80] for i in archive.infolist()[:5])
        raise BadWeights(
            f"{path} holds {len(same)} files called {member}, not one (it holds {names}); get the "
            f"archive again"
        )
    if same[0].file_size > min(LARGEST, SWELLING * path.stat().st_size):
        raise BadWeights(
            f"{path}: {member} would unpack to {same[0].file_size:,} bytes, which no weights do; "
            f"get the archive again"
        )
    return same[0]


def _copy(source: IO[bytes], target: IO[bytes], most: int) -> None:
    written = 0
    while block := source.read(1 << 20):
        written += len(block)
        if written > most:
            raise ValueError("it is longer than it says")
        target.write(block)


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
    if path.suffix in SAFE and head[8:9] == b"{":
        return
    head = head.lstrip().lower()
    if head.startswith((b"<", b"version https://git-lfs")):
        kind = "a web page" if head.startswith(b"<") else "a Git LFS pointer"
        raise BadWeights(
            f"{path} is {kind}, not weights; download the file itself and pass its path"
        )


def _torch_load(path: Path) -> Any:
    with path.open("rb") as file:
        zipped = file.read(len(_ZIP)) == _ZIP
    if zipped:
        _prove_members(path)
    with (
        suppress(*([pickle.UnpicklingError] if zipped else [])),
        warnings.catch_warnings(action="ignore"),
    ):
        # mmap: a checkpoint with an optimiser's state is three times its weights, and only these
        # are read
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    return _stripped(path)


def _prove_members(path: Path) -> None:
    """BadWeights where the files in a checkpoint are too many, swell, or are not as they were
    written; torch itself does not look at their checksums.
    """
    with zipfile.ZipFile(path) as archive:
        _refuse_many(path, archive)
        if sum(i.file_size for i in archive.infolist()) > SWELLING * path.stat().st_size:
            raise BadWeights(
                f"{path} would unpack to a hundred times its size, which no file of weights does; "
                f"get the file again"
            )
        if (damaged := archive.testzip()) is not None:
            raise BadWeights(
                f"{path} is damaged: {shortened(damaged, 80)} in it does not have its checksum "
                f"(CRC-32); get the file again"
            )


def _refuse_many(path: Path, archive: zipfile.ZipFile) -> None:
    if (count := len(archive.infolist())) > MOST_MEMBERS:
        raise BadWeights(
            f"{path} is an archive of {count:,} files, which no weights are (at most "
            f"{MOST_MEMBERS:,}); get the file again"
        )


def _stripped(path: Path) -> Any:
    """What a zipped checkpoint pickles, with its tensors and without its authors' objects."""
    with zipfile.ZipFile(path) as archive:
        top = {name.partition("/")[0] for name in archive.namelist()}
        if len(top) != 1:
            raise ValueError("it is no checkpoint of torch.save")
        order = f"{min(top)}/byteorder"
        if order in archive.namelist() and archive.read(order) != b"little":
            raise ValueError("it was written on a big-endian machine")
        with archive.open(f"{min(top)}/data.pkl") as file:
            return _Stripped(file, path, archive, min(top)).load()


class _StandIn:
    """Stands for every class and function that is not ours: it can be made, called, filled and
    given a state, and does nothing.
    """

    def __new__(cls, *_: Any, **__: Any) -> "_StandIn":
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def _nothing(self, *_: Any, **__: Any) -> "_StandIn":
        return self

    __call__ = __setstate__ = __setitem__ = append = extend = add = update = _nothing


class _Dict(dict[Any, Any]):
    """A dict that takes the state which torch's OrderedDicts carry beside their items."""

    def __setstate__(self, state: Any) -> None: ...


class _Rebuild:
    """One of our functions for a pickle to call; a pickle cannot change it."""

    __slots__ = ("_factory",)

    def __init__(self, factory: Any) -> None:
        self._factory = factory

    def __call__(self, *arguments: Any) -> Any:
        return self._factory(*arguments)

    def __setstate__(self, state: Any) -> None: ...


def tensor(
    storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> Tensor:
    """Of a flat storage the part with these numbers of places; ValueError where it reaches outside
    it.
    """
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min((offset, *size, *stride)) < 0 or (0 not in size and last >= len(storage)):
        raise ValueError("a tensor reaches outside its storage")
    return storage.as_strided(size, stride, storage.storage_offset() + offset)


def _parameter(tensor: Tensor, *_: Any) -> Tensor:
    return tensor


_STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
KINDS = tuple(_STORAGES.values())
"""Of what a tensor of weights may be made."""
_REAL: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Dict,
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_tensor"): _Rebuild(tensor),
    ("torch._utils", "_rebuild_tensor_v2"): _Rebuild(tensor),
    ("torch._utils", "_rebuild_parameter"): _Rebuild(_parameter),
    ("torch._utils", "_rebuild_parameter_with_state"): _Rebuild(_parameter),
    **{("torch", name): dtype for name, dtype in _STORAGES.items()},
    ("torch.storage", "UntypedStorage"): torch.uint8,
}
_TELLING = (
    *("os", "posix", "nt", "io", "_io", "subprocess", "sys", "shutil", "socket", "pty"),
    *("runpy", "importlib", "ctypes"),
)
_TELLING_BUILTINS = ("eval", "exec", "compile", "open", "__import__", "breakpoint", "input")
"""Nothing rests on these two lists, for no global is ever resolved: a file that names one of them
is refused to warn its owner.
"""


class _Stripped(pickle._Unpickler):
    """Knows tensors and plain containers; every other name becomes a stand-in, so no code of a file
    or of its libraries runs.

    The one in Python, not the one in C: its memo is a dict, where the other allots as many places
    as a file names.
    """

    def load_build(self) -> None:
        """State is thrown away: a tensor that took one would be another tensor."""
        self.stack.pop()  # type: ignore[attr-defined]

    dispatch = {**pickle._Unpickler.dispatch, pickle.BUILD[0]: load_build}  # type: ignore[dict-item]  # noqa: RUF012

    def __init__(self, file: IO[bytes], path: Path, archive: zipfile.ZipFile, top: str) -> None:
        super().__init__(file, encoding="utf-8")
        self._path, self._archive, self._top = path, archive, top
        self._bytes = torch.from_file(
            str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8
        )
        self._storages: dict[str, Tensor] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        """Our own object for a name, or a stand-in; nothing is imported."""
        if module.partition(".")[0] in _TELLING or (
            module in ("builtins", "__builtin__") and name in _TELLING_BUILTINS
        ):
            raise BadWeights(
                f"{self._path} asks to run {f'{module}.{name}'[:80]!r}, which weights never do; "
                f"nothing of it was run: do not trust it"
            )
        return _REAL.get((module, name), _StandIn)

    def persistent_load(self, pid: Any, /) -> Tensor:
        """A storage: all of its elements as one flat tensor that lies in the file."""
        _, dtype, key, _, count = pid
        if key not in self._storages:
            self._storages[key] = self._stored(f"{self._top}/data/{key}").view(dtype)
        if not 0 <= count <= len(self._storages[key]):
            raise ValueError(f"storage {key[:20]} is shorter than it says")
        return self._storages[key][:count]

    def _stored(self, record: str) -> Tensor:
        info = self._archive.getinfo(record)
        if info.compress_type != zipfile.ZIP_STORED:
            return torch.frombuffer(bytearray(self._archive.read(info)), dtype=torch.uint8)
        head = bytes(self._bytes[info.header_offset : info.header_offset + 30].tolist())
        # behind the name and the padding of its local header
        start = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        if len(head) < 30 or start + info.file_size > len(self._bytes):
            raise ValueError(f"{record[:40]} ends outside the file")
        tensor = self._bytes[start : start + info.file_size]
        # a view as another type wants its alignment
        return tensor if start % 16 == 0 else tensor.clone()
