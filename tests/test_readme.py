"""The commands of README.md and adapters/README.md, as they are typed.

Their networks are the true ones; PTB-XL, the authors' weights and the recordings are stand-ins. The
targets of make that they name are those of .ci/run, and the tutorials run in `make docs`.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import requests
import torch
import typer.main
from requests.adapters import HTTPAdapter

from ecgbench import models
from ecgbench.cli import app
from ecgbench.datasets import demo
from ecgbench.study import engines
from ecgbench.weights import released
from tests.fetch.test_datasets import Site, sums

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "adapters/README.md")
WATCH = 'Name,"Doe, Jane"\nDevice,"Watch6,2"\nSample Rate,512 hertz\n\nLead,Lead I\nUnit,µV\n\n'


def commands(page: str) -> list[str]:
    """The lines of the blocks of a page, without comments."""
    blocks = re.findall(r"^    (\S.*)$", (ROOT / page).read_text(), re.M)
    return [line.partition(" #")[0].strip() for line in blocks]


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server of this machine that answers for every host."""
    made, genuine = Site(), HTTPAdapter.send

    def send(self: HTTPAdapter, request: Any, **words: Any) -> requests.Response:
        sent = request.copy()
        sent.url = made.url + request.path_url
        response = genuine(self, sent, **words)
        response.url, response.request = request.url, request
        return response

    monkeypatch.setattr(HTTPAdapter, "send", send)
    yield made
    made.close()


@pytest.fixture
def published(
    internet: Site, ptbxl_copy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PTB-XL with 30 invented records, and the authors' files with random numbers."""
    root = ptbxl_copy.make(tmp_path / "physionet")
    files = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*.*")}
    files["SHA256SUMS.txt"] = sums(files)
    internet.serve({f"files/ptb-xl/1.0.3/{name}": body for name, body in files.items()})
    for name in ("merl", "ecgfounder"):
        module, path = models.get(name), tmp_path / name
        (layout,) = module.CARD.weights
        state: dict[str, Any] = module.build().state_dict()
        for key in layout.container:
            state = {key: state}
        torch.save(state, path)
        internet.serve_one(name, path.read_bytes())
        here = replace(layout, url=f"https://authors.test/{name}", sha256=released.sha256(path))
        monkeypatch.setattr(module, "CARD", replace(module.CARD, weights=(here,)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the commands are typed, with what the README supposes: recordings of a watch."""
    made = tmp_path / "typed"
    rows, seconds = ["record,patient,fast"], np.arange(10 * 512) / 512
    for name in ("FOLDER", "NEW"):
        (made / name).mkdir(parents=True)
    for number in range(30):
        fast, draw = number % 2, np.random.default_rng(number)
        beats = np.cos(np.pi * (1 + fast) * seconds + draw.uniform(0, 3)) ** 60
        text = WATCH + "\n".join(f"{v:.3f}" for v in 900 * beats + draw.normal(0, 20, 5120))
        (made / "FOLDER" / f"ecg_{number}.csv").write_text(text, encoding="utf-8")
        rows.append(f"ecg_{number},P{number},{fast}")
    shutil.copy(made / "FOLDER" / "ecg_0.csv", made / "NEW" / "today.csv")
    (made / "labels.csv").write_text("\n".join(rows) + "\n")
    return made


@pytest.mark.long
@pytest.mark.usefixtures("one_thread", "published")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works(
    page: str,
    folder: Path,
    here: Callable[..., "subprocess.CompletedProcess[str]"],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # jobs in this process, which knows the stand-ins
    monkeypatch.setattr(engines.get("local"), "run", engines.get("inline").run)
    every = demo.index
    monkeypatch.setattr(demo, "index", lambda root: every(root)[::4].reset_index(drop=True))
    lines = commands(page)
    assert lines
    for line in lines:
        if line.startswith(("make ", "source ")):  # the tests run in that environment
            continue
        program, *words = line.split()
        assert program == "ecgbench"
        if "mynet=best.pt" in line:
            network = models.get(str(folder / "adapters" / "mynet.py")).build()
            torch.save(network.state_dict(), folder / "best.pt")
        done = here(*words, cwd=folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    for out in re.findall(r"--out (\S+)", "\n".join(lines)):
        assert (folder / out / "plan.toml").exists()


def test_options_that_docs_type_are_those_of_their_commands() -> None:
    lost = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text().replace("\\\n", " ")  # a command of several lines
        for line in re.findall(r"^(?: {4}|)ecgbench (.*)$", text, re.M):
            command: Any = typer.main.get_command(app)
            words = re.split(r" #| \| ", line)[0].split()
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            known = {name for option in command.params for name in option.opts} | {"--help"}
            lost += [f"{page.name}: {line}: {w}" for w in words if w[0] == "-" and w not in known]
    assert lost == []


def test_every_target_of_make_that_a_page_names_is_run_by_ci() -> None:
    ran = re.findall(r"^make (\w+)", (ROOT / ".ci" / "run").read_text(), re.M)
    pages = [line.split() for page in (*PAGES, "CONTRIBUTING.md") for line in commands(page)]
    named = [word for first, *words in pages if first == "make" for word in words]
    assert named
    assert set(named) <= set(ran)


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "tutorials").glob("*.md")), ids=lambda p: p.stem
)
def test_every_block_of_a_tutorial_is_executed(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.M)
    opened = fences[::2]
    assert opened
    assert [words for words in opened if 'exec="1"' not in words] == []
    assert not any(fences[1::2])
