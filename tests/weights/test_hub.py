"""LAEF to and from folders, and from repositories of the Hub: by huggingface_hub from a server of
this machine.
"""

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ecgbench.errors import BadSetting, BadWeights, UnknownName
from ecgbench.models import laef
from ecgbench.models.laef import Laef
from ecgbench.weights.load import digest


@pytest.fixture
def network() -> Laef:
    torch.manual_seed(7)
    return laef.build()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that a local Hub serves: <owner>/<name>/<file>."""
    shelf = tmp_path / "hub"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = shelf / self.path.strip("/").replace("resolve/main/", "")
            body = path.read_bytes() if path.is_file() else b""
            self.send_response(200 if body else 404)
            tag = hashlib.sha256(body).hexdigest()
            told = {"Content-Length": str(len(body)), "ETag": f'"{tag}"', "X-Repo-Commit": tag[:40]}
            for name, value in (
                told if body else {"Content-Length": "0", "X-Error-Code": "EntryNotFound"}
            ).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield shelf
    server.shutdown()
    server.server_close()


def test_a_folder_gives_back_what_was_saved(network: Laef, tmp_path: Path) -> None:
    network.save_pretrained(tmp_path / "mine")
    assert {p.name for p in (tmp_path / "mine").iterdir()} == {
        "model.safetensors",
        "config.json",
        "README.md",
    }
    found = Laef.from_pretrained(tmp_path / "mine")
    assert not found.training
    assert digest(found) == digest(network)
    (tmp_path / "mine" / "README.md").write_text("my own words")
    first = (tmp_path / "mine" / "model.safetensors").read_bytes()
    network.save_pretrained(str(tmp_path / "mine"))
    assert (tmp_path / "mine" / "README.md").read_text() == "my own words"
    assert (tmp_path / "mine" / "model.safetensors").read_bytes() == first


def test_the_folder_of_the_repository_is_read_as_it_lies_there(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "models" / "laef"
    assert digest(Laef.from_pretrained(folder)) == digest(Laef.from_pretrained("released"))
    # a file of that name with other values is not the one that the card names
    other = tmp_path / "laef.safetensors"
    save_file({name: t + 1 for name, t in load_file(folder / other.name).items()}, other)
    with pytest.raises(BadSetting, match=r"holds no config\.json"):
        Laef.from_pretrained(tmp_path)


def test_the_shipped_weights_keep_their_card_and_changed_ones_do_not(tmp_path: Path) -> None:
    network = Laef.from_pretrained("released")
    network.save_pretrained(tmp_path / "same")
    page = (tmp_path / "same" / "README.md").read_text()
    own = (Path(__file__).parents[2] / "models" / "laef" / "README.md").read_text()
    assert page.startswith("---\nlibrary_name: ecgbench")
    assert own in page
    with torch.no_grad():
        next(network.parameters()).view(-1)[0] += 1e-3
    network.save_pretrained(tmp_path / "changed")
    assert "knows nothing of their training" in (tmp_path / "changed" / "README.md").read_text()


def test_float16_is_float32_once_it_is_loaded(network: Laef, tmp_path: Path) -> None:
    network.save_pretrained(tmp_path)
    save_file(
        {name: t.half() for name, t in network.state_dict().items()}, tmp_path / "model.safetensors"
    )
    assert {p.dtype for p in Laef.from_pretrained(tmp_path).parameters()} == {torch.float32}


def test_a_repository_gives_back_what_was_saved(network: Laef, hub: Path) -> None:
    network.save_pretrained(hub / "ecgbench" / "laef")
    assert digest(Laef.from_pretrained("ecgbench/laef")) == digest(network)


def test_what_cannot_be_had_is_one_line(network: Laef, hub: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BadSetting,
        match=(
            r"ecgbench/nothing is not a folder here, and its config\.json could not be "
            r"downloaded"
        ),
    ):
        Laef.from_pretrained("ecgbench/nothing")
    with pytest.raises(UnknownName, match="did you mean released"):
        Laef.from_pretrained("relesed")
    network.save_pretrained(tmp_path / "mine")
    config = tmp_path / "mine" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "network": "BERT"}))
    with pytest.raises(BadWeights, match="holds weights of 'BERT', not of LAEF"):
        Laef.from_pretrained(tmp_path / "mine")
    (tmp_path / "mine" / "config.json").unlink()
    (tmp_path / "mine" / "pytorch_model.bin").touch()  # a pickle is no way out
    with pytest.raises(BadSetting, match=r"holds no config\.json"):
        Laef.from_pretrained(tmp_path / "mine")


def test_a_name_on_the_card_is_no_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "released").mkdir()
    monkeypatch.chdir(tmp_path)
    assert digest(Laef.from_pretrained()) == digest(laef.build("released"))


@pytest.mark.long
def test_the_class_is_imported_without_the_hub() -> None:
    code = "import sys, ecgbench.models.laef; print('huggingface_hub' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )
