"""LAEF to and from folders and repositories of the Hub: reading by huggingface_hub from a server of
this machine, writing by a double.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file

from ecgbench.core.cards import Weights
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.models import laef
from ecgbench.models.laef import Laef
from ecgbench.weights import shipped
from ecgbench.weights.load import digest


@pytest.fixture
def network() -> Laef:
    torch.manual_seed(7)
    return laef.build()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that a local Hub serves, and into which HfApi writes: <owner>/<name>/<file>."""
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

    class Api:
        def __init__(self, **words: Any) -> None: ...

        def create_repo(self, name: str, **words: Any) -> SimpleNamespace:
            (shelf / name).mkdir(parents=True, exist_ok=True)
            return SimpleNamespace(repo_id=name)

        def file_exists(self, name: str, file: str) -> bool:
            return (shelf / name / file).exists()

        def upload_folder(
            self,
            *,
            repo_id: str,
            folder_path: str,
            commit_message: str,
            ignore_patterns: list[str] | None,
        ) -> str:
            shutil.copytree(
                folder_path,
                shelf / repo_id,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(*ignore_patterns or []),
            )
            return f"{repo_id}: {commit_message}"

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
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


def test_float16_is_float32_once_it_is_loaded(network: Laef, tmp_path: Path) -> None:
    network.save_pretrained(tmp_path)
    save_file(
        {name: t.half() for name, t in network.state_dict().items()}, tmp_path / "model.safetensors"
    )
    assert {p.dtype for p in Laef.from_pretrained(tmp_path).parameters()} == {torch.float32}


@pytest.mark.long
def test_a_repository_gives_back_what_was_pushed_and_keeps_its_card(
    network: Laef, hub: Path
) -> None:
    assert network.push_to_hub("ecgbench/laef") == "ecgbench/laef: LAEF"
    assert digest(Laef.from_pretrained("ecgbench/laef")) == digest(network)
    (hub / "ecgbench" / "laef" / "README.md").write_text("its owner's words")
    network.push_to_hub("ecgbench/laef", commit_message="again")
    assert (hub / "ecgbench" / "laef" / "README.md").read_text() == "its owner's words"


def test_what_cannot_be_had_is_one_line(
    network: Laef, hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        BadSetting,
        match=(
            r"ecgbench/nothing is not a folder here, and its config\.json could not be "
            r"downloaded"
        ),
    ):
        Laef.from_pretrained("ecgbench/nothing")
    with pytest.raises(BadSetting, match="relesed is no folder, and no repository of the Hub"):
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

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", refuse)
    with pytest.raises(
        BadSetting,
        match=r"ecgbench/laef could not be written on the Hub \(no connection to 127\.0\.0\.1",
    ):
        network.push_to_hub("ecgbench/laef")


def test_the_shipped_weights_are_named_and_no_others(
    network: Laef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "models" / "laef" / "laef.safetensors"
    path.parent.mkdir(parents=True)
    save_file({name: t.half() for name, t in network.state_dict().items()}, path)
    told = Weights(
        name="released",
        url="models/laef/laef.safetensors",
        file=path.name,
        licence="MIT",
        sha256=hash_of(path),
    )
    monkeypatch.setattr(laef, "CARD", replace(laef.CARD, weights=(told,)))
    monkeypatch.setattr(shipped, "PLACES", (tmp_path / "models",))
    page = tmp_path / "mine" / "README.md"
    ours = Laef.from_pretrained()
    ours.save_pretrained(page.parent)
    assert (
        f"models/laef/laef.safetensors (sha256 {told.sha256}), here in float32" in page.read_text()
    )
    network.save_pretrained(page.parent)
    assert "has not scored them" in page.read_text()
    path.write_bytes(b"damaged")
    ours.save_pretrained(page.parent)
    assert "has not scored them" in page.read_text()


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.long
def test_the_class_is_imported_without_the_hub() -> None:
    code = "import sys, ecgbench.models.laef; print('huggingface_hub' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )
