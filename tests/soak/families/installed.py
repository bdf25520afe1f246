"""Packages that lie beside ecgbench and enter its rooms, though the study uses none of them: with
names that are none, with names that others have, and with modules that must not be imported.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.soak.place import ROOMS, Place
from tests.soak.row import GOOD, Outcome, Row

BUILT_IN = {
    "adapters": "zero",
    "datasets": "ptbxl",
    "benchmark.engines": "inline",
    "metrics": "auroc",
    "models": "laef",
    "reports": "main_table",
    "suites": "paper",
}
"""A name in each room that is taken."""
UNASKED = ("suites",)
"""Rooms of which no command of the study asks for a name."""
MODULES = {
    "ends the process": "import os; os._exit(0)",
    "raises": "1 / 0",
    "cannot be parsed": "def (",
    "never ends": "while True: pass",
    "changes the scores": "from ecgbench.metrics import auroc; auroc.value = lambda t, s: 1.0",
}
NAMES = {
    "a path": "../auroc",
    "a hidden file": ".auroc",
    "a bar": "a|b",
    "a control character": "a\x1b[31mb",
    "no letter": "-",
}
FILES = {
    "is no text": b"\x80\x81\xff\x00",
    "is empty": b"",
    "has no section": b"auroc = far_module\n",
    "names no module": b"[ecgbench.{group}]\nfar = \n",
    "names a function": b"[ecgbench.{group}]\nfar = os:getcwd\n",
    "is cut off": b"[ecgbench.{group}",
}


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """Each room with each kind; the cells of the study are computed beside it."""
    for group, taken in BUILT_IN.items():

        def row(
            name: str,
            enter: Callable[[Path], None],
            allowed: tuple[Outcome, ...] = ("survived",),
            group: str = group,
        ) -> Row:
            return Row("installed", f"{group}: {name}", "fits", partial(_beside, enter), allowed)

        for kind, text in MODULES.items():
            yield row(f"a module that {kind}", partial(_package, group, "far", text))
        for kind, name in NAMES.items():
            yield row(f"a name with {kind}", partial(_package, group, name, "1 / 0"), GOOD)
        for kind, content in FILES.items():
            listed = content.replace(b"{group}", group.encode())
            yield row(f"a list that {kind}", partial(_listed, listed), GOOD)
        twice: tuple[Outcome, ...] = ("survived",) if group in UNASKED else ("refused",)
        yield row("a name that is taken", partial(_package, group, taken, "1 / 0"), twice)
        yield row("two of one name", partial(_two, group), twice)


def _beside(enter: Callable[[Path], None], place: Place) -> None:
    """Packages are installed, and the run and its report given again."""
    site = place.folder / "site"
    enter(site)
    place.harmed = [site]
    sys.path.append(str(site))
    os.environ["PYTHONPATH"] += os.pathsep + str(site)
    importlib.invalidate_caches()
    for room in ROOMS:
        vars(room.ROOM).pop("_installed", None)
    place.mark()
    if place.run().code != 2:
        place.report()


def _package(group: str, name: str, text: str, site: Path, called: str = "far") -> None:
    """A package with one plug-in."""
    _listed(f"[ecgbench.{group}]\n{name} = {called}_module\n".encode(), site, called)
    (site / f"{called}_module.py").write_text(f"{text}\n")


def _two(group: str, site: Path) -> None:
    _package(group, "far", "1 / 0", site)
    _package(group, "Far", "1 / 0", site, "other")


def _listed(content: bytes, site: Path, called: str = "far") -> None:
    """A package whose list of plug-ins holds this."""
    about = site / f"{called}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {called}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_bytes(content)
