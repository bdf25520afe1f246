"""The card of a plug-in without the import of its file: a network's file imports torch, which takes
seconds, and its card does not need it.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LIGHT = ("ecgbench.cards", "ecgbench.core", "ecgbench.ecg", "ecgbench.errors")
"""Packages that a card may be made of, beside Python's own and other cards of its room."""


@cache
def card_of(module: str) -> Any:
    """The CARD of a module of this package; None where it needs more than LIGHT, so that only the
    import gives it.
    """
    return _names(module).get("CARD")


@cache
def _names(module: str) -> dict[str, Any]:
    """What the imports of LIGHT and the assignments of a file give, up to its (last) CARD. A line
    that needs anything else is left out, and with it what follows from that line.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return {}
    names: dict[str, Any] = {"__name__": module}
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        match node:
            case ast.ImportFrom(module=str(other), level=0) if _parent(other) == _parent(module):
                known = _names(other)
                names |= {a.asname or a.name: known[a.name] for a in node.names if a.name in known}
            case ast.ImportFrom() | ast.Import() if all(map(_light, _imported(node))):
                _execute(node, spec.origin, names)
            case ast.Assign() | ast.AnnAssign() if "CARD" not in names or _of_card(node):
                _execute(node, spec.origin, names)
    return names


def _of_card(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(one, ast.Name) and one.id == "CARD" for one in targets)


def _parent(module: str) -> str:
    return module.rpartition(".")[0]


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    else:
        yield node.module or ""


def _light(module: str) -> bool:
    return module.split(".")[0] in sys.stdlib_module_names or module.startswith(LIGHT)


def _execute(node: ast.stmt, file: str, names: dict[str, Any]) -> None:
    try:
        exec(compile(ast.Module([node], []), file, "exec"), names)
    except (NameError, ImportError):  # it needs a name that is not here
        return
