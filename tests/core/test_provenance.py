"""Provenance: what code, which versions, what command; no path, and no guess where git says
nothing.
"""

import inspect
import shutil
import subprocess
from pathlib import Path

import pytest

import ecgbench
from ecgbench.core import provenance

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def code() -> dict[str, object]:
    return dict(inspect.unwrap(provenance.code)())


def git(folder: Path, *words: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", str(folder), *names, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a checkout of the package, not under git yet."""
    # set where the tests run from a hook of git
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "ecgbench").mkdir()
    (tmp_path / "ecgbench" / "__init__.py").write_text("")
    monkeypatch.setattr(ecgbench, "__file__", str(tmp_path / "ecgbench" / "__init__.py"))
    return tmp_path


@needs_git
def test_commit_and_dirty_flag_are_those_of_the_checkout(checkout: Path) -> None:
    assert code() == {"version": ecgbench.__version__, "commit": None, "dirty": None}
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "first")
    assert code() == {
        "version": ecgbench.__version__,
        "commit": git(checkout, "rev-parse", "HEAD"),
        "dirty": False,
    }
    (checkout / "runs.txt").write_text("a file nobody added changes no number")
    (checkout / "reports").mkdir()
    (checkout / "reports" / "index.html").write_text("a report of this commit")
    assert code()["dirty"] is False
    plugin = checkout / "ecgbench" / "models" / "mine.py"
    plugin.parent.mkdir()
    plugin.write_text("a file of a room is a plug-in")
    assert code()["dirty"] is True
    plugin.unlink()
    (checkout / "ecgbench" / "__init__.py").write_text("changed")
    assert code()["dirty"] is True


@needs_git
def test_an_installed_package_does_not_take_the_commit_of_the_folder_above(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "site").mkdir()
    (checkout / "ecgbench").rename(checkout / "site" / "ecgbench")
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "someone else's")
    monkeypatch.setattr(ecgbench, "__file__", str(checkout / "site" / "ecgbench" / "__init__.py"))
    assert code()["commit"] is None


def test_without_git_nothing_is_claimed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / ".git").mkdir()
    assert (code()["commit"], code()["dirty"]) == (None, None)
    monkeypatch.setenv("PATH", "")
    assert (code()["commit"], code()["dirty"]) == (None, None)
    monkeypatch.setattr(
        provenance, "_git", lambda folder, *words: "abc" if "rev-parse" in words else None
    )
    assert (code()["commit"], code()["dirty"]) == ("abc", None)


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.argv", ["/somewhere/bin/ecgbench", "run", "--leads", "I, II", "--out", "a b"]
    )
    assert provenance.command() == "ecgbench run --leads 'I, II' --out 'a b'"
