"""Named studies: each file is a plan (`study.plan_file`) whose first comment tells what it takes
and what to expect.
"""

from pathlib import Path

from ecgbench.core.registry import plain
from ecgbench.errors import UnknownName

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The names of the plans."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def path(name: str) -> Path:
    """The file of a plan; UnknownName."""
    for known in names():
        if plain(known) == plain(name):
            return _FOLDER / f"{known}.toml"
    raise UnknownName("plan", name, names(), "Or give the path of a file plan.toml.")


def about(name: str) -> str:
    """Its first comment."""
    lines = path(name).read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)
