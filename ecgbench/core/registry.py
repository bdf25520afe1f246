"""A room is a folder of plug-ins: every file is one, named by its file, unless its name begins with
`_`. Plug-ins in the subfolder `variants` are found by name but not listed.

Plug-ins of other packages are found by an entry-point group with the room's name, your own files by
path (`./foo.py`), with the same checks. Listing a room and resolving a name import nothing; `get`
imports one module.
"""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import numpy as np

from ecgbench.core.beside import neighbours, package_of
from ecgbench.core.card_file import card_of
from ecgbench.core.process import ends, is_command
from ecgbench.core.restored import restored
from ecgbench.core.source_hash import SourceFiles
from ecgbench.core.text import one_line, shortened
from ecgbench.errors import STOPS, BadSetting, EcgbenchError, UnknownName

P = TypeVar("P")
same_directory = partial(chdir, ".")
"""Around code from outside: this process is afterwards in the directory where it was, for what a
person typed is found from there.
"""
OWN = "adapters"
"""Folder with plug-ins of one's own, where a command is typed: they are found by their names."""
EXTRAS = {"torch_geometric": "graph", "timm": "timm", "torchvision": "timm"}
"""Package that a plug-in may import -> the extra that installs it."""
_VARIANTS = "variants"
"""Folder of a room with plug-ins that are no part of what is listed or compared by default."""


def plain(name: str) -> str:
    """The form in which names are compared: case, `-` and `_` do not count.

    >>> plain("ST-MEM") == plain("st_mem") == plain("stmem")
    True
    """
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def numbers(made: Any) -> np.ndarray:
    """What a plug-in gave, as an array; TypeError where these are no real numbers, or masked.

    >>> numbers([1, 0.5])
    array([1. , 0.5])
    """
    given = np.asarray(made)
    if np.ma.is_masked(made) or given.dtype.kind not in "fiub":
        kind = "masked numbers" if np.ma.is_masked(made) else given.dtype
        raise TypeError(f"it gives {kind} where real numbers belong")
    return given


def own_file(name: str) -> Path | None:
    """The plug-in of this name in the folder OWN, of whatever kind; None where there is none."""
    own = sorted(Path(OWN).glob("[!_]*.py"))
    return next((path for path in own if plain(path.stem) == plain(name)), None)


@cache
def _name_unused(kind: str, name: str) -> None:
    """One line where the folder OWN has a file with the name of a built-in plug-in."""
    if is_command() and (path := own_file(name)):
        print(
            f"ecgbench: {path} is not used, as {name} is the {kind} that comes with ecgbench; "
            f"rename the file to use it",
            file=sys.stderr,
        )


@lru_cache(maxsize=2**12)  # a run of thousands of cells asks for the same few again and again
def folder_name(name: str) -> str:
    """A name as that of one folder: no separator, no `..`, not hidden, at most 120 characters;
    different names stay so.

    >>> folder_name("ptbxl_super"), folder_name("1@seed3"), folder_name("../../x")
    ('ptbxl_super', '1@seed3', '%2E.%2F..%2Fx')
    """
    spelled = quote(name.encode("utf-8", "surrogatepass"), safe="@+") or "%"
    spelled = "%2E" + spelled[1:] if spelled.startswith(".") else spelled
    if len(spelled) <= 120:
        return spelled
    return f"{spelled[:80]}~{hashlib.sha256(spelled.encode()).hexdigest()[:32]}"


def _takes(function: Callable[..., Any], given: Sequence[str]) -> bool:
    try:
        inspect.signature(function).bind(*given)
    except TypeError:
        return False
    return True


def _demand_return(imported: Callable[[], object]) -> None:
    """ImportError where an import ends the process, which is tried on a copy of it; the processes
    of jobs may end.
    """
    if is_command() and (how := ends(imported)):
        raise ImportError(how)


@dataclass(frozen=True)
class Room(Generic[P]):
    """The plug-ins of one package, e.g. `Room("ecgbench.models", "model", contracts.Model)`."""

    package: str
    kind: str
    """The word for one plug-in, used in errors."""
    contract: type[P]
    """What every plug-in's module must define, as a Protocol of `ecgbench.contracts`."""
    besides: frozenset[str] = frozenset()
    """Public files of the folder that are not plug-ins."""
    before_import: Callable[[set[str]], object] = field(default=bool, compare=False)
    """Called with the names of the packages that a plug-in from outside imports, before it does."""
    elsewhere: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Name -> module of those that stand beside what they are about."""
    families: frozenset[str] = frozenset()
    """Files of the folder that hold many plug-ins: `timm` those called `timm:NAME`. They define
    `spelled(name)`, `member(name)` and `version()`.
    """
    heavy: bool = False
    """Whether its plug-ins take long to import, so that their cards are read without that."""
    as_data: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Suffix of files given by path that are no Python -> the module that reads them, with
    `name_of(file)` and `module(file)`.
    """
    _paths: dict[str, Path] = field(default_factory=dict, compare=False)
    """Files given by path; absolute, as a plug-in may change the directory."""
    _loaded: dict[str, Any] = field(default_factory=dict, compare=False)
    """Plug-ins that have been imported and checked."""
    _as_loaded: dict[str, dict[Path, str]] = field(default_factory=dict, compare=False)
    """Their files and hashes by then."""
    _sources: dict[str, SourceFiles] = field(default_factory=dict, compare=False)
    """Source files of the plug-ins that are not built in."""
    _refused: set[str] = field(default_factory=set, compare=False)
    """Files given by path that could not be loaded: whoever names one is told why, and nobody
    else.
    """

    @cached_property
    def _files(self) -> dict[str, str]:
        """Name -> module of the built-in plug-ins."""
        spec = importlib.util.find_spec(self.package)
        assert spec is not None
        assert spec.submodule_search_locations
        folder = Path(next(iter(spec.submodule_search_locations)))
        found = {p.stem: f"{self.package}.{p.stem}" for p in sorted(folder.glob("[!_]*.py"))}
        for path in sorted(folder.glob(f"{_VARIANTS}/[!_]*.py")):
            found[path.stem] = f"{self.package}.{_VARIANTS}.{path.stem}"
        found = dict(sorted({**found, **self.elsewhere}.items()))
        left_out = self.besides | self.families
        return {name: module for name, module in found.items() if name not in left_out}

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        """Name -> entry point of the plug-ins of installed packages."""
        try:
            points = list(entry_points(group=self.package))
        except (ValueError, KeyError, AttributeError) as error:  # of any package
            print(
                f"ecgbench: each {self.kind} of an installed package is left out, as the entry "
                f"points of one cannot be read: {shortened(str(error), 100)}",
                file=sys.stderr,
            )
            points = []
        installed: dict[str, EntryPoint] = {}
        for point in points:
            if plain(point.name) in map(plain, [*self._files, *installed]):
                raise BadSetting(
                    f"two plug-ins of {self.package} are called {point.name!r}; rename the entry "
                    f"point in {point.value}"
                )
            installed[point.name] = point
        return installed

    def names(self) -> list[str]:
        """All names but those of variants, without importing any plug-in."""
        variants = self.variants()
        left_out = {*variants, *self._refused}
        return [n for n in [*self._files, *self._installed, *self._paths] if n not in left_out]

    def variants(self) -> list[str]:
        """Names of the plug-ins in the room's folder of variants: found by name as the others, and
        in no list of all plug-ins.
        """
        prefix = f"{self.package}.{_VARIANTS}."
        return [name for name, module in self._files.items() if module.startswith(prefix)]

    def resolve(self, name: str) -> str:
        """The proper spelling of a name, or the name of the file at a path (which is in the room
        from then on).
        """
        if self.is_path(name):
            return self._enter(Path(name).expanduser())
        family, member = self._family(name)
        if family:
            return str(family.spelled(member))
        if name in self._paths:
            return name
        if name in self._files:  # once for each record that is read
            _name_unused(self.kind, name)
            return name
        for known in [*self._files, *self._installed, *self._paths]:
            if plain(known) == plain(name):
                return known if known in self._installed else self.resolve(known)
        if path := own_file(name):
            return self._enter(path)
        data = "".join(f", or of a {suffix} file such as card.toml" for suffix in self.as_data)
        hint = f"Or give the path of a .py file that defines {self._needs} (or put it in ./{OWN}/)"
        hint += data
        # a variant, or a file of whatever kind in OWN, is meant only by who nearly spells it
        quiet = [*self.variants(), *(path.stem for path in Path(OWN).glob("[!_]*.py"))]
        meant = difflib.get_close_matches(name.lower(), quiet, cutoff=0.8)
        raise UnknownName(self.kind, name, [*self.names(), *meant], hint)

    def is_path(self, name: str) -> bool:
        """Whether a name is the path of a file, by its suffix."""
        return name.endswith((".py", *self.as_data))

    def paths(self) -> list[Path]:
        """The files that were given by path, absolute, in the order in which they came."""
        return list(self._paths.values())

    def argument(self, name: str) -> str:
        """What another command calls a plug-in: its path where it was given by path, else its
        name.
        """
        return str(self._paths.get(name, name))

    def built_in(self, name: str) -> bool:
        """Whether a plug-in is one of this package's own files, or of a family."""
        return name in self._files or self._family(name)[0] is not None

    def known(self, name: str) -> bool:
        """Whether a plug-in of this name is built in, installed, or was given by path."""
        return self.built_in(name) or name in self._installed or name in self._paths

    def _family(self, name: str) -> tuple[Any, str]:
        """The family of a name and what follows its colon; None and the name for any other."""
        family, colon, member = name.partition(":")
        if not colon or plain(family) not in self.families:
            return None, name
        return importlib.import_module(f"{self.package}.{plain(family)}"), member

    def installed(self, name: str) -> EntryPoint | None:
        """The entry point of a plug-in of an installed package; None for any other."""
        return self._installed.get(name)

    def source_hash(self, name: str) -> str | None:
        """sha256 of the files of a plug-in that is not built in (`source_hash`): its author may
        change it without a new version. Of a family's: the version that it comes from.
        """
        if family := self._family(name)[0]:
            return str(family.version())
        if self.built_in(name):
            return None
        self.get(name)  # what it reads when it is imported counts
        return self._files_of(name).sha256

    def code_hash(self, name: str) -> str | None:
        """sha256 of the modules of a plug-in by path or of a package, which is not imported."""
        outside = name in self._paths or name in self._installed
        return self._files_of(name).code if outside else None

    def reading(self, name: str, given: Path | None = None) -> AbstractContextManager[None]:
        """What a plug-in reads inside counts among its files, but for the one that it is given."""
        return nullcontext() if self.built_in(name) else self._files_of(name).reading(given)

    def _files_of(self, name: str) -> SourceFiles:
        if name not in self._sources:
            point = self._installed.get(name)
            spec = point and importlib.util.find_spec(point.module)
            file = spec.origin if spec else self._paths.get(name)
            self._sources[name] = SourceFiles(Path(file or ""))
        return self._sources[name]

    def reload(self) -> None:
        """Import files that were given by path, and what they import from beside them, anew when
        they are next used, if they were edited: keys have the hashes of the files as they are now.
        """
        for name, files in list(self._as_loaded.items()):
            if self._files_of(name).hashes(files) == files:
                continue
            for module, loaded in list(sys.modules.items()):
                file = getattr(loaded, "__dict__", {}).get("__file__")
                if isinstance(file, str) and Path(file).resolve() in files:
                    del sys.modules[module]
            for known in (self._as_loaded, self._loaded, self._sources):
                known.pop(name, None)

    def forget(self) -> None:
        """Forget every file that was given by path, as in a new process."""
        self.reload()
        for name in self._paths:
            self._sources.pop(name, None)
        for known in (self._as_loaded, self._loaded, self._refused, self._paths):
            known.clear()

    def refuse(self, name: str) -> None:
        """Leave a file that was given by path out of `names`, until it is loaded anew: what cannot
        be used stands in nobody else's way.
        """
        if name in self._paths:
            self._refused.add(name)
            self._loaded.pop(name, None)

    def get(self, name: str) -> P:
        """The module of one plug-in; an unknown name raises UnknownName with the nearest ones.

        Fills the field `name` of a CARD that has one.
        """
        name = self.resolve(name)
        family, member = self._family(name)
        if family:
            return self._checked(family.member(member), name)
        if name in self._files:
            module = importlib.import_module(self._files[name])
            if self._loaded.get(name) is not module:
                self._loaded[name] = self._checked(module, name)
            return self._named(module, name)
        if name not in self._loaded:
            if name in self._paths:
                self._load(name, self._paths[name])
            else:
                self._loaded[name] = self._of_a_package(name, self._installed[name])
        loaded: P = self._loaded[name]
        return loaded

    def _of_a_package(self, name: str, point: EntryPoint) -> P:
        with self._failing(f"{name!r} ({point.value}) cannot be imported"):
            self.before_import(self._files_of(name).packages)
            _demand_return(point.load)
            with self.reading(name), restored(self.kind, name):
                module = point.load()
        return self._checked(module, name)

    def card(self, name: str) -> Any:
        """A plug-in's CARD; its module is imported only where the card needs it."""
        module = self._files.get(name := self.resolve(name), "")
        alone = self.heavy and module and module not in sys.modules
        if alone and (card := card_of(module)) is not None:
            return replace(card, name=name)
        imported: Any = self.get(name)
        return imported.CARD

    @contextmanager
    def calling(self, name: str, *expected: type[Exception]) -> Iterator[None]:
        """Wraps a call of a plug-in: whatever its code raises becomes BadSetting, in one line with
        file and line number.

        Errors of this package and those `expected` pass; so does all that a built-in one raises,
        which is a bug.
        """
        if self.built_in(name):
            yield
            return
        file = getattr(self.get(name), "__file__", None)
        with self._failing(f"{name!r} failed", file, EcgbenchError, *expected):
            yield

    @contextmanager
    def _failing(
        self, what: str, file: str | None = None, *expected: type[Exception]
    ) -> Iterator[None]:
        """Whatever a plug-in's code raises, but not what is expected, becomes one line that says
        what failed and at which line of `file`.
        """
        passed: tuple[type[BaseException], ...] = (*expected, *STOPS)
        try:
            with same_directory():
                yield
        except passed:
            raise
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == file]
            where = f" at {Path(file).name}:{lines[-1]}" if file and lines else ""
            hint = self._hint(error)
            raise BadSetting(f"{self.kind} {what}{where}: {one_line(error)}{hint}") from error

    def _hint(self, error: BaseException) -> str:
        """What helps where a plug-in imports a package of an extra that is not installed, or a
        dataset, perhaps of an earlier version's import, a name that this package does not have.
        """
        if isinstance(error, SystemExit):
            return (
                "; it ends the process, as argparse does: read the command line under if "
                "__name__ == '__main__'"
            )
        package = (getattr(error, "name", None) or "").split(".")[0]
        if isinstance(error, ModuleNotFoundError) and package in EXTRAS:
            return f"; pip install 'ecgbench-leads[{EXTRAS[package]}]'"
        unknown = isinstance(error, ImportError) and package == "ecgbench"
        if not unknown or self.kind != "dataset":
            return ""
        return "; of an import: remove it, then ecgbench data import FOLDER --labels TABLE"

    @property
    def _names(self) -> list[str]:
        """What every plug-in's module must define."""
        every = (*self.contract.__annotations__, *vars(self.contract))
        return [name for name in every if not name.startswith("_")]

    @property
    def _needs(self) -> str:
        return " and ".join(self._names)

    def _without(self, module: Any) -> list[str]:
        """Functions that do not take what the contract says, with that."""
        found = []
        for name in filter(vars(self.contract).get, self._names):
            _, *wanted = inspect.signature(getattr(self.contract, name)).parameters.values()
            given = [one.name for one in wanted if one.default is one.empty]
            own = getattr(module, name)
            with suppress(ValueError):  # it has no signature that could be read
                # what a caller may leave out, a plug-in may need: `state` of a policy that learns
                if not (_takes(own, given) or _takes(own, [one.name for one in wanted])):
                    found.append(f"{name}({', '.join(given)})")
        return found

    def _enter(self, path: Path) -> str:
        if not path.is_file():
            raise BadSetting(
                f"no file {path} (given as a {self.kind}); give the path of a module that defines "
                f"{self._needs}"
            )
        reader = self._reader(path)
        name = reader.name_of(path) if reader else path.stem
        if name.startswith(".") or not name.isprintable() or "|" in name:
            raise BadSetting(f"{str(path)!r} gives no name for a {self.kind}; rename the file")
        if name in self._paths and self._paths[name].resolve() == path.resolve():
            return name
        if plain(name) in map(plain, [*self.names(), *self._refused, *self.variants()]):
            raise BadSetting(f"{path} would be a second {self.kind} called {name!r}; rename one")
        self._paths[name] = path.absolute()
        return name

    def _load(self, name: str, path: Path) -> None:
        files, own = self._files_of(name), f"ecgbench_{self.kind}_{path.stem}".replace(".", "_")
        self._refused.add(name)  # unless it is loaded
        if reader := self._reader(path):
            with self.reading(name):
                self._loaded[name] = self._checked(reader.module(path), name)
            return self._kept(name)
        self.before_import(files.packages)

        def imported() -> ModuleType:
            with restored(self.kind, name), neighbours(files.home):
                package = package_of(files.home, files.module.parent)
                spec = importlib.util.spec_from_file_location(f"{package}.{own}", path)
                assert spec is not None
                assert spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                # dataclasses and pickling look their module up by name
                sys.modules[spec.name] = module
                spec.loader.exec_module(module)
                return module

        with self._failing(f"{self.argument(name)} cannot be imported", str(path)):
            _demand_return(imported)
            with self.reading(name):
                module = imported()
        try:
            self._loaded[name] = self._checked(module, name)
        except BaseException:
            sys.modules.pop(module.__name__, None)
            raise
        return self._kept(name)

    def _kept(self, name: str) -> None:
        """A file that was loaded, with its hashes, by which an edit is seen."""
        self._as_loaded[name] = self._files_of(name).hashes()
        self._refused.discard(name)

    def _reader(self, path: Path) -> Any:
        """The module that reads a file which is no Python; None for one of Python."""
        reader = self.as_data.get(path.suffix)
        return importlib.import_module(reader) if reader else None

    def _checked(self, module: Any, name: str) -> P:
        """The module, if it is a plug-in of this room, with its name."""
        file, card = getattr(module, "__file__", ""), getattr(module, "CARD", None)
        problem, missing = "", [word for word in self._names if not hasattr(module, word)]
        declared = self.contract.__annotations__.get("CARD")
        if not isinstance(module, ModuleType):
            problem = f"its entry point gives {module!r}, not a module"
        elif missing:
            problem = f"it does not define {' and '.join(missing)}"
        elif declared is not None and not isinstance(card, declared):
            problem = f"its CARD is a {type(card).__name__}, not a {declared.__name__}"
        elif other := self._without(module):
            problem = f"it cannot be called as {' and '.join(other)}"
        if problem:
            raise BadSetting(f"{self.kind} {name!r} ({file}): {problem}")
        return self._named(module, name)

    def _named(self, module: Any, name: str) -> P:
        """The module, whose CARD knows its name afterwards."""
        card = getattr(module, "CARD", None)
        if is_dataclass(card) and getattr(card, "name", name) != name:
            module.CARD = replace(card, name=name)  # type: ignore[type-var]
        checked: P = module
        return checked
