"""The tests with the lowest versions that pyproject.toml states (`make lowest`), in .venv-lowest.

Of pure-Python dependencies only: binary ones (torch, numpy, scipy, pandas, pyarrow, scikit-learn,
matplotlib, safetensors, h5py, psutil) keep the pins of constraints.txt, for old ones have no
wheels for new interpreters.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BINARY = {
    "torch",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "matplotlib",
    "safetensors",
    "h5py",
    "psutil",
    "python-calamine",
}


TESTING = ("hypothesis", "pytest", "resampy")
"""Requirements of the extra dev that tests import; the other tools ask for newer dependencies."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def constraints() -> str:
    """constraints.txt with the pins of the pure-Python dependencies lowered, the others' kept."""
    lowest = {}
    for text in PROJECT["dependencies"]:
        match = re.match(r"([\w.-]+)>=([\w.]+)", text)
        if match and match[1].lower() not in BINARY:
            lowest[match[1].lower().replace("_", "-")] = match[2]
    lines = []
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name = line.split("==")[0].strip().lower().replace("_", "-")
        if "==" not in line or name in lowest:
            continue
        lines.append(line)
    return "\n".join([*lines, *(f"{name}=={version}" for name, version in lowest.items())]) + "\n"


def main() -> None:
    """Install into .venv-lowest and run the tests; words after the script's name go to pytest."""
    env = ROOT / ".venv-lowest"
    python = str(env / "bin" / "python")
    if not env.exists():
        subprocess.run([sys.executable, "-m", "venv", str(env)], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write(constraints())
        pins.flush()
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        tools = [t for t in PROJECT["optional-dependencies"]["dev"] if t.startswith(TESTING)]
        package = f"{ROOT}[formats,graph,timm]"
        subprocess.run([*pip, "-c", pins.name, *tools, "-e", package], check=True)
    tests = sys.argv[1:] or ["-n", "2", "--dist", "loadfile", "-m", "not long"]
    threads = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([python, "-m", "pytest", *tests], cwd=ROOT, env=threads, check=True)


if __name__ == "__main__":
    main()
