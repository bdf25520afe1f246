"""A corpus in shards: the windows of one in memory, found damages, bounded memory, the guard."""

import errno
import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ecgbench.core.files import as_json, put, sha256_of
from ecgbench.data.copy import Copy
from ecgbench.data.disk import alone_in
from ecgbench.data.prepare import prepare
from ecgbench.errors import BadSetting, DamagedCopy, LeakError, WriteError
from ecgbench.models import laef
from ecgbench.pretraining import blocks as reading
from ecgbench.pretraining import shards as on_disk
from ecgbench.pretraining import streaming
from ecgbench.pretraining.corpus import Corpus, gather
from ecgbench.pretraining.descriptors import preset
from ecgbench.pretraining.guard import Guard, Name
from ecgbench.pretraining.labels import codebooks
from ecgbench.pretraining.shards import Layout, Shards, Source, opened, pack
from ecgbench.pretraining.streamed import Streamed
from ecgbench.pretraining.streaming import Holding, folder_of, found, source_of

CONTRACT = laef.CARD.contracts[0]
SAMPLES = CONTRACT.samples
LAYOUT = Layout(block=4, shard=8)
NAMES = [Name("ab"[i % 2], f"r{i}") for i in range(37)]
LENGTHS = {name: SAMPLES + 7 * i for i, name in enumerate(NAMES)}
ABOUT = {"samples": SAMPLES, "too_short": 0, "left_out": {}}


def wave(name: Name) -> np.ndarray:
    draw = np.random.default_rng(int(name.record[1:]))
    return draw.uniform(-1, 1, (12, LENGTHS[name]))


def guard(names: list[Name] = NAMES) -> Guard:
    return Guard({d: [n.record for n in names if n.dataset == d] for d in "ab"}, {200: 10})


def source(read: Callable[[Name], np.ndarray] = wave, names: list[Name] = NAMES) -> Source:
    table = pa.table({column: [getattr(n, column) for n in names] for column in Name._fields})
    lengths = np.array([LENGTHS[name] for name in names])
    return Source(names=table, lengths=lengths, read=lambda row: read(names[row]), about=ABOUT)


@pytest.fixture
def packed(tmp_path: Path) -> Shards:
    return pack(source(), guard(), tmp_path / "packed", "a", LAYOUT)


@pytest.fixture
def here_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards are written in this process, which can be looked at."""
    monkeypatch.setattr(on_disk, "on_all_cores", lambda pieces, advance: None)


def held() -> Corpus:
    return Corpus(guard(), LENGTHS, wave, contract=CONTRACT)


def contents(folder: Path) -> dict[str, str]:
    files = (p for p in folder.iterdir() if p.name != ".lock")
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_windows_are_those_of_a_corpus_in_memory(packed: Shards) -> None:
    corpus, memory = Streamed(packed, guard(), buffer=8), held()
    rows = np.random.default_rng(0).permutation(len(NAMES))
    starts = corpus.starts(rows, "start")
    found = {packed.name(row): window for row, window in zip(rows, corpus.cut(rows, starts))}
    assert sorted(found) == sorted(NAMES)
    for row, start in zip(rows, starts):
        name = packed.name(row)
        assert 0 <= start <= LENGTHS[name] - SAMPLES
        (window,) = memory.cut(np.array([NAMES.index(name)]), np.array([start]))
        np.testing.assert_array_equal(found[name], window)
    assert [packed.name(row) for row in range(len(NAMES))] != NAMES, "at random places"
    assert len(corpus) == len(NAMES)
    longest = int(np.argmax([LENGTHS[packed.name(row)] for row in range(len(NAMES))]))
    for start in (-1, LENGTHS[NAMES[-1]] - SAMPLES + 1):
        with pytest.raises(BadSetting, match="outside its recording"):
            corpus.cut(np.array([longest]), np.array([start]))


def test_float32_is_kept_as_it_is(tmp_path: Path) -> None:
    layout = Layout(kept="float32", block=4, shard=8)
    corpus = Streamed(pack(source(), guard(), tmp_path, "a", layout), guard(), buffer=4)
    (window,) = corpus.cut(np.array([5]), np.array([0]))
    whole = wave(corpus.shards.name(5)).astype(np.float32)
    np.testing.assert_array_equal(window, whole[:, :SAMPLES])


@pytest.mark.usefixtures("here_alone")
def test_no_recording_is_handed_out_that_the_guard_refuses(
    tmp_path: Path, packed: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, rows = Streamed(packed, guard(), buffer=8), np.array([0, 3])
    corpus.cut(rows, np.zeros(2, int))
    corpus._guard = guard(NAMES[:-1])
    for _ in range(2):
        with pytest.raises(LeakError, match="'r36' of 'a' is not of a training split"):
            corpus.cut(rows, np.zeros(2, int))
    with pytest.raises(LeakError, match="'r36'"):
        Streamed(packed, guard(NAMES[:-1]), buffer=8)
    read: list[Name] = []
    leak = [*NAMES, Name("b", "HR00200")]
    monkeypatch.setitem(LENGTHS, leak[-1], SAMPLES)
    whole = source(lambda name: read.append(name) or wave(name), leak)  # type: ignore[func-returns-value]
    with pytest.raises(LeakError, match="fold 10"):
        pack(whole, guard(leak), tmp_path / "b", "b")
    assert not read
    assert not list(tmp_path.glob("b/shard*"))


@pytest.mark.usefixtures("here_alone")
def test_an_interrupted_packing_goes_on_with_the_shards_that_are_lacking(
    tmp_path: Path, packed: Shards
) -> None:
    read: list[Name] = []

    def failing(name: Name) -> np.ndarray:
        if len(read) == 20:
            raise KeyboardInterrupt
        read.append(name)
        return wave(name)

    with pytest.raises(KeyboardInterrupt):
        pack(source(failing), guard(), tmp_path / "b", "a", LAYOUT)
    assert opened(tmp_path / "b", "a") is None
    assert len(list((tmp_path / "b").glob("shard-*.f16"))) == 2
    told: list[tuple[int, int]] = []
    again: list[Name] = []
    whole = source(lambda name: again.append(name) or wave(name))  # type: ignore[func-returns-value]
    pack(whole, guard(), tmp_path / "b", "a", LAYOUT, lambda *n: told.append(n))
    assert not {*again} & {*read[:16]}
    assert len(again) == len(NAMES) - 16
    assert told[-1] == (21, 21)
    assert contents(tmp_path / "b") == contents(packed.folder)
    assert contents(pack(source(), guard(), tmp_path / "c", "b", LAYOUT).folder) != contents(
        packed.folder
    )


def spoil(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.usefixtures("here_alone")
def test_a_shard_that_changed_is_named_and_packed_again_alone(packed: Shards) -> None:
    before, digest = contents(packed.folder), Streamed(packed, guard(), 4).digest
    spoil(packed.path(2), 5)
    corpus = Streamed(packed, guard(), buffer=4)
    for block in range(10):
        rows = np.arange(4 * block, min(4 * block + 4, len(NAMES)))
        if block == 4:
            with pytest.raises(DamagedCopy, match=r"shard-00002\.f16 is not as it was written"):
                corpus.cut(rows, np.zeros(4, int))
        elif block < 4:
            corpus.cut(rows, np.zeros(len(rows), int))
    assert opened(packed.folder, "a") is None
    read: list[Name] = []
    whole = source(lambda name: read.append(name) or wave(name))  # type: ignore[func-returns-value]
    pack(whole, guard(), packed.folder, "a", LAYOUT)
    assert len(read) == LAYOUT.shard
    (packed.folder / "shard-00002.f16.damaged").unlink()
    assert contents(packed.folder) == before
    assert Streamed(opened(packed.folder, "a"), guard(), 4).digest == digest  # type: ignore[arg-type]


def damage(shards: Shards) -> None:
    """The second block of the first shard."""
    content = bytearray(shards.path(0).read_bytes())
    content[-2000:] = b"\x00\x7b" * 1000
    shards.path(0).write_bytes(content)


def test_what_was_compared_is_what_is_read_when_another_process_packs_anew(packed: Shards) -> None:
    before = packed.path(0).read_bytes()
    damage(packed)
    ours, theirs = Streamed(packed, guard(), 4), Streamed(packed, guard(), 4)
    ours.cut(np.array([0]), np.array([0]))  # of the damaged file, but a sound block
    last, start = np.array([7]), np.array([LENGTHS[packed.name(7)] - SAMPLES])
    with pytest.raises(DamagedCopy):
        theirs.cut(last, start)
    pack(source(), guard(), packed.folder, "a", LAYOUT)
    assert packed.path(0).read_bytes() == before
    for _ in range(2):
        windows = ours.cut(np.array([0, 7]), np.concatenate([[0], start]))
        np.testing.assert_array_equal(windows[1], wave(packed.name(7)).astype("f2")[:, -SAMPLES:])


def test_a_shard_that_another_process_packed_meanwhile_stays(
    packed: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, judged = packed.path(0).read_bytes(), reading.Blocks._hash
    damage(packed)

    def meanwhile(self: reading.Blocks, *block: int) -> str:
        packed.path(0).unlink()
        pack(source(), guard(), packed.folder, "a", LAYOUT)
        return judged(self, *block)

    monkeypatch.setattr(reading.Blocks, "_hash", meanwhile)
    with pytest.raises(DamagedCopy, match="run the same command again"):
        Streamed(packed, guard(), 4).cut(np.array([7]), np.array([0]))
    assert packed.path(0).read_bytes() == before
    assert opened(packed.folder, "a") is not None


def test_a_damaged_shard_that_stays_where_it_is_asks_for_another_folder(
    packed: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    damage(packed)
    monkeypatch.setattr("ecgbench.core.files.os.replace", refused)
    with pytest.raises(DamagedCopy, match=r"cannot be set aside; pack .* --set shards=DIR") as told:
        Streamed(packed, guard(), 4).cut(np.array([7]), np.array([0]))
    assert "same command" not in str(told.value)


@pytest.mark.usefixtures("here_alone")
@pytest.mark.parametrize("name", ["index.json", "names.arrow", "ends.npy", "shard-00001.json"])
def test_a_table_that_changed_is_made_again(packed: Shards, name: str) -> None:
    before = contents(packed.folder)
    spoil(packed.folder / name, -3)
    if name == "shard-00001.json":
        with pytest.raises(DamagedCopy, match=r"shard-00001\.f16"):
            Streamed(packed, guard(), 4).cut(np.array([9]), np.array([0]))
    assert opened(packed.folder, "a") is None
    pack(source(), guard(), packed.folder, "a", LAYOUT)
    for left in packed.folder.glob("*.damaged"):
        left.unlink()
    assert contents(packed.folder) == before


def test_a_shard_of_another_packing_is_no_shard_of_this_one(tmp_path: Path, packed: Shards) -> None:
    """Neither by its samples nor with the hashes that came with it."""
    other = pack(source(), guard(), tmp_path / "other", "b", Layout(block=4, shard=8))
    for suffix in (".f16", ".json"):
        there = packed.path(0).with_suffix(suffix)
        there.write_bytes(other.path(0).with_suffix(suffix).read_bytes())
    with pytest.raises(DamagedCopy, match=r"shard-00000\.f16"):
        Streamed(packed, guard(), 4).cut(np.array([1]), np.array([0]))


def test_two_shards_that_changed_places_are_packed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are of this packing, and as long as each other."""
    for name in NAMES:
        monkeypatch.setitem(LENGTHS, name, SAMPLES)
    packed = pack(source(), guard(), tmp_path / "packed", "a", LAYOUT)
    before = contents(packed.folder)
    for suffix in (".f16", ".json"):
        one, two = (packed.path(number).with_suffix(suffix) for number in (0, 1))
        content = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(content)
    (packed.folder / "index.json").unlink()
    pack(source(), guard(), packed.folder, "a", LAYOUT)
    assert contents(packed.folder) == before


def test_who_packs_keeps_others_out_until_the_corpus_is_opened(
    packed: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while its folder is removed."""
    looks = []

    def look(*words: Any) -> Shards | None:
        with pytest.raises(BadSetting, match="busy"), alone_in(packed.folder, "busy"):
            pass
        looks.append(words)
        return opened(*words)

    with alone_in(packed.folder):
        shutil.rmtree(packed.folder)
        look(packed.folder, "a")
    monkeypatch.setattr(on_disk, "opened", look)
    pack(source(), guard(), packed.folder, "a", LAYOUT)
    assert len(looks) == 3


def test_a_packing_that_goes_while_it_is_opened_is_not_there(
    packed: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashed(path: Path) -> str:
        digest = sha256_of(path)
        if path.name == "ends.npy":
            shutil.rmtree(packed.folder)
        return digest

    monkeypatch.setattr(on_disk, "sha256_of", hashed)
    assert opened(packed.folder, "a") is None


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        lambda path: path.write_bytes(bytes(100)),
        lambda path: path.write_bytes(path.read_bytes()[::-1]),
    ],
)
def test_a_shard_that_goes_while_it_is_read_is_one_line(
    packed: Shards, damage: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks were compared, and it is no longer mapped."""
    monkeypatch.setattr(reading, "MAPPED", 1)
    corpus = Streamed(packed, guard(), buffer=4)
    for row in (0, 9):
        corpus.cut(np.array([row]), np.array([0]))
    damage(packed.path(0))
    with pytest.raises(
        DamagedCopy, match=r"shard-00000\.f16 is not as it was written; run the same"
    ):
        corpus.cut(np.array([0]), np.array([0]))
    assert opened(packed.folder, "a") is None


def test_a_disk_that_fails_is_one_line(packed: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(reading.Blocks, "_of", failing)
    with pytest.raises(DamagedCopy, match=r"cannot be read \(Input/output error\); repair"):
        Streamed(packed, guard(), buffer=4).cut(np.array([0]), np.array([0]))


def test_a_disk_without_room_and_a_bad_recording_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadSetting, match="record 'r11' of 'b'"):
        pack(
            source(lambda name: 3 * wave(name) if name.record == "r11" else wave(name)),
            guard(),
            tmp_path,
            "a",
            LAYOUT,
        )
    monkeypatch.setattr(on_disk, "free_bytes", lambda folder: 1000)
    with pytest.raises(WriteError, match=r"need \d+ kB in .* 1 kB free; make room .*--set shards"):
        pack(source(), guard(), tmp_path, "b", LAYOUT)


def mapped(folder: Path, what: str = "Rss") -> int:
    """Bytes of shards that are in this process's memory; what: "Pss" counts a page that is mapped
    n times as an nth.
    """
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            ours = str(folder) in line and "shard" in line
        elif ours and line.startswith(f"{what}:"):
            total += int(line.split()[1]) * 1024
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_who_reads_the_same_shards_shares_one_copy(packed: Shards) -> None:
    rows = np.arange(len(NAMES))
    readers = [Streamed(packed, guard(), buffer=40) for _ in range(4)]
    for corpus in readers:
        corpus.cut(rows, np.zeros(len(rows), int))
    assert mapped(packed.folder) > 3.5 * packed.size
    assert mapped(packed.folder, "Pss") < 1.2 * packed.size


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAPPED", 12)
    peaks, block = [], 16 * 12 * SAMPLES * 2
    noise = np.random.default_rng(0).uniform(-1, 1, (12, SAMPLES))
    for records in (1_024, 4_096):
        table = pa.table({"dataset": ["a"] * records, "record": [f"r{i}" for i in range(records)]})
        many = Source(
            names=table, lengths=np.full(records, SAMPLES), read=lambda row: noise, about=ABOUT
        )
        everyone = Guard({"a": table["record"].to_pylist()}, {})
        folder = tmp_path / str(records)
        layout = Layout(block=16, shard=128)
        corpus = Streamed(pack(many, everyone, folder, "a", layout), everyone, buffer=256)
        seen = []
        for first in range(0, records, 64):
            rows = corpus.shuffled(first, first + 64, "pass", 0)
            corpus.cut(rows, np.zeros(64, int))
            seen.append(mapped(folder))
        assert len(corpus._blocks._maps) <= 12
        peaks.append(max(seen))
    # pages around a block, and a batch that meets two buffers
    assert all(12 * block < peak < 2 * 16 * block for peak in peaks), peaks
    assert peaks[1] < 1.2 * peaks[0]


def test_codebooks_are_fitted_from_the_stream(packed: Shards) -> None:
    describe = preset("mfcc-ecg")
    one, two = (
        codebooks(Streamed(packed, guard(), buffer), describe, (4,), seed=1)[4].digest
        for buffer in (8, 8)
    )
    assert one == two
    assert one != codebooks(Streamed(packed, guard(), 4), describe, (4,), seed=1)[4].digest


@pytest.mark.parametrize("recordings", [1, 4, 37])
def test_a_pass_meets_every_recording_once(tmp_path: Path, recordings: int) -> None:
    few = NAMES[:recordings]
    shards = pack(source(names=few), guard(few), tmp_path, "a", LAYOUT)
    corpus = Streamed(shards, guard(few), buffer=8)
    for epoch in (0, 1):
        rows = corpus.shuffled(0, recordings, "pre-training order", 0, epoch)
        assert sorted(shards.name(row) for row in rows) == sorted(few)


@pytest.fixture
def ptbxl(fake_ptbxl: Path, tmp_path: Path) -> Copy:
    return prepare("ptbxl", fake_ptbxl, tmp_path / "prepared")


def test_what_is_packed_is_what_is_gathered_in_memory(ptbxl: Copy, tmp_path: Path) -> None:
    """And no view of it is kept."""

    def choose(name: Name) -> bool:
        return name.record != "00007"

    what, identity = source_of([ptbxl], CONTRACT, choose, {"patient": 1}, LAYOUT)
    allowed = Guard.of([ptbxl])
    corpus = Streamed(pack(what, allowed, tmp_path / "s", identity, LAYOUT), allowed, 8)
    assert not (ptbxl.folder / "views").exists()
    memory = gather([ptbxl], allowed, CONTRACT, choose=choose)
    names = [corpus.shards.name(row) for row in range(len(corpus))]
    assert sorted(names) == sorted(memory.names)
    rows = np.array([names.index(name) for name in memory.names])
    starts = np.arange(len(rows)) * 7
    expected = memory.cut(np.arange(len(rows)), starts)
    np.testing.assert_array_equal(corpus.cut(rows, starts), expected)
    assert corpus.shards.index["left_out"] == {"patient": 1}
    others = [
        source_of([ptbxl], CONTRACT, lambda name: True, {}, LAYOUT)[1],
        source_of([ptbxl], CONTRACT, choose, {}, Layout(block=8, shard=8))[1],
    ]
    assert len({identity, *others}) == 3


def test_what_was_left_out_does_not_come_back_with_a_renamed_folder(
    ptbxl: Copy, tmp_path: Path
) -> None:
    """One that was packed without exclusion, and has the name of one that was packed with it."""

    def choose(name: Name) -> bool:
        return name.record != "00007"

    allowed, home = Guard.of([ptbxl]), tmp_path / "shards"
    what, identity = source_of([ptbxl], CONTRACT, choose, {"patient": 1}, LAYOUT)
    more, other = source_of([ptbxl], CONTRACT, lambda name: True, {}, LAYOUT)
    folder = folder_of(home, identity)
    pack(more, allowed, folder_of(home, other), other, LAYOUT).folder.rename(folder)
    with pytest.raises(BadSetting, match="no shards of this corpus"):
        found(home, identity)
    shards = pack(what, allowed, folder, identity, LAYOUT)
    for each in (shards, found(home, identity)):
        names = [each.name(row).record for row in range(len(what.lengths))]
        assert "00007" not in names
        assert each.index["left_out"] == {"patient": 1}
    assert opened(folder.with_name(folder.name + ".damaged"), other) is not None


def test_what_is_too_large_is_streamed_and_what_is_begun_goes_on_as_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "memory", lambda: 1000)
    auto = Holding()
    assert not auto.streams(tmp_path, lambda: 500)
    assert auto.streams(tmp_path, lambda: 501)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert not auto.streams(tmp_path, lambda: 62)
    assert auto.streams(tmp_path, lambda: 63)
    assert Holding(how="stream").streams(tmp_path, lambda: 1)
    assert not Holding(how="memory").streams(tmp_path, lambda: 10**9)
    put(tmp_path / "recipe.json", as_json({"recipe": {}}))
    assert not auto.streams(tmp_path, lambda: 10**9)
    put(tmp_path / "recipe.json", as_json({"recipe": {}, "stream": {"buffer": 128}}))
    assert auto.streams(tmp_path, lambda: 1)
    assert [h.shuffled(tmp_path) for h in (auto, Holding(buffer=256))] == [128, 256]
    assert auto.shuffled(tmp_path / "new") == 16_384
