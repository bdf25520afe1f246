"""Views: the cached lead-by-lead part of a contract equals the computation, whatever happens to the
process that writes it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgbench.core.cards import Filter, InputContract
from ecgbench.data.copy import Copy
from ecgbench.data.disk import verify
from ecgbench.data.prepare import prepare
from ecgbench.data.views import View, key, missing_bytes
from ecgbench.ecg import preprocess
from ecgbench.ecg.leads import LEADS

CONTRACT = InputContract(
    name="paper",
    fs=100,
    seconds=5,
    leads=LEADS,
    unit="mV",
    filter=Filter(kind="firwin-filtfilt", low=0.05, high=47),
    normalisation="minmax-per-lead",
    fill="before",
    policy="native",
    absent="nothing",
)


def view(prepared, contract, records, progress=None) -> View:
    found = View(prepared, contract)
    found.fill(records, progress)
    return found


def _expected(copy: Copy, record: str) -> np.ndarray:
    return preprocess.view(copy.recording(record).signal, 500, CONTRACT.preparation)


def test_a_view_computes_what_is_asked_and_keeps_it(
    fake_ptbxl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = prepare("ptbxl", fake_ptbxl, None)
    seen: list[tuple[int, int]] = []
    first = view(copy, CONTRACT, ["00003", "00030", "00003"], lambda *n: seen.append(n))
    assert seen == [(2, 2)]
    np.testing.assert_array_equal(first.get("00030"), _expected(copy, "00030"))
    np.testing.assert_array_equal(first.get("00001"), _expected(copy, "00001"))  # on demand
    assert first.length("00001") == 1000
    monkeypatch.setattr(preprocess, "view", lambda *_: pytest.fail("computed again"))
    again = view(copy, CONTRACT, ["00001", "00003", "00030"])
    np.testing.assert_array_equal(again.get("00030"), first.get("00030"))


def test_a_view_of_another_rate_or_filter_lies_elsewhere(fake_ptbxl: Path) -> None:
    copy = prepare("ptbxl", fake_ptbxl, None)
    plain = InputContract(**{**vars(CONTRACT), "filter": None})
    faster = InputContract(**{**vars(CONTRACT), "fs": 250})
    folders = {View(copy, c).folder for c in (CONTRACT, plain, faster)}
    assert len(folders) == 3
    assert (
        View(copy, InputContract(**{**vars(CONTRACT), "normalisation": "none"})).folder in folders
    )
    np.testing.assert_array_equal(
        view(copy, plain, []).get("00002"),
        preprocess.view(copy.recording("00002").signal, 500, plain.preparation),
    )


def _fill_slowly(data: Path, started: Path) -> None:
    copy = prepare("ptbxl", data, None)
    for i, record in enumerate(copy.index["record"]):
        view(copy, CONTRACT, [record])
        if i == 5:
            started.touch()


def test_views_survive_a_kill_and_two_writers(
    fake_ptbxl: Path, tmp_path: Path, kill_when: Callable[..., None]
) -> None:
    copy = prepare("ptbxl", fake_ptbxl, None)
    kill_when(_fill_slowly, fake_ptbxl, tmp_path / "started")
    records = copy.index["record"].tolist()
    mine, theirs = View(copy, CONTRACT), View(copy, CONTRACT)
    assert (mine._done > 0).sum() >= 6
    mine.fill(records[:20])
    theirs.fill(records[10:])
    after = View(copy, CONTRACT)
    assert after._done.all()
    for record in records:
        np.testing.assert_array_equal(after.get(record), _expected(copy, record))


def test_deleted_samples_of_a_view_are_computed_again(fake_ptbxl: Path) -> None:
    copy = prepare("ptbxl", fake_ptbxl, None)
    (view(copy, CONTRACT, ["00001"]).folder / "signal.f32").unlink()
    np.testing.assert_array_equal(
        view(copy, CONTRACT, ["00001"]).get("00001"), _expected(copy, "00001")
    )


def _other_samples(folder: Path) -> None:
    content = bytearray((folder / "signal.f32").read_bytes())
    content[1000:2000] = content[200_000:201_000]
    (folder / "signal.f32").write_bytes(content)


def _zeros(folder: Path) -> None:
    size = (folder / "signal.f32").stat().st_size
    (folder / "signal.f32").write_bytes(bytes(size))


def _other_sums(folder: Path) -> None:
    sums = np.load(folder / "done.npy")
    sums[:2] = sums[1::-1]
    np.save(folder / "done.npy", sums)


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "samples of another record": (_other_samples, "signal.f32: what was computed of record 00001"),
    "zeros": (_zeros, "signal.f32: what was computed of record 00001"),
    "sums of other records": (_other_sums, "signal.f32: what was computed of record 00001"),
    "no sums": (lambda f: (f / "done.npy").write_bytes(b"12"), "done.npy is not as it was written"),
    "too few sums": (
        lambda f: np.save(f / "done.npy", np.ones(3, np.uint64)),
        "done.npy is not as it was written",
    ),
}


@pytest.mark.parametrize(("spoil", "told"), SPOILT.values(), ids=SPOILT)
def test_what_is_not_as_it_was_computed_is_found_named_and_computed_again(
    spoil: Callable[[Path], object],
    told: str,
    fake_ptbxl: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prepared = prepare("ptbxl", fake_ptbxl, None)
    records = prepared.index["record"].tolist()[:5]
    first = view(prepared, CONTRACT, records)
    files = [first.folder / name for name in ("signal.f32", "done.npy")]
    sound, expected = [f.read_bytes() for f in files], [first.get(r).tobytes() for r in records]
    assert verify(prepared) == []
    spoil(first.folder)
    lacking = told.startswith("done.npy")
    assert lacking or {r for r, why in verify(prepared) if "its view in" in why} >= {"00001"}
    again = view(prepared, CONTRACT, records)
    assert [again.get(r).tobytes() for r in records] == expected
    (said,) = caplog.messages
    assert told in said
    assert [f.read_bytes() for f in files] == sound
    assert verify(prepared) == []


def test_a_copy_that_cannot_be_written_still_gives_views(fake_ptbxl: Path) -> None:
    copy = prepare("ptbxl", fake_ptbxl, None)
    (copy.folder / "views").write_text("a file where the folder should be")
    found = view(copy, CONTRACT, ["00001"])
    np.testing.assert_array_equal(found.get("00001"), _expected(copy, "00001"))


def test_a_view_that_is_not_kept_is_the_same_to_the_bit_and_writes_nothing(
    fake_ptbxl: Path,
) -> None:
    copy = prepare("ptbxl", fake_ptbxl, None)
    stream = View(copy, CONTRACT, keep=False)
    records = copy.index["record"].tolist()
    stream.fill(records)
    passing = [stream.get(r).tobytes() for r in records]
    assert not (copy.folder / "views").exists()
    assert stream.missing(records) == []
    kept = view(copy, CONTRACT, records)
    assert passing == [kept.get(r).tobytes() for r in records]
    assert [stream.length(r) for r in records] == [kept.length(r) for r in records]


def test_the_bytes_that_a_view_lacks_are_those_it_takes(fake_ptbxl: Path) -> None:
    copy, preparation = prepare("ptbxl", fake_ptbxl, None), CONTRACT.preparation
    each = 12 * 1000 * 4
    assert missing_bytes(copy, preparation, key(preparation)) == 30 * each
    folder = view(copy, CONTRACT, ["00003", "00030"]).folder
    assert folder.name == key(preparation)
    assert missing_bytes(copy, preparation, key(preparation)) == 28 * each
    assert missing_bytes(copy, preparation, key(preparation), np.array([0, 2])) == each
    view(copy, CONTRACT, copy.index["record"].tolist())
    assert (folder / "signal.f32").stat().st_size == 30 * each
    assert missing_bytes(copy, preparation, key(preparation)) == 0
