"""Files of weights that are cut, empty, not what they seem, or made to harm; then a run with
them. Values cannot be judged: other numbers are other weights, and tables name their sha256.
"""

import io
import json
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save

from tests.soak.bases import WEIGHTS
from tests.soak.damage import harm
from tests.soak.place import Place
from tests.soak.row import Row

STRUCTURE = ("cut in half", "last byte cut", "empty", "zeros", "bytes appended", "removed")
Tensors = dict[str, torch.Tensor]


class _Calls:
    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("was_run"),)


def _header(change: Callable[[dict[str, dict[str, object]]], object]) -> Callable[[bytes], bytes]:
    """A safetensors file whose header says something else."""

    def changed(data: bytes) -> bytes:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        change(header[next(name for name in header if name != "__metadata__")])
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + size :]

    return changed


def _tensors(change: Callable[[Tensors], object]) -> Callable[[bytes], bytes]:
    """A whole file of other tensors."""

    def changed(data: bytes) -> bytes:
        file = Path("as_it_was.safetensors")
        file.write_bytes(data)
        tensors = load_file(file)
        file.unlink()
        change(tensors)
        return save(tensors)

    return changed


SAFETENSORS: dict[str, Callable[[bytes], bytes]] = {
    "a header of 2**63 bytes": lambda data: struct.pack("<Q", 2**63) + data[8:],
    "a shape of 2**62": _header(lambda one: one.update(shape=[2**62, 4])),
    "offsets beyond its end": _header(lambda one: one.update(data_offsets=[0, 2**40])),
    "a tensor less": _tensors(lambda t: t.popitem()),
    "a tensor more": _tensors(lambda t: t.update(more=torch.zeros(3))),
    "another shape": _tensors(lambda t: t.update({"first.weight": torch.zeros(2, 3)})),
    "integers": _tensors(lambda t: t.update({"norm.weight": torch.ones(96, dtype=torch.int64)})),
    "a NaN": _tensors(lambda t: t["norm.weight"].fill_(np.nan)),
    "an infinity": _tensors(lambda t: t["first.bias"].fill_(np.inf)),
}


def _archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


CHECKPOINTS: dict[str, Callable[[], bytes]] = {
    "a pickle that calls": lambda: pickle.dumps(_Calls()),
    "a checkpoint that calls": lambda: _archive({"w/data.pkl": pickle.dumps(_Calls())}),
    "an archive of something else": lambda: _archive({"readme.txt": b"hello"}),
    "a page of the web": lambda: b"<html>Sign in to download</html>",
}


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """All of them must be refused, and nothing in them is run."""
    for how in STRUCTURE:
        yield _row(f"{WEIGHTS}: {how}", partial(_damaged, how))
    for how, change in SAFETENSORS.items():
        yield _row(f"{WEIGHTS} with {how}", partial(_written, WEIGHTS, change))
    for how, content in CHECKPOINTS.items():
        yield _row(f"weights.pt: {how}", partial(_saved, content))


def _row(name: str, act: Callable[[Place], None]) -> Row:
    return Row("weights", name, "weighed", act, ("refused",))


def _damaged(how: str, place: Place) -> None:
    harm(how, place, place.folder / WEIGHTS)
    _run(place)


def _written(name: str, change: Callable[[bytes], bytes], place: Place) -> None:
    file = place.folder / name
    file.write_bytes(change(file.read_bytes()))
    _run(place)


def _saved(content: Callable[[], bytes], place: Place) -> None:
    (place.folder / "weights.pt").write_bytes(content())
    _run(place, "--weights", "tiny=weights.pt")
    assert not (place.folder / "was_run").exists(), "code in the file was run"


def _run(place: Place, *more: object) -> None:
    shutil.rmtree(place.out)
    place.mark()
    if place.run(*more).code != 2:
        place.report()
