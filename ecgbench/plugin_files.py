"""The files on which a plug-in from outside rests, for keys: its module, the modules beside it that
it imports, and what it reads while it is imported, built or fitted.

Not seen: what is read later, what lies in other folders, and what a library opens without Python
(safetensors, HDF5). Weights are in keys by their own hash.
"""

import ast
import hashlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import ecgbench

_noting: list["PluginFiles"] = []
"""Those whose files are noted when they are opened."""


@dataclass
class PluginFiles:
    """The files of one plug-in."""

    module: Path
    package: bool = False
    """Whether the whole package counts that the module lies in, not only what it imports."""
    _read: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.module = self.module.resolve()
        self.folder = self.module.parent
        while self.package and _is_package(self.folder.parent):
            self.folder = self.folder.parent
        self.package &= _is_package(self.folder)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is opened below the plug-in's folder inside is a file of it."""
        _watch()
        _noting.append(self)
        try:
            yield
        finally:
            _noting.remove(self)

    def note(self, file: Path) -> None:
        """Count a file that was opened, if it is one of the plug-in's."""
        if self._owns(file := file.resolve()):
            self._read.add(file)

    @property
    def sha256(self) -> str:
        """Of the contents of all files, and of their places in the plug-in's folder."""
        sources = set(self.folder.rglob("*.py")) if self.package else set(self._imported())
        files = sorted(file for file in sources | self._read if file.is_file())
        total = hashlib.sha256()
        for file in files:
            stat = file.stat()
            content = _sha256(file, stat.st_size, stat.st_mtime_ns)
            total.update(f"{file.relative_to(self.folder).as_posix()}\n{content}\n".encode())
        return total.hexdigest()

    def _imported(self) -> set[Path]:
        """The module, and the modules and packages beside it that it imports, also through one
        another.
        """
        found: set[Path] = set()
        left = {self.module}
        while left:
            found |= left
            left = {file for one in left for file in self._beside(one)} - found
        return found

    def _beside(self, file: Path) -> Iterator[Path]:
        for name in _imports(file):
            parts = name.split(".")
            for n in range(1, len(parts) + 1):
                place = self.folder.joinpath(*parts[:n])
                if self._owns(module := place.with_name(f"{place.name}.py")) and module.is_file():
                    yield module
                if self._owns(place) and _is_package(place):
                    yield from place.rglob("*.py")

    def _owns(self, file: Path) -> bool:
        """Whether a file lies below the folder, but not in what is installed there."""
        others = (place for place in _installed() if place.is_relative_to(self.folder))
        return file.is_relative_to(self.folder) and not any(map(file.is_relative_to, others))


@contextmanager
def unnoted() -> Iterator[None]:
    """What is opened inside is no file of a plug-in: it is handed something."""
    noting, _noting[:] = _noting[:], []
    try:
        yield
    finally:
        _noting[:] = noting


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def _imports(file: Path) -> set[str]:
    """Full names of what a file imports anywhere in it, `a.b.c` for `from a.b import c`."""
    names: set[str] = set()
    with suppress(SyntaxError, ValueError, OSError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@cache
def _installed() -> set[Path]:
    """Folders of Python, of its packages and of this one, which keys know by numbers."""
    places = {*sysconfig.get_paths().values(), str(Path(ecgbench.__file__).parent)}
    return {Path(place).resolve() for place in places}


@cache
def _sha256(file: Path, size: int, changed: int) -> str:
    """Of a file that has not changed since it was read."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@cache
def _watch() -> None:
    """See every file that Python opens from now on."""
    sys.addaudithook(_opened)


def _opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _noting or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    flags = arguments[2]
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
        return
    path = os.fsdecode(arguments[0])
    # what is imported is opened without flags; the lines of a traceback or a warning are not
    if path.endswith(".py") and flags:
        return
    if path.endswith(".pyc"):
        try:
            path = importlib.util.source_from_cache(path)
        except ValueError:
            return
    with suppress(OSError, ValueError, RuntimeError):  # `open` itself says what is wrong
        for plugin in list(_noting):
            plugin.note(Path(path))
