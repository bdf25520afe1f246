"""Code beside a plug-in is found as Python finds it beside a script: `import helper`,
`from mynets.blocks import X` and `from .helper import X`.
"""

import hashlib
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

_homes: list[str] = []
"""Folders of plug-ins, the one that was used last first; at the end of Python's path."""


def package_of(home: Path, folder: Path) -> str:
    """The name of the package in which a module of `folder` finds its neighbours; `home`: the
    folder above its outermost package. What __init__.py files there raise is raised.
    """
    root = f"ecgbench_beside_{hashlib.sha256(str(home).encode()).hexdigest()[:12]}"
    if root not in sys.modules:
        sys.modules[root] = package = ModuleType(root)
        package.__path__ = [str(home)]
    name = ".".join([root, *folder.relative_to(home).parts])
    importlib.import_module(name)
    return name


@contextmanager
def neighbours(home: Path) -> Iterator[None]:
    """Inside and afterwards, what lies in `home` is found, behind all that is installed. A module
    of the same name that belongs to a plug-in elsewhere is not taken for it. What was imported
    from there is forgotten where the block fails.
    """
    _forget_others(home)
    if (place := str(home)) not in sys.path or place in _homes:
        sys.path[:] = [p for p in sys.path if p not in _homes]
        _homes[:] = [place, *(p for p in _homes if p != place)]
        sys.path.extend(_homes)
    before = {*sys.modules}
    try:
        yield
    except BaseException:
        for name in {*sys.modules} - before:
            if _lies_in(name, home):
                del sys.modules[name]
        raise


def _forget_others(home: Path) -> None:
    """Modules of the folders of other plug-ins whose names are also here."""
    here = {path.stem for path in (*home.glob("*.py"), *home.glob("*/"))}
    others = [Path(place) for place in _homes if Path(place) != home]
    for name in list(sys.modules):
        theirs = name.split(".")[0] in here and any(_lies_in(name, other) for other in others)
        if theirs and not _lies_in(name, home):
            del sys.modules[name]


def _lies_in(name: str, folder: Path) -> bool:
    known = getattr(sys.modules.get(name), "__dict__", {})
    # a folder without __init__.py has no file
    place = known.get("__file__") or next(iter(known.get("__path__", ())), None)
    return isinstance(place, str) and Path(place).resolve().is_relative_to(folder)
