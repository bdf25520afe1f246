"""Views: the cached lead-by-lead part of a contract equals the computation, whatever happens to the
process that writes it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgbench.cards.model import InputContract
from ecgbench.data.copy import Copy
from ecgbench.data.disk import verify
from ecgbench.data.prepare import prepare
from ecgbench.data.views import View
from ecgbench.ecg import preprocess
from ecgbench.ecg.filters import Filter
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
    assert len(mine.parts.rows) >= 6
    mine.fill(records[:20])
    theirs.fill(records[10:])
    after = View(copy, CONTRACT)
    assert after.missing(records) == []
    for record in records:
        np.testing.assert_array_equal(after.get(record), _expected(copy, record))


SPOILT: dict[str, Callable[[Path], object]] = {
    "a bit": lambda part: (part / "data").write_bytes((part / "data").read_bytes()[:-1] + b"\x7f"),
    "no samples": lambda part: (part / "data").unlink(),
    "its table": lambda part: (part / "rows.parquet").write_bytes(b"12"),
}


@pytest.mark.long
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_is_not_as_it_was_computed_is_found_named_and_computed_again(
    spoil: Callable[[Path], object], fake_ptbxl: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepared = prepare("ptbxl", fake_ptbxl, None)
    records = prepared.index["record"].tolist()[:5]
    first = view(prepared, CONTRACT, records)
    expected = [first.get(r).tobytes() for r in records]
    assert verify(prepared) == []
    (part,) = first.folder.glob("part-*")
    spoil(part)
    whole = (part / "rows.parquet").stat().st_size == 2
    assert whole or "00005" in {r for r, why in verify(prepared) if "its view in" in why}
    again = view(prepared, CONTRACT, records)
    assert [again.get(r).tobytes() for r in records] == expected
    (said,) = caplog.messages
    told = "renamed to" if whole else f"{first.folder}: what was computed of record 0000"
    assert told in said
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
