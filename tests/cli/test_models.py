"""`ecgbench list models` and `ecgbench models fetch` as a person uses them: output, exit
codes, what is loaded, what is left.
"""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ecgbench import models

TINY = Path(__file__).parents[1] / "tiny.py"

PLUG_IN = '''"""{name}: one layer."""
from torch import nn
from ecgbench.cards.model import InputContract, ModelCard, Weights
from ecgbench.weights import load

CARD = ModelCard(
    title="{name}", summary="one layer", paper="none", origin="none", licence="MIT", parameters=20, dim=4, native=False,
    contracts=(InputContract(name="paper", fs=100, seconds=1, leads=("I",), unit="mV", filter=None, normalisation="none",
                             fill="before", policy="zero", absent="0 mV"),),
    groups={{"early": ("weight",), "late": ("bias",)}},
    weights=(Weights(name="released", url="http://127.0.0.1:9/{name}.pth", file="{name}.pth", sha256=None, licence="CC BY-NC 4.0",
                     container=("model",), terms="no commercial use"),),
)


def build(weights=None):
    network = nn.Linear(4, 4)
    if weights is not None:
        load.load(network, weights, CARD)
    return network
'''  # noqa: E501


Here = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with two models from outside, ada and bob; the file of ada's authors was downloaded
    by hand.
    """
    for name in ("ada", "bob"):
        (tmp_path / f"{name}.py").write_text(PLUG_IN.format(name=name))
    torch.save(
        {"model": torch.nn.Linear(4, 4).state_dict(), "epoch": 1}, tmp_path / "Downloaded (1).pth"
    )
    return tmp_path


def test_a_file_that_one_has_becomes_the_released_weights(here: Here, place: Path) -> None:
    words = ("fetch", "./ada.py", "--from", "Downloaded (1).pth")
    done = here("models", *words, cwd=place)
    assert done.returncode == 0, done.stderr
    for word in ("no commercial use", "licence: CC BY-NC 4.0", "which no card knows"):
        assert word in done.stderr
    assert (place / "cache" / "ada" / "released.safetensors").is_file()
    again = here("models", "fetch", "./ada.py", cwd=place)
    assert "here already" in again.stderr


@pytest.mark.long
def test_what_cannot_be_had_is_one_line_and_the_rest_is_fetched(here: Here, place: Path) -> None:
    alone = here("models", "fetch", "./bob.py", cwd=place)
    assert alone.returncode == 2
    last = alone.stderr.splitlines()[-1]
    for word in (
        "bob.pth could not be downloaded (no connection to 127.0.0.1:9)",
        "http://127.0.0.1:9/bob.pth",
        str(place / "cache" / "bob"),
    ):
        assert word in last
    (place / "cache" / "ada").mkdir()
    # where the message says
    (place / "Downloaded (1).pth").rename(place / "cache" / "ada" / "ada.pth")
    both = here("models", "fetch", "./bob.py", "./ada.py", cwd=place)
    assert both.returncode == 1
    assert "1 of 2 are here" in both.stdout
    assert sum(line.startswith("ecgbench: bob: ") for line in both.stderr.splitlines()) == 1
    assert (place / "cache" / "ada" / "released.safetensors").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("stmen",), "did you mean stmem?"),
        (("all", "--weights", "x"), "unknown weights 'x'"),
        (("stmem", "laef", "--from", "x.pth"), "name one"),
        (
            ("stmem", "--from", "x.pth"),
            "--from x.pth: no such file; give the path of st_mem_vit_base_full.pth",
        ),
        (("stmem", "--weights", "released-encodr"), "did you mean released-encoder"),
        ((), "NAME..."),
    ],
)
def test_bad_words_are_one_line_and_exit_2(
    here: Here, words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    done = here("models", "fetch", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]


def test_the_list_says_what_is_here(here: Here, tmp_path: Path) -> None:
    (tmp_path / "cache" / "stmem").mkdir(parents=True)
    for suffix in ("json", "safetensors"):
        (tmp_path / "cache" / "stmem" / f"released-encoder.{suffix}").write_text("{}")
    done = here("list", "models", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["stmem"]["here"] == ["released-encoder"]
    assert rows["stmem"]["weights"] == "released-encoder"
    assert rows["laef"]["weights"] == "here"
    assert "weights" in here("list", "models", cwd=tmp_path).stdout.splitlines()[0].split()


@pytest.mark.long
def test_a_run_tells_what_a_licence_forbids_and_stores_where_the_weights_come_from(
    typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a path whose name is that of the authors' file."""
    terms = (
        'weights=(Weights(name="released", url="", file="w.pth", sha256=None, licence="CC", '
        'terms="no commercial use"),),\n    native'
    )
    model, file, told = tmp_path / "known.py", tmp_path / "w.pth", list[int]()
    model.write_text(
        TINY.read_text()
        .replace("native", terms, 1)
        .replace("import InputContract", "import Weights, InputContract")
    )
    models.ROOM.forget()
    torch.save(models.get(models.resolve(str(model))).build().state_dict(), file)
    words = "--models", str(model), "--weights", str(file)
    broken = tmp_path / "broken.py"
    broken.write_text("def fill(signal, measured, state=None):\n    return None\n")
    for code, *more in ((1, "--policy", str(broken)), (0,), (0,)):
        assert typed(tmp_path / f"run{code}", *words, *more) == code
        told.append(capsys.readouterr().err.count("w.pth (CC): no commercial use"))
    assert told == [1, 1, 1]
    (network,) = (tmp_path / "run0" / "models").glob("*.json")
    source = json.loads(network.read_text())["weights_source"]
    assert (source["file"], source["sha256"]) == (
        "w.pth",
        hashlib.sha256(file.read_bytes()).hexdigest(),
    )
    assert str(tmp_path) not in json.dumps(source)
