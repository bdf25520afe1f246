"""The files of a plug-in from outside, for keys: its module, the modules that it imports, directly
or not, from its folder, its package or any other folder on Python's path, and the files beside
them, or in a folder beside its own, that it reads while it is imported, built, tried once or
fitted. Imports are followed as they are written, so it does not matter which of two plug-ins loaded
a module.

Not covered: installed packages, whose versions are stored with each result; modules whose names are
computed, where another plug-in of the process has imported them; and files that libraries open
without Python (safetensors, HDF5).
"""

import ast
import hashlib
import os
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec, source_from_cache
from pathlib import Path
from types import FrameType
from typing import Any

_noting: list["SourceFiles"] = []
"""Plug-ins whose opened files are being noted."""
_at_import: defaultdict[Path, set[Path]] = defaultdict(set)
"""Module -> files that were opened while it was imported."""
_OTHERS = (Path(__file__).resolve().parents[1], Path(os.__file__).resolve().parent)
"""Folders of this package and of Python."""
_INSTALLED = {"site-packages", "dist-packages"}
"""Names of folders with installed packages."""


@dataclass
class SourceFiles:
    """The files of one plug-in."""

    module: Path
    read: set[Path] = field(default_factory=set)
    """Files that were opened while it was imported, built, tried once or fitted."""

    def __post_init__(self) -> None:
        self.module = self.module.resolve()
        self.folder = self.home = self.module.parent
        while (self.home / "__init__.py").is_file():
            self.folder, self.home = self.home, self.home.parent

    @contextmanager
    def reading(self, given: Path | None = None) -> Iterator[None]:
        """Files that are opened inside belong to the plug-in, if they are near its modules, but
        not the one that it is `given`. No bytecode is written: Python would take it for that of a
        later file of the same size and second.
        """
        _watch()
        _noting.append(self)
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            yield
        finally:
            sys.dont_write_bytecode = before
            _noting.remove(self)
            if given:
                self.read.discard(given.expanduser().resolve())

    @property
    def sha256(self) -> str:
        """Of the contents of all files and their paths relative to the module."""
        return self._total(self.hashes())

    @property
    def code(self) -> str:
        """The same of its modules alone, for which nothing is imported."""
        return self._total(self.hashes(self._imported()))

    def _total(self, hashes: Mapping[Path, str]) -> str:
        total = hashlib.sha256()
        for file, own in sorted(hashes.items()):
            total.update(f"{os.path.relpath(file, self.home)}\n{own}\n".encode())
        return total.hexdigest()

    def hashes(self, of: Iterable[Path] | None = None) -> dict[Path, str]:
        """All files, or those `of`, with the sha256 of their contents; "" for one that is gone."""
        if of is None:
            modules = self._imported()
            read = self.read.union(*(_at_import.get(module, ()) for module in modules))
            folders = {self.folder, *(m.parent for m in modules)}
            near = {f for f in read if any(map(f.is_relative_to, folders)) or self._beside(f)}
            of = modules | set(filter(self._owns, near))
        return {file: _content(file)[0] for file in of}

    @property
    def packages(self) -> set[str]:
        """Names of the packages that its modules import."""
        names = (name for file in self._imported() for name in _content(file)[1])
        return {name.split(".")[0] for base, name in names if base is None}

    def _imported(self) -> set[Path]:
        """The module and all that it imports but what is installed."""
        found, todo = set[Path](), {self.module}
        while todo:
            found |= todo
            names = {name for file in todo for name in _content(file)[1]}
            files = (
                f
                for base, name in names
                for at in self._bases(base, name)
                for f in _located(at, name)
            )
            todo = set(filter(self._owns, files)) - found
        return found

    def _bases(self, relative: Path | None, name: str) -> set[Path]:
        """Folders in which a name that is imported may lie."""
        package = name.partition(".")[0]
        # most imports are of installed packages: those are told apart before any file is looked for
        elsewhere = (at for at in _on_path(package) if self._owns(at / package))
        return {relative} if relative else {self.home, *elsewhere}

    def _beside(self, file: Path) -> bool:
        """Whether it lies in a folder beside that of the plug-in (`../configs`), and not in one of
        the system or of hidden settings.
        """
        project = self.home.parent
        inside = file.is_relative_to(project) and project.parent != project
        return inside and not any(p.startswith(".") for p in file.relative_to(project).parts)

    def _owns(self, file: Path) -> bool:
        inside = file.relative_to(self.folder) if file.is_relative_to(self.folder) else file
        return not (_INSTALLED & {*inside.parts} or any(map(file.is_relative_to, _OTHERS)))


@contextmanager
def unnoted() -> Iterator[None]:
    """Files that are opened inside do not belong to a plug-in: they are its input."""
    noting, _noting[:] = _noting[:], []
    try:
        yield
    finally:
        _noting[:] = noting


def _on_path(package: str) -> Iterator[Path]:
    """The folders in which Python finds a package or module. It is not imported."""
    with suppress(ImportError, ValueError, AttributeError):
        spec = find_spec(package)
        if spec and (spec.has_location or spec.submodule_search_locations):
            for place in spec.submodule_search_locations or [str(spec.origin)]:
                yield _resolved(place).parent


@cache
def _resolved(place: str) -> Path:
    """Of a package that Python has found, which it does not look for again."""
    return Path(place).resolve()


def _located(base: Path, name: str) -> Iterator[Path]:
    """The files of `a`, `a.b` and `a.b.c` that lie below a folder. Nothing is imported."""
    below = str(base)
    for part in name.split("."):
        below = os.path.join(below, part)
        files = f"{below}.py", os.path.join(below, "__init__.py")
        yield from (Path(file).resolve() for file in filter(os.path.isfile, files))


def _imports(file: Path, content: bytes) -> Iterator[tuple[Path | None, str]]:
    """What a file imports anywhere in it: the folder of a relative import, and the full name,
    `a.b.c` for `from a.b import c`.
    """
    with suppress(SyntaxError, ValueError, IndexError):
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Import):
                yield from ((None, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = file.parents[node.level - 1] if node.level else None
                module = f"{node.module}." if node.module else ""
                yield from ((base, module + alias.name) for alias in node.names)


def _content(file: Path) -> tuple[str, frozenset[tuple[Path | None, str]]]:
    """sha256 of a file, and what it imports; "" where there is none."""
    with suppress(OSError):
        now = file.stat()
        return _opened_once(file, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    return "", frozenset()


@cache
def _opened_once(file: Path, *_: int) -> tuple[str, frozenset[tuple[Path | None, str]]]:
    """Of a file that has not changed since it was read."""
    content = file.read_bytes()
    found = _imports(file, content) if file.suffix == ".py" else ()
    return hashlib.sha256(content).hexdigest(), frozenset(found)


@cache
def _watch() -> None:
    """See every file that Python opens from now on."""
    sys.addaudithook(_opened)


def _opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _noting or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    path, flags = os.fsdecode(arguments[0]), arguments[2]
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
        return
    frame: FrameType | None = sys._getframe(1)
    if frame and frame.f_code.co_filename == tokenize.__file__:  # the lines of a traceback
        return
    with suppress(OSError, ValueError, RuntimeError):  # `open` itself says what is wrong
        file = Path(source_from_cache(path) if path.endswith(".pyc") else path).resolve()
        for plugin in _noting:
            plugin.read.add(file)
        while frame is not None:
            if frame.f_code.co_name == "<module>":
                _at_import[Path(frame.f_code.co_filename).resolve()].add(file)
            frame = frame.f_back
