"""The wheel as a user gets it: built, installed outside the checkout, and tested there (`make
wheel`).

The dependencies are those of the environment that runs this script; the package itself is found in
the installed wheel alone, which is asserted. Tests that need no file of the checkout are copied
out.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/conftest.py", "tests/tiny.py", "tests/core/test_registry.py")
LISTS = ("list models", "list tasks", "list reports", "list plans")
RUN = "run --models laef,tests/tiny.py --tasks demo --weights laef=released,tiny=random --limit 40"
RUN += " --leads I,12 --out run"


def main() -> None:
    """Build, install, ask the installed command, run the copied tests."""
    with tempfile.TemporaryDirectory() as folder:
        away = Path(folder)
        source = away / "source"
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for name in names:
            if (ROOT / name).is_file() and not name.startswith(("tests/", "reports/")):
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, source / name)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", str(away), str(source)], check=True)
        wheel = next(away.glob("*.whl"))
        site = away / "site"
        subprocess.run(
            [*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True
        )
        for name in TESTS:
            (away / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, away / name)
        options = (ROOT / "pyproject.toml").read_text().partition("[tool.pytest.ini_options]")[2]
        settings = options.replace('testpaths = ["tests", "ecgbench"]', 'testpaths = ["tests"]')
        (away / "pyproject.toml").write_text("[tool.pytest.ini_options]" + settings)
        env = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        where = "import ecgbench, pathlib; print(pathlib.Path(ecgbench.__file__).parents[1])"
        found = subprocess.run(
            [sys.executable, "-c", where],
            cwd=away,
            env=env,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        assert Path(found) == site, f"tested is {found}, not the wheel in {site}"
        for words in (*LISTS, "run --help", RUN, "report run"):
            command = [sys.executable, "-m", "ecgbench", *words.split()]
            subprocess.run(command, cwd=away, env=env, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "tests"], cwd=away, env=env, check=True
        )


if __name__ == "__main__":
    main()
