"""Files that bring down their reader: one line, of a process that died in another's place."""

import mmap
import os
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

from ecgbench.core import process
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.weights import apart
from ecgbench.weights import read as within

ASK = process.ask  # before the fixture that reads without a process takes its place


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "ask", ASK)


def checkpoint(path: Path, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w/data.pkl", data)
        archive.writestr("w/version", b"3\n")
    return path


def nested(path: Path) -> Path:
    """A dict whose key is 300,000 tuples inside one another: whatever makes its hash recurses in
    C.
    """
    return checkpoint(path, b"\x80\x02}K\x01" + b"\x85" * 300_000 + b"K\x01s.")


def test_a_key_that_ends_the_reader_is_one_line(alone: None, tmp_path: Path) -> None:
    """SIGSEGV in torch's own reader, in which this process would end too."""
    path = nested(tmp_path / "w.pt")
    with pytest.raises(BadWeights, match=r"w\.pt cannot be read as weights \(its process was") as e:
        apart.read(path, 3)
    assert "\n" not in str(e.value)


def test_the_process_gives_what_the_reader_gives(alone: None, tmp_path: Path) -> None:
    """Kinds, shapes and strides, shared storages once, and nothing but tensors and mappings."""
    base = torch.arange(24.0).reshape(4, 6)
    kinds = {str(kind): torch.arange(5).to(kind) for kind in within.KINDS}
    state = OrderedDict(
        wide=torch.tensor([3.5]).expand(2**28),
        base=base,
        part=base[1:, ::2],
        turned=base.T,
        empty=base[:0],
        number=torch.tensor(7),
        parameter=torch.nn.Parameter(torch.ones(2)),
        **kinds,
    )
    torch.save({"state_dict": state, "epoch": 3, 5: "x", "list": [base]}, tmp_path / "w.pt")
    found = apart.read(tmp_path / "w.pt", 2)
    assert {str(k): v for k, v in found.items() if v is None} == dict.fromkeys(
        ("epoch", "5", "list")
    )
    again = found["state_dict"]
    assert list(again) == list(state)
    for name, tensor in state.items():
        assert (again[name].dtype, again[name].shape) == (tensor.dtype, tensor.shape)
        assert again[name].stride() == tensor.stride()
        assert name == "wide" or torch.equal(again[name], tensor)
    assert again["wide"][-1] == 3.5
    assert again["part"].untyped_storage().data_ptr() == again["base"].untyped_storage().data_ptr()


def test_memory_is_limited_by_the_size_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint(tmp_path / "w.pt", b"N.")
    monkeypatch.setattr(apart, "SPARE", 2**27)
    # new pages: what an earlier test has freed may serve a bytearray
    monkeypatch.setattr(apart, "work", lambda arguments: mmap.mmap(-1, 2**29))
    child = os.fork()
    if not child:
        try:
            apart._limited([str(path), "3", str(tmp_path)])
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("error", [RecursionError("deep"), ValueError("odd"), MemoryError()])
def test_whatever_the_reader_raises_is_one_line(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> None:
        raise error

    monkeypatch.setattr(within, "_torch_load", fails)
    torch.save({"a": torch.ones(1)}, tmp_path / "w.pt")
    said = str(error) or type(error).__name__
    with pytest.raises(BadWeights, match=rf"w\.pt cannot be read as weights \({said}\); get"):
        apart.read(tmp_path / "w.pt", 3)


def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, content: object, depth: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(apart._Writer, "entries", full)
    torch.save({"a": torch.ones(1)}, tmp_path / "w.pt")
    with pytest.raises(BadSetting, match=r"No space left on device\); .*TMPDIR=DIR"):
        apart.read(tmp_path / "w.pt", 3)


def test_one_changed_bit_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save({"a": torch.arange(1000.0)}, path)
    content = bytearray(path.read_bytes())
    content[content.find(struct.pack("<3f", 100, 101, 102))] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadWeights, match=r"w\.pt is damaged: w/data/0 in it .*CRC-32"):
        apart.read(path, 3)


@pytest.mark.parametrize("member", ["", "w.ckpt"])
def test_an_archive_of_too_many_files_is_refused_by_their_count(
    member: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(within, "MOST_MEMBERS", 100)
    path = tmp_path / ("w.zip" if member else "w.pt")
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(101):
            archive.writestr(f"w/{i}", b"")
    with (
        pytest.raises(BadWeights, match=r"an archive of 101 files, which no weights are"),
        within.unpacked(path, member) as file,
    ):
        apart.read(file, 3)
