"""The wheel and the sdist as a user gets them: built, checked, installed outside the checkout, and
tested there (`make wheel`).

The dependencies are those of the environment that runs this script; `newest` or `lowest` behind the
script's name takes an environment of its own, with the newest versions that pyproject.toml allows,
or the lowest that it states (see lowest.py). The package itself is found in the installed wheel
alone, which is asserted. Tests that need no file of the checkout are copied out. Both files lie
in dist/ afterwards.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import lowest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/conftest.py", "tests/tiny.py", "tests/core/test_registry.py")
LISTS = ("list models", "list tasks", "list reports", "list plans")
RUN = "run --models laef,tests/tiny.py --tasks demo --weights laef=released,tiny=random --limit 40"
RUN += " --leads I,12 --out run"
TOOLS = ("build==1.6.1", "twine==7.0.0")
PIP = ("--disable-pip-version-check", "--quiet", "install")
MOST = 19e6
"""Bytes of the wheel, which holds weights once: LAEF 14.2 million, Limb6-rhythm 2.9 million."""


def _copied(source: Path) -> None:
    """The files of the checkout that a package needs; also those that are not committed yet."""
    listing = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "reports/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)


def _environment(folder: Path, *needs: str) -> str:
    """The interpreter of a new environment with some packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", *PIP, *needs], check=True)
    return python


def _built(away: Path) -> Path:
    """The wheel, made from the sdist; both are checked and lie in dist/."""
    _copied(away / "source")
    tools = _environment(away / "tools", *TOOLS)
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    subprocess.run(
        [tools, "-m", "build", "--outdir", str(dist), str(away / "source")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    subprocess.run([tools, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    weights = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".safetensors")]
    assert len(weights) == len({Path(one).name for one in weights}) == 2, weights
    print(f"{wheel.name}: {(size := wheel.stat().st_size) / 1e6:.1f} MB")
    assert size <= MOST, f"{size} bytes, more than {MOST:.0f}"
    return wheel


def main() -> None:
    """Build, install, ask the installed command, run the copied tests."""
    with tempfile.TemporaryDirectory() as folder:
        away = Path(folder)
        wheel = _built(away)
        env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        env.pop("PYTHONPATH", None)
        if versions := sys.argv[1:]:
            (away / "pins.txt").write_text(lowest.constraints() if "lowest" in versions else "")
            needs = (f"{wheel}[formats,graph]", "pytest", "hypothesis")
            python = _environment(away / "env", "-c", str(away / "pins.txt"), *needs)
            (site,) = (away / "env" / "lib").glob("*/site-packages")
        else:
            python, site = sys.executable, away / "site"
            target = ("--no-deps", "--target", str(site), str(wheel))
            subprocess.run([python, "-m", "pip", *PIP, *target], check=True)
            env["PYTHONPATH"] = str(site)
        for name in TESTS:
            (away / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, away / name)
        options = (ROOT / "pyproject.toml").read_text().partition("[tool.pytest.ini_options]")[2]
        settings = options.replace('testpaths = ["tests", "ecgbench"]', 'testpaths = ["tests"]')
        (away / "pyproject.toml").write_text("[tool.pytest.ini_options]" + settings)
        where = "import ecgbench, pathlib; print(pathlib.Path(ecgbench.__file__).parents[1])"
        found = subprocess.run(
            [python, "-c", where],
            cwd=away,
            env=env,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        assert Path(found) == site, f"tested is {found}, not the wheel in {site}"
        for words in (*LISTS, "run --help", RUN, "report run", "cite run"):
            command = [python, "-m", "ecgbench", *words.split()]
            subprocess.run(command, cwd=away, env=env, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([python, "-m", "pytest", "-q", "tests"], cwd=away, env=env, check=True)


if __name__ == "__main__":
    main()
