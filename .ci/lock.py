"""Writes lock/linux.txt and lock/linux-dev.txt anew (`make lock`): the versions of constraints.txt
with the hash of every file that a registry has of them. Needs `uv` on the PATH.

torch is in neither, for its builds (CPU, CUDA) differ, and nothing that only some of those bring;
pip takes it with the version of constraints.txt.
"""

import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "lock"
PYTHON = "3.11.5"  # what the pinned versions need
WHERE = f"sys_platform == 'linux' and python_full_version >= '{PYTHON}' and python_version < '3.14'"
BUILDS = re.compile(r"(torch|triton|nvidia-.*|cuda-.*|torchvision)==")
"""What depends on the build of torch."""
HEAD = (
    "# {what}, for Linux, with hashes; without torch, whose builds differ. "
    "Written by `make lock`.\n"
)


def locked(requirements: list[str]) -> list[str]:
    """One entry for each package that these need: name, version, marker and hashes."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "in.txt").write_text("\n".join(requirements) + "\n")
        (work / "pyproject.toml").write_text(
            f'[project]\nname = "locked"\nversion = "0"\nrequires-python = ">={PYTHON}"\n'
            f'[tool.uv]\nenvironments = ["{WHERE}"]\n'
        )
        command = ["uv", "pip", "compile", "in.txt", "--constraint", ROOT / "constraints.txt"]
        command += ["--universal", "--python-version", PYTHON, "--generate-hashes"]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--quiet"]
        command += ["--output-file", "out.txt"]
        subprocess.run(command, cwd=work, check=True)
        text = (work / "out.txt").read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    return [entry for entry in entries if not BUILDS.match(entry)]


def main() -> None:
    """Both files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *build]
    for extra in ("formats", "graph", "timm"):
        needed += extras[extra]
    more = [text for text in [*extras["docs"], *extras["dev"]] if "ecgbench-leads" not in text]
    plain = locked(needed)
    dev = [entry for entry in locked([*needed, *more]) if entry not in plain]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "linux.txt").write_text(
        HEAD.format(what="What ecgbench needs") + "\n".join(plain) + "\n"
    )
    text = HEAD.format(what="What its development needs too") + "-r linux.txt\n"
    (FOLDER / "linux-dev.txt").write_text(text + "\n".join(dev) + "\n")


if __name__ == "__main__":
    main()
