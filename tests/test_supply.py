"""Where the code of others comes from: pinned, by hash where that can be."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
ENTRY = re.compile(
    r"^([\w.-]+)==([\w.]+)(?: ;.*)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M
)
LOCKS = {name: (ROOT / "lock" / name).read_text() for name in ("linux.txt", "linux-dev.txt")}
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(name: str) -> dict[str, str]:
    return {entry[0]: entry[1] for entry in ENTRY.findall(LOCKS[name])}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_the_pinned_versions_with_their_hashes(name: str) -> None:
    lines = [x for x in LOCKS[name].splitlines() if x[:1] not in ("#", " ", "-")]
    assert len(locked(name)) == len(lines) > 20, "each line has hashes"
    assert locked(name).items() <= PINS.items()
    assert not {"torch", "triton"} & {*locked(name)}
    assert "://" not in LOCKS[name], "no address of a registry"


def test_the_locks_hold_all_that_is_needed_but_torch() -> None:
    plain = locked("linux.txt")
    both = plain | locked("linux-dev.txt")
    assert "\n-r linux.txt\n" in LOCKS["linux-dev.txt"]
    extras = PROJECT["optional-dependencies"]
    more = [need for extra in ("formats", "graph", "timm") for need in extras[extra]]
    for texts, there in (
        ([*PROJECT["dependencies"], *more], plain),
        ([*extras["docs"], *extras["dev"]], both),
    ):
        for need in map(Requirement, texts):
            name = canonicalize_name(need.name)
            if name not in ("torch", "torchvision", canonicalize_name(PROJECT["name"])):
                assert need.specifier.contains(there[name]), name
    assert {*PINS} - {*both} == {"torch", "torchvision"}, "run: make lock"


def test_actions_are_named_by_their_commit() -> None:
    used = [
        line.split("uses:")[1].strip()
        for file in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in file.read_text().splitlines()
        if "uses:" in line
    ]
    assert used
    assert [u for u in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", u)] == []
