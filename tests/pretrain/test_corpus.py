from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare
from ecgbench.data.views import View
from ecgbench.ecg.preprocess import normalise
from ecgbench.errors import BadSetting, LeakError
from ecgbench.models import laef
from ecgbench.pretrain import corpus as corpora
from ecgbench.pretrain.batches import Batches
from ecgbench.pretrain.corpus import Corpus, gather
from ecgbench.pretrain.exclusion import LeakCheck, Name
from tests.pretrain.test_exclusion import leak_check

CONTRACT = laef.CARD.contracts[0]
SAMPLES = CONTRACT.samples


def noise(name: Name, samples: int = 600) -> np.ndarray:
    return np.random.default_rng(len(name.record)).uniform(-1, 1, (12, samples))


def test_nothing_is_read_of_a_corpus_with_a_recording_of_the_evaluation() -> None:
    read: list[Name] = []
    names = [Name("d", "a"), Name("d", "HR00005")]
    with pytest.raises(LeakError, match="fold 9"):
        Corpus(leak_check(*names), dict.fromkeys(names, 600), read.append, contract=CONTRACT)  # type: ignore[arg-type]
    assert read == []


@pytest.fixture
def ptbxl(fake_ptbxl: Path, tmp_path: Path) -> Copy:
    return prepare("ptbxl", fake_ptbxl, tmp_path / "prepared")


def test_gathers_the_training_split_as_the_network_is_fed(ptbxl: Copy) -> None:
    told: list[int] = []
    corpus = gather(
        [ptbxl],
        LeakCheck.of([ptbxl]),
        CONTRACT,
        progress=lambda done, total: told.append(total - done),
    )
    assert corpus.names == [Name("ptbxl", f"{i:05d}") for i in range(1, 17)]
    assert told[-1] == 0
    view = View(ptbxl, CONTRACT)
    whole = normalise(view.get("00003"), "minmax-per-lead")
    assert whole.shape == (12, 1000)
    (window,) = corpus.cut(np.array([2]), np.array([333]))
    np.testing.assert_array_equal(window, whole[:, 333:833].astype(np.float16))
    half = gather(
        [ptbxl], LeakCheck.of([ptbxl]), CONTRACT, choose=lambda name: name.record < "00009"
    )
    assert len(half) == 8
    np.testing.assert_array_equal(half.cut(np.array([2]), np.array([333]))[0], window)
    assert corpus.digest != half.digest

    spoilt = replace(ptbxl)
    vars(spoilt)["index"] = ptbxl.index.assign(split="train")  # as if it had been read
    for how in (LeakCheck.of([spoilt]), LeakCheck.of([spoilt], ptbxl.index)):
        with pytest.raises(LeakError, match="fold 9"):
            gather([spoilt], how, CONTRACT)
    with pytest.raises(LeakError, match="not known"):
        gather([ptbxl], LeakCheck.of([ptbxl], ptbxl.index.iloc[1:]), CONTRACT)


def test_refuses_what_cannot_be_cut() -> None:
    names = [Name("d", "a"), Name("d", "bb")]
    corpus = Corpus(
        leak_check(*names),
        {names[0]: 499, names[1]: 500},
        lambda name: noise(name, 500),
        contract=CONTRACT,
    )
    assert (corpus.names, corpus.too_short) == ([names[1]], 1)
    for start in (-1, 1):
        with pytest.raises(BadSetting, match="outside its recording"):
            corpus.cut(np.array([0]), np.array([start]))
    with pytest.raises(BadSetting, match="no recording of at least 5 s"):
        Corpus(leak_check(*names), dict.fromkeys(names, 499), noise, contract=CONTRACT)


def test_what_is_packed_is_read_again_and_what_was_damaged_is_packed_anew(
    ptbxl: Copy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In two parts, by processes of their own; then one bit is turned."""
    monkeypatch.setattr(corpora, "FEWEST", 10)
    whole = gather([ptbxl], LeakCheck.of([ptbxl]), CONTRACT)
    digest, rows = whole.digest, np.arange(len(whole))
    windows = whole.cut(rows, 3 * rows)
    files = sorted((ptbxl.folder / "views").glob("*/part-*/data"))
    assert len(files) == 2
    with monkeypatch.context() as patch:
        patch.setattr(View, "get", None)
        again = gather([ptbxl], LeakCheck.of([ptbxl]), CONTRACT)
        np.testing.assert_array_equal(again.cut(rows, 3 * rows), windows)
    content = files[0].read_bytes()
    files[0].write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    mended = gather([ptbxl], LeakCheck.of([ptbxl]), CONTRACT)
    assert mended.digest == digest
    np.testing.assert_array_equal(mended.cut(rows, 3 * rows), windows)
    (said,) = caplog.messages
    assert "is not as it was written; it is computed again" in said


def test_another_normalisation_is_refused(ptbxl: Copy) -> None:
    other = replace(CONTRACT, normalisation="standardise-record")
    with pytest.raises(BadSetting, match=r"values outside .* not standardise-record"):
        gather([ptbxl], LeakCheck.of([ptbxl]), other)


def test_batches_follow_from_seed_and_step_whoever_makes_them() -> None:
    """7 recordings in steps of 3, pieces of 2: every one is met once in each pass, and two
    processes share what one would do.
    """
    names = [Name("d", "r" * (i + 1)) for i in range(7)]
    corpus = Corpus(
        leak_check(*names),
        {name: SAMPLES + 10 * i for i, name in enumerate(names)},
        lambda n: noise(n, SAMPLES + 10 * len(n.record) - 10),
        contract=CONTRACT,
    )
    how = {"corpus": corpus, "seed": 3, "batch": 3, "micro": 2, "ratio": 0.4, "edge_drop": 0.2}
    alone = Batches(**how)  # type: ignore[arg-type]
    met = np.concatenate([alone.rows(step) for step in range(14)])
    assert (np.sort(met.reshape(6, 7)) == np.arange(7)).all()
    assert len({tuple(row) for row in met.reshape(6, 7)}) == 6
    first = [alone.starts(step)[alone.rows(step) == 6] for step in range(2000)]
    assert set(np.concatenate(first)) == set(range(61))

    made = list(alone.between(0, 5))
    shares = [list(Batches(**how, rank=r, world=2).between(3, 5)) for r in range(2)]  # type: ignore[arg-type]
    for step in (3, 4):
        together = sorted(
            (piece for share in shares for piece in share[step - 3]), key=lambda piece: piece.number
        )
        assert [p.number for p in made[step]] == [p.number for p in together] == [0, 1]
        assert [len(p.signal) for p in together] == [2, 1]
        for a, b in zip(made[step], together):
            assert all((x == y).all() for x, y in zip(a[1:], b[1:]))
