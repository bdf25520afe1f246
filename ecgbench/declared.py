"""What a module declares at its top level, read without running the module: its docstring, its names, the value of one of them.

A card is a constant. It is made from the lines it rests on, and from no others, so listing the models loads no torch.
"""

import ast
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from ecgbench.errors import BadSetting

_BINDING = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


class Declared:
    """The top level of one Python file. BadSetting where it cannot be read or is no Python."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        """File and full name (`package.module`) of the module; the latter for its relative imports."""
        try:
            self._body = ast.parse(path.read_bytes(), str(path)).body
        except (OSError, SyntaxError, ValueError) as error:
            raise BadSetting(f"{path} cannot be read as Python: {error}") from None

    @property
    def docstring(self) -> str:
        """The module's docstring, or nothing."""
        return ast.get_docstring(ast.Module(self._body, [])) or ""

    @cached_property
    def names(self) -> set[str]:
        """Names that plain lines of the top level bind."""
        return {name for statement in self._body for name in _bound(statement)}

    def value(self, name: str) -> Any:
        """The value of a name, from the lines that it rests on.

        BadSetting where it cannot be had so, because those lines fail, or because lines of another kind (`if`, `try`, `CARD.x = 1`)
        speak of it: the module must then be imported.
        """
        space: dict[str, Any] = {"__name__": self.name, "__package__": self.name.rpartition(".")[0], "__file__": str(self.path)}
        try:
            exec(compile(ast.Module(self._slice(name), []), str(self.path), "exec"), space)
            return space[name]
        except Exception as error:  # a stranger's lines may fail in any way
            raise BadSetting(f"{self.path}: {name} needs the whole module: {type(error).__name__}: {error}") from error

    def _slice(self, name: str) -> list[ast.stmt]:
        """The lines that bind the name and what they need, in their order."""
        needed, kept = {name}, set[int]()
        grew = True
        while grew:
            found = {i for i, s in enumerate(self._body) if needed & set(_bound(s))}
            grew, kept = found != kept, found
            needed |= {n.id for i in kept for n in ast.walk(self._body[i]) if isinstance(n, ast.Name)}
        for i, statement in enumerate(self._body):
            if i not in kept and not isinstance(statement, _BINDING) and needed & _mentioned(statement):
                raise BadSetting(f"line {statement.lineno} speaks of what {name} rests on")
        return [self._body[i] for i in sorted(kept)]


def _bound(statement: ast.stmt) -> Iterable[str]:
    """Names that a plain line binds."""
    match statement:
        case ast.Assign() | ast.AnnAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
        case ast.FunctionDef() | ast.ClassDef():
            return [statement.name]
    return []


def _mentioned(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
