"""A room is a folder in which every public file is a citizen named by its file.

Strangers enter through an entry-point group of the room's name or by path (`./foo.py`), with the same checks.
Listing a room and resolving a name import nothing; asking for a citizen imports that one module.
"""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

from ecgbench.declared import Declared
from ecgbench.errors import BadSetting, UnknownName


def plain(name: str) -> str:
    """The form in which names are compared: case, `-` and `_` do not count.

    >>> plain("ST-MEM") == plain("st_mem") == plain("stmem")
    True
    """
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def folder_name(name: str) -> str:
    """A name as that of one folder: no separator, no `..`, nothing hidden, at most 120 characters; different names stay different.

    >>> folder_name("ptbxl_super"), folder_name("1@seed3"), folder_name("I+V2"), folder_name("../../x")
    ('ptbxl_super', '1@seed3', 'I+V2', '%2E.%2F..%2Fx')
    """
    spelled = quote(name.encode("utf-8", "surrogatepass"), safe="@+") or "%"
    spelled = "%2E" + spelled[1:] if spelled.startswith(".") else spelled
    return spelled if len(spelled) <= 120 else f"{spelled[:80]}~{hashlib.sha256(spelled.encode()).hexdigest()[:32]}"


_DECENT = "begins with no dot and holds no slash, bar or control character"


def _decent(name: str) -> bool:
    return bool(plain(name)) and name.isprintable() and not name.startswith(".") and not set(name) & set("/\\|")


@dataclass(frozen=True)
class Room:
    """The citizens of one package, e.g. `Room("ecgbench.models", "model", ("CARD", "build"))`."""

    package: str
    kind: str
    """The word for one citizen, used in errors."""
    needs: tuple[str, ...]
    """What every citizen's module must define."""
    _paths: dict[str, Path] = field(default_factory=dict, compare=False)
    """Strangers that entered by path."""
    _strangers: dict[str, ModuleType] = field(default_factory=dict, compare=False)
    """Those of them that have been imported."""

    @cached_property
    def _files(self) -> dict[str, str]:
        found = importlib.util.find_spec(self.package)
        assert found is not None
        assert found.submodule_search_locations
        folder = Path(next(iter(found.submodule_search_locations)))
        files: dict[str, str] = {}
        for path in sorted(folder.glob("[!_]*.py")):
            if any(plain(path.stem) == plain(n) for n in files):
                raise BadSetting(f"two citizens of {self.package} are called {path.stem!r}; rename {path.name}")
            files[path.stem] = f"{self.package}.{path.stem}"
        return files

    @cached_property
    def _guests(self) -> dict[str, EntryPoint]:
        guests: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.package):
            if not _decent(point.name):
                raise BadSetting(f"{point.name!r} is no name for a {self.kind}, which {_DECENT}; rename the entry point in {point.value}")
            if any(plain(point.name) == plain(n) for n in [*self._files, *guests]):
                raise BadSetting(f"two citizens of {self.package} are called {point.name!r}; rename the one in {point.value}")
            guests[point.name] = point
        return guests

    def names(self) -> list[str]:
        """All names, without importing any citizen."""
        return [*self._files, *self._guests, *self._paths]

    def resolve(self, name: str) -> str:
        """The proper spelling of a name, or of the module at a path (which then becomes a citizen)."""
        if name.endswith(".py"):
            return self._enter(Path(name).expanduser())
        for known in self.names():
            if plain(known) == plain(name):
                return known
        raise UnknownName(self.kind, name, self.names(), f"Or give the path of a .py file that defines {' and '.join(self.needs)}")

    def paths(self) -> list[Path]:
        """The files of all strangers that entered by path, in the order in which they came."""
        return list(self._paths.values())

    def own(self, name: str) -> bool:
        """Whether a citizen is one of this package's own files."""
        return name in self._files

    def forget(self) -> None:
        """Show every stranger that entered by path out, as in a new process."""
        for name in self._strangers:
            sys.modules.pop(self._module(name), None)
        self._strangers.clear()
        self._paths.clear()

    def get(self, name: str) -> ModuleType:
        """The module of one citizen; an unknown name raises UnknownName with the nearest ones."""
        name = self.resolve(name)
        if name in self._paths:
            return self._strangers.get(name) or self._admit(name, self._paths[name])
        if name in self._files:
            return self._checked(importlib.import_module(self._files[name]), name)
        return self._checked(self._imported(self._guests[name].load, f"{name!r} ({self._guests[name].value})"), name)

    def declared(self, name: str) -> Declared:
        """What a citizen's file declares, read without importing it; BadSetting where there is no such file."""
        name = self.resolve(name)
        if name in self._paths:
            return Declared(self._paths[name], self._module(name))
        module = self._files.get(name) or self._guests[name].value
        # of a guest `package.module` this imports the package, which may fail in any way
        found = None if ":" in module else self._imported(lambda: importlib.util.find_spec(module), f"{name!r} ({module})")
        if found is None or not found.origin or not found.origin.endswith(".py"):
            raise BadSetting(f"{self.kind} {name!r}: {module} is no Python file that could be read")
        return Declared(Path(found.origin), module)

    def card(self, name: str) -> Any:
        """A citizen's CARD; its module is imported only where the card cannot be had without."""
        with suppress(BadSetting):
            found = self.declared(name)
            if set(self.needs) <= found.names:
                return found.value("CARD")
        return self.get(name).CARD

    def _enter(self, path: Path) -> str:
        if not path.is_file():
            raise BadSetting(f"no file {path} (given as a {self.kind}); give the path of a module that defines {' and '.join(self.needs)}")
        name = path.stem
        if not _decent(name):
            raise BadSetting(f"{str(path)!r} gives no name for a {self.kind}, which {_DECENT}; rename the file")
        here = self._paths.get(name)
        if here is not None and here.resolve() == path.resolve():
            return name
        if any(plain(name) == plain(n) for n in self.names()):
            raise BadSetting(f"{path} would be a second {self.kind} called {name!r}; rename the file")
        self._paths[name] = path
        return name

    def _module(self, name: str) -> str:
        return f"ecgbench_stranger_{self.kind}_{name}"

    def _admit(self, name: str, path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(self._module(name), path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses and pickling look their module up by name
        loader = spec.loader
        try:
            self._imported(lambda: loader.exec_module(module), str(path))
            self._strangers[name] = self._checked(module, name)
        except BaseException:
            sys.modules.pop(spec.name, None)
            raise
        return module

    def _imported(self, load: Callable[[], Any], source: str) -> Any:
        """What `load` gives; whatever a stranger's code raises becomes one line that names it and where it happened."""
        try:
            return load()
        except (Exception, SystemExit) as error:
            # a SyntaxError tells its own place, and the innermost frame of an import is the interpreter's
            frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<") and f.filename != __file__]
            place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames and not isinstance(error, SyntaxError) else ""
            told = " ".join(str(error).split())[:200]
            raise BadSetting(f"the {self.kind} {source} cannot be imported: {type(error).__name__}{place}: {told}") from error

    def _checked(self, module: Any, name: str) -> ModuleType:
        if not isinstance(module, ModuleType):
            raise BadSetting(f"{self.kind} {name!r}: its entry point gives {module!r}, not a module; let it name the module alone")
        lacking = [n for n in self.needs if not hasattr(module, n)]
        if lacking:
            raise BadSetting(f"{self.kind} {name!r} ({module.__file__}) does not define {' and '.join(lacking)}")
        return module
