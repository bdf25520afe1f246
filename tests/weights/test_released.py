"""From an authors' file to `--weights released`: conversion, hashes, terms, archives, and
what is said where it fails.
"""

import hashlib
import json
import os
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from torch import nn

from ecgbench.core.files import locked
from ecgbench.errors import BadSetting, BadWeights, UnknownName
from ecgbench.evaluate import network
from ecgbench.models import ROOM
from ecgbench.weights import convert, load, released
from ecgbench.weights.chosen import ModelWeights
from tests.weights.ear import Ear

SAGE = '''"""Sage: two layers, published by nobody."""
from pathlib import Path
import torch
from torch import nn
from ecgbench.cards.model import InputContract, ModelCard, Weights
from ecgbench.weights import load

CARD = ModelCard(
    title="Sage (two layers)", summary="for tests", paper="none", origin="none", licence="MIT", parameters=28, dim=4, native=False,
    contracts=(InputContract(name="paper", fs=100, seconds=1, leads=("I",), unit="mV", filter=None, normalisation="none", fill="before",
                             policy="zero", absent="0 mV"),),
    groups={"early": ("body.",), "late": ("norm.",)},
    weights=(
        Weights(name="released", url=%(url)r, file=%(file)r, member=%(member)r, sha256=%(sha256)r, licence="CC BY-NC 4.0",
                container=("state_dict",), prefix="net.", drop=("head.",), terms="no commercial use"),
        Weights(name="older", url=%(url)r, file="old.pth", sha256=None, licence="MIT", container=("model",)),
    ),
)


class Sage(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)


def build(weights=None):
    network = Sage()
    if weights is not None:
        load.load(network, weights, CARD)
    return network
'''  # noqa: E501


class Author:
    """A model from outside whose authors publish their file at a local address."""

    def __init__(self, place: Path) -> None:
        self.place, self.shelf = place, place / "shelf"
        self.house = released.model_folder("sage")
        self.shelf.mkdir()
        self.server = ThreadingHTTPServer(
            ("127.0.0.1", 0), lambda *a: Quiet(*a, directory=str(self.shelf))
        )
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def model(self, file: str = "sage.pth", sha256: str | None = None, member: str = "") -> None:
        words = {"url": f"{self.url}/{file}", "file": file, "sha256": sha256, "member": member}
        ROOM.forget()
        (self.place / "sage.py").write_text(SAGE % words)
        assert ROOM.resolve(str(self.place / "sage.py")) == "sage"

    def publish(self, file: str = "sage.pth", seed: int = 1) -> Path:
        torch.manual_seed(seed)
        body = {f"net.{k}": v for k, v in ROOM.get("sage").build().state_dict().items()}
        torch.save(
            {"state_dict": body | {"head.weight": torch.zeros(5, 4)}, "epoch": 3}, self.shelf / file
        )
        return self.shelf / file

    def fetch(
        self, name: str = "released", given: Path | None = None, force: bool = False
    ) -> list[str]:
        ear = Ear()
        convert.fetch("sage", name, given, force, ear)
        return ear.heard

    def load(self) -> nn.Module:
        network: nn.Module = ROOM.get("sage").build(weights="released")
        return network


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Author]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
    made = Author(tmp_path)
    made.model()
    yield made
    made.server.shutdown()
    made.server.server_close()
    ROOM.forget()


def test_from_the_published_file_to_the_network(author: Author) -> None:
    source = author.publish()
    heard = author.fetch()
    network, notes = author.load(), json.loads((author.house / "released.json").read_text())
    authors = torch.load(source, weights_only=True)["state_dict"]
    assert all(torch.equal(t, authors[f"net.{name}"]) for name, t in network.state_dict().items())
    assert notes["source_sha256"] == hash_of(source)
    assert notes["tensors_sha256"] == load.digest(network)
    assert (notes["file"], notes["url"], notes["licence"]) == (
        "sage.pth",
        f"{author.url}/sage.pth",
        "CC BY-NC 4.0",
    )
    # the download is gone
    assert {p.name for p in author.house.iterdir()} == {
        ".lock",
        "released.json",
        "released.safetensors",
    }
    assert "no commercial use" in heard[0]
    assert hash_of(source) in heard[-1]
    assert author.fetch() == [
        f"sage, released: here already, {author.house / 'released.safetensors'}"
    ]
    author.fetch(force=True)
    conversion = author.house / "released.safetensors"
    written = conversion.read_bytes()
    for spoilt in (written[:-1] + bytes([written[-1] ^ 1]), written[:-9]):
        conversion.write_bytes(spoilt)
        assert not any("here already" in line for line in author.fetch())
        assert conversion.read_bytes() == written, "converted again"


def test_terms_are_told_whenever_an_authors_file_is_converted(author: Author) -> None:
    author.publish()
    for _ in range(2):
        assert "no commercial use" in author.fetch(force=True)[0]


def test_a_file_that_a_person_has_put_there_or_names(author: Author) -> None:
    source = author.publish()
    author.server.shutdown()
    author.house.mkdir(parents=True)
    shutil.move(source, author.house / "sage.pth")
    author.fetch()
    author.load()
    assert (author.house / "sage.pth").is_file()  # it is theirs
    shutil.move(author.house / "sage.pth", author.place / "sage (1).pth")
    assert any("converting" in line for line in author.fetch(given=author.place / "sage (1).pth"))
    with pytest.raises(
        BadSetting, match=r"--from .*x\.pth: no such file; give the path of sage\.pth"
    ):
        author.fetch(given=author.place / "x.pth")


def test_without_a_network_one_message_says_what_where_and_how(author: Author) -> None:
    author.server.shutdown()
    author.server.server_close()
    with pytest.raises(BadSetting) as caught:
        author.fetch()
    for word in (
        "sage.pth could not be downloaded (no connection to 127.0.0.1",
        f"{author.url}/sage.pth",
        str(author.house),
        "--from FILE",
    ):
        assert word in str(caught.value)
    # a plug-in is known by its path
    with pytest.raises(BadSetting, match=rf"run: ecgbench models fetch {author.place}/sage\.py\. "):
        author.load()


def test_what_is_not_weights_is_refused_and_not_kept(author: Author) -> None:
    (author.shelf / "sage.pth").write_text("<!DOCTYPE html><title>Sign in</title>")
    with pytest.raises(BadSetting, match="is a web page"):
        author.fetch()
    author.publish()
    author.fetch()
    author.load()


def test_the_hash_of_a_card_holds(author: Author) -> None:
    author.publish(seed=1)
    author.model(sha256=hash_of(author.shelf / "sage.pth"))
    assert not any("sha256" in line for line in author.fetch())
    before = load.digest(author.load())
    author.publish(seed=2)
    with pytest.raises(
        BadWeights, match=r"is not the authors' sage\.pth: its sha256 is [0-9a-f]{64}"
    ):
        author.fetch(force=True)
    assert load.digest(author.load()) == before  # the earlier conversion stays
    author.model(sha256="0" * 64)  # a later version of the card knows better
    with pytest.raises(BadWeights, match="is not the authors'"):
        author.load()


def test_a_conversion_that_was_changed_is_refused(author: Author) -> None:
    author.publish()
    author.fetch()
    path = author.house / "released.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    network = ROOM.get("sage").build()
    before = load.digest(network)
    with pytest.raises(BadWeights, match=r"is not as it was converted.*--force"):
        load.load(network, "released", ROOM.get("sage").CARD)
    assert load.digest(network) == before
    author.fetch(force=True)
    (author.house / "released.json").unlink()  # as a kill between the two files leaves it
    with pytest.raises(BadSetting, match="not on this machine"):
        author.load()


def test_a_file_for_another_name_of_the_card(author: Author) -> None:
    torch.save({"model": ROOM.get("sage").build().state_dict()}, author.place / "old.pth")
    with pytest.raises(BadWeights, match=r"is not a file of weights of Sage .*read as released: "):
        author.fetch(given=author.place / "old.pth")
    author.fetch("older", given=author.place / "old.pth")
    with pytest.raises(UnknownName, match="did you mean older"):
        author.fetch("oldr")


def test_only_one_command_fetches_a_model(author: Author) -> None:
    with (
        locked(author.house),
        pytest.raises(BadSetting, match="another command is fetching weights of sage"),
    ):
        author.fetch()


def archive(author: Author, *members: tuple[str, bytes]) -> Path:
    path = author.shelf / "Sage Checkpoint.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members:
            out.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "inside",
    [
        "../../../last.ckpt",
        *(
            pytest.param(p, marks=pytest.mark.long)
            for p in ("last.ckpt", "ECG Checkpoint/last.ckpt")
        ),
    ],
)
def test_weights_in_an_archive(inside: str, author: Author) -> None:
    content = author.publish("last.ckpt").read_bytes()
    author.model(
        "Sage Checkpoint.zip", sha256=hash_of(author.shelf / "last.ckpt"), member="last.ckpt"
    )
    before = set(author.place.parent.rglob("last.ckpt"))
    path = archive(
        author, (inside, content), ("__MACOSX/._last.ckpt", b"x"), ("config.yaml", b"a: 1")
    )
    author.fetch(given=path)
    whole = load.digest(author.load())
    assert set(author.place.parent.rglob("last.ckpt")) == before
    author.fetch(given=author.shelf / "last.ckpt")  # unpacked by the browser
    assert load.digest(author.load()) == whole
    assert load.digest(ROOM.get("sage").build(weights=path)) == whole


def test_archives_that_are_none(author: Author) -> None:
    author.model("Sage Checkpoint.zip", member="last.ckpt")
    with pytest.raises(BadWeights, match=r"last\.ckpt cannot be unpacked .*holds 2 files"):
        author.fetch(given=archive(author, ("a/last.ckpt", b"x"), ("b/last.ckpt", b"x")))
    path = archive(author, ("last.ckpt", bytes(range(256)) * 99))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BadWeights, match=r"last\.ckpt cannot be unpacked"):
        author.fetch(given=path)


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_refused_whatever_its_reader_raises(kind: int, author: Author) -> None:
    author.model("Sage Checkpoint.zip", member="last.ckpt")
    path = author.place / "Sage Checkpoint.zip"
    with zipfile.ZipFile(path, "w", kind) as out:
        out.writestr("last.ckpt", bytes(range(256)) * 99)
    content = bytearray(path.read_bytes())
    content[45:60] = b"\xff" * 15
    path.write_bytes(content)
    with pytest.raises(BadWeights, match=r"last\.ckpt cannot be unpacked"):
        author.fetch(given=path)


def test_tensors_that_are_none_of_the_network(author: Author) -> None:
    """A number of float64 that float32 has not, and tensors without a shape of their own."""
    state = {f"net.{k}": v for k, v in ROOM.get("sage").build().state_dict().items()}
    for name, odd, said in (
        (
            "net.body.weight",
            torch.full((4, 4), 1e300, dtype=torch.float64),
            r"NaN or infinity in body\.weight",
        ),
        (
            "net.body.bias",
            torch.nested.nested_tensor([torch.ones(2), torch.ones(2)]),
            r"of the wrong shape or type: body\.bias",
        ),
    ):
        torch.save({"state_dict": state | {name: odd}}, author.place / "odd.pth")
        with pytest.raises(BadWeights, match=said):
            author.fetch(given=author.place / "odd.pth")


def test_released_or_random_takes_random_weights_only_where_there_are_no_others(
    author: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert network.build("sage", "released_or_random").weights == "random"
    author.publish()
    author.fetch()
    assert network.build("sage", "released_or_random").weights == "released"
    (author.house / "released.json").write_text("{broken")
    with pytest.raises(BadSetting, match=r"released\.json cannot be read"):
        network.build("sage", "released_or_random")


def test_the_hash_of_an_index_is_that_of_its_files_and_sees_every_change(tmp_path: Path) -> None:
    """Also one that leaves the size and the time of a file as they were."""
    index, part = tmp_path / "w.safetensors.index.json", tmp_path / "w.safetensors"
    index.write_text('{"weight_map": {"a": "w.safetensors"}}')
    hashes = set()
    for content in (b"one", b"two"):
        part.write_bytes(content)
        os.utime(part, (1, 1))
        hashes |= {released.sha256(part), released.sha256(index)}
    assert len(hashes) == 4


def test_the_origin_for_provenance(author: Author) -> None:
    card, path = ROOM.get("sage").CARD, author.publish()
    with pytest.raises(BadSetting, match="not on this machine"):
        ModelWeights.of(card, "released").origin()
    author.fetch()
    found = ModelWeights.of(card, "released").origin()
    assert (found["name"], found["file"], found["sha256"], found["licence"]) == (
        "released",
        "sage.pth",
        hash_of(path),
        "CC BY-NC 4.0",
    )
    assert found["tensors_sha256"] == load.digest(author.load())
    assert ModelWeights.of(card, path).origin() == {
        "name": "sage.pth",
        "file": "sage.pth",
        "sha256": hash_of(path),
        "licence": None,
        "url": None,
    }
    author.model(sha256=hash_of(path))
    known = ModelWeights.of(ROOM.get("sage").CARD, str(path)).origin()
    assert (known["name"], known["licence"], known["terms"]) == (
        "released",
        "CC BY-NC 4.0",
        "no commercial use",
    )
    assert ModelWeights.of(card, "random").origin()["sha256"] is None
    author.model("Sage Checkpoint.zip", member="last.ckpt", sha256=hash_of(path))
    zipped = archive(author, ("last.ckpt", path.read_bytes()))
    assert ModelWeights.of(ROOM.get("sage").CARD, zipped).origin()["licence"] == "CC BY-NC 4.0"
