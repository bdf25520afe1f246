"""The files on which a plug-in from outside rests, for keys: its module, every module that it
imports, also through one another, wherever it lies, and what it reads while it is imported, built
or fitted. Imports are followed from file to file, as written, so it does not matter which of two
plug-ins brought a module into the process. An installed package counts by its version and the
hashes that it was installed with; Python, this package and what that needs do not count.

Not seen: modules whose name is put together while the program runs and that another plug-in had
imported before, or that are imported after the building; what is read later, or in folders where no
module of the plug-in lies; and what a library opens without Python (safetensors, HDF5). Weights are
in keys by their own hash.
"""

import ast
import hashlib
import importlib.util
import os
import re
import site
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, PathFinder
from importlib.metadata import distribution, packages_distributions, requires
from pathlib import Path
from types import FrameType
from typing import Any

import ecgbench

_noting: list["PluginFiles"] = []
"""Those whose files are noted when they are opened."""
_at_import: defaultdict[str, set[Path]] = defaultdict(set)
"""Module -> what was opened while it was imported."""
_MODULES = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)


@dataclass
class PluginFiles:
    """The files of one plug-in."""

    module: Path
    package: bool = False
    """Whether the whole package counts that the module lies in, not only what it imports."""
    read: set[Path] = field(default_factory=set)
    """What was opened while it was imported, built or fitted."""

    def __post_init__(self) -> None:
        self.module = self.module.resolve()
        self.folder = self.module.parent
        while self.package and _is_package(self.folder.parent):
            self.folder = self.folder.parent
        self.package &= _is_package(self.folder)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is opened inside is a file of the plug-in, if it lies where its modules do. Modules
        leave no bytecode: Python takes it for that of a later file of the same size and second.
        """
        _watch()
        _noting.append(self)
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            yield
        finally:
            sys.dont_write_bytecode = before
            _noting.remove(self)

    def forget(self) -> None:
        """Let its modules be imported anew, as in a new process."""
        files = {str(file) for file in self._imported()[0]}
        for name, module in [*sys.modules.items()]:
            if os.path.realpath(getattr(module, "__file__", None) or "") in files:
                del sys.modules[name]
        for file in files:
            _at_import.pop(file, None)

    @property
    def sha256(self) -> str:
        """Of the contents of all files, of their places in the folders of the plug-in and of its
        modules, and of the installed packages.
        """
        modules, packages = self._imported()
        homes = {self.folder, *map(_home, modules)}
        read = self.read.union(*(_at_import.get(str(module), ()) for module in modules))
        near = {f for f in read if self._owns(f) and any(map(f.is_relative_to, homes))}
        found = []
        for file in modules | near:
            home = self.folder if file.is_relative_to(self.folder) else _home(file)
            found.append((file.relative_to(home), _content(file)[0]))
        total = hashlib.sha256()
        for place, content in sorted(found):
            total.update(f"{place.as_posix()}\n{content}\n".encode() if content else b"")
        total.update("".join(sorted(packages)).encode())
        return total.hexdigest()

    def _imported(self) -> tuple[set[Path], set[str]]:
        """Files of the module and of all that it imports, and what is known of installed packages
        (`_installed_as`).
        """
        found, packages = set[Path](), set[str]()
        left = {self.module, *self._sources(self.read)}
        left |= _modules(self.folder) if self.package else set()
        while left:
            found |= left
            new = set[Path]()
            for file in left:
                new |= self._sources(_at_import.get(str(file), ()))
                for base, name in _content(file)[1]:
                    for module in _located(base, name, self.folder):
                        if not self._owns(module):
                            packages.add(_installed_as(name.partition(".")[0]))
                            break
                        package = _modules(module.parent) if module.name == "__init__.py" else ()
                        new |= {module, *filter(self._owns, package)}
            left = new - found
        return found, packages

    def _sources(self, opened: Iterable[Path]) -> set[Path]:
        return {file for file in opened if file.suffix == ".py" and self._owns(file)}

    def _owns(self, file: Path) -> bool:
        """Whether a file is not of Python, of an installed package or of this one; what is
        installed below the plug-in's folder is not its own.
        """
        inside = file.is_relative_to(self.folder)
        others = (p for p in _installed() if not inside or p.is_relative_to(self.folder))
        return not any(map(file.is_relative_to, others))


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


def _home(file: Path) -> Path:
    """The folder from which a module is imported."""
    return next(folder for folder in file.parents if not _is_package(folder))


def _modules(folder: Path) -> set[Path]:
    return {f.resolve() for f in folder.rglob("*") if f.name.endswith(_MODULES)}


def _located(base: Path | None, name: str, beside: Path) -> Iterator[Path]:
    """The files of `a`, `a.b` and `a.b.c` as this process would import them, from `base` where the
    import is relative, else `beside` where they lie nowhere else. Nothing is imported.
    """
    places, full, spec = [str(base or beside)], "", None
    for part in name.split("."):
        full = f"{full}.{part}".lstrip(".")
        if not base and full == part:
            with suppress(ImportError, ValueError, AttributeError):
                spec = importlib.util.find_spec(full)
        if not (spec := spec or PathFinder.find_spec(full, places)):
            return
        if spec.has_location and spec.origin:
            yield Path(spec.origin).resolve()
        places, spec = [*(spec.submodule_search_locations or ())], None


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
            elif isinstance(node, ast.Call) and _name(node.func) in ("import_module", "__import__"):
                values = (a.value for a in node.args[:1] if isinstance(a, ast.Constant))
                yield from ((None, value) for value in values if isinstance(value, str))


def _name(function: ast.expr) -> object:
    return getattr(function, "attr", getattr(function, "id", None))


@cache
def _installed() -> set[Path]:
    """Folders of Python, of its packages and of this one."""
    paths = sysconfig.get_paths()
    places = {paths[which] for which in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {str(Path(ecgbench.__file__).parent), *site.getsitepackages()}
    # on some clusters packages are in a folder of PYTHONPATH
    for name in ("numpy", "torch"):
        spec = importlib.util.find_spec(name)
        places |= {str(Path(spec.origin).parents[1])} if spec and spec.origin else set()
    return {Path(place).resolve() for place in (*places, site.getusersitepackages())}


@cache
def _installed_as(top: str) -> str:
    """A line on the installed package that is imported as `top`: its name, its version and the
    sha256 of the hashes of its files; "" of one that this package needs, or that is none.
    """
    packages = packages_distributions()
    needed = (r for n in packages.get("ecgbench", ()) for r in requires(n) or ())
    ours = {_plain(need) for need in needed if "extra ==" not in need}
    names = packages.get(top, ())
    if not names or top == "ecgbench" or _plain(names[0]) in ours:
        return ""
    package = distribution(names[0])
    files = sorted(
        f"{f} {f.hash.value}" for f in package.files or () if f.hash and f.name.endswith(_MODULES)
    )
    written = hashlib.sha256("\n".join(files).encode()).hexdigest()
    return f"{names[0]} {package.version} {written}\n"


def _plain(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def _content(file: Path) -> tuple[str, frozenset[tuple[Path | None, str]]]:
    """sha256 of a file, or of the archive in which it lies, and what it imports; "" where there is
    none.
    """
    with suppress(OSError):
        file = next(filter(Path.is_file, (file, *file.parents)), file)
        now = file.stat()
        return _opened_once(file, now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)
    return "", frozenset()


@cache
def _opened_once(file: Path, *_: int) -> tuple[str, frozenset[tuple[Path | None, str]]]:
    """Of a file that has not changed since it was read."""
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        content.seek(0)
        return sha256, frozenset(_imports(file, content.read()) if file.suffix == ".py" else ())


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
        file = Path(path).resolve()
        for plugin in list(_noting):
            plugin.read.add(file)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "<module>":
                _at_import[os.path.realpath(frame.f_code.co_filename)].add(file)
            frame = frame.f_back
