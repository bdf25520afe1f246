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
from ecgbench.pretraining.batches import Batches
from ecgbench.pretraining.corpus import Corpus, gather
from ecgbench.pretraining.guard import Guard, Name
from tests.pretraining.test_guard import guard

CONTRACT = laef.CARD.contracts[0]
SAMPLES = CONTRACT.samples


def noise(name: Name, samples: int = 600) -> np.ndarray:
    return np.random.default_rng(len(name.record)).uniform(-1, 1, (12, samples))


def test_what_was_let_in_is_asked_again_whenever_it_is_cut() -> None:
    names = [Name("d", "a"), Name("d", "bb")]
    corpus = Corpus(guard(*names), dict.fromkeys(names, 600), noise, contract=CONTRACT)
    rows = np.array([1, 0])
    assert corpus.cut(rows, np.array([0, 100])).shape == (2, 12, 500)
    corpus.names[1] = Name("d", "HR00200")
    with pytest.raises(LeakError, match="fold 10"):
        corpus.cut(rows, np.array([0, 100]))
    read: list[Name] = []

    def reading(name: Name) -> np.ndarray:
        read.append(name)
        return noise(name)

    with pytest.raises(LeakError, match="fold 9"):
        Corpus(
            guard(*names, Name("d", "HR00005")),
            dict.fromkeys([*names, Name("d", "HR00005")], 600),
            reading,
            contract=CONTRACT,
        )
    assert read == []


@pytest.fixture
def ptbxl(fake_ptbxl: Path, tmp_path: Path) -> Copy:
    return prepare("ptbxl", fake_ptbxl, tmp_path / "prepared")


def test_gathers_the_training_split_as_the_network_is_fed(ptbxl: Copy) -> None:
    told: list[int] = []
    corpus = gather(
        [ptbxl],
        Guard.of([ptbxl]),
        CONTRACT,
        "float32",
        progress=lambda done, total: told.append(total - done),
    )
    assert corpus.names == [Name("ptbxl", f"{i:05d}") for i in range(1, 17)]
    assert told[-1] == 0
    view = View(ptbxl, CONTRACT)
    whole = normalise(view.get("00003"), "minmax-per-lead")
    assert whole.shape == (12, 1000)
    (window,) = corpus.cut(np.array([2]), np.array([333]))
    np.testing.assert_array_equal(window, whole[:, 333:833])
    half = gather([ptbxl], Guard.of([ptbxl]), CONTRACT, choose=lambda name: name.record < "00009")
    assert len(half) == 8
    np.testing.assert_allclose(half.cut(np.array([2]), np.array([333]))[0], window, atol=2.5e-4)
    assert (
        len({corpus.digest, half.digest, gather([ptbxl], Guard.of([ptbxl]), CONTRACT).digest}) == 3
    )

    spoilt = replace(ptbxl)
    vars(spoilt)["index"] = ptbxl.index.assign(split="train")  # as if it had been read
    for how in (Guard.of([spoilt]), Guard.of([spoilt], ptbxl.index)):
        with pytest.raises(LeakError, match="fold 9"):
            gather([spoilt], how, CONTRACT)
    with pytest.raises(LeakError, match="not known"):
        gather([ptbxl], Guard.of([ptbxl], ptbxl.index.iloc[1:]), CONTRACT)


def test_refuses_what_cannot_be_cut() -> None:
    names = [Name("d", "a"), Name("d", "bb")]
    corpus = Corpus(
        guard(*names),
        {names[0]: 499, names[1]: 500},
        lambda name: noise(name, 500),
        contract=CONTRACT,
    )
    assert (corpus.names, corpus.short) == ([names[1]], [names[0]])
    for start in (-1, 1):
        with pytest.raises(BadSetting, match="outside its recording"):
            corpus.cut(np.array([0]), np.array([start]))
    with pytest.raises(BadSetting, match="no recording of at least 5 s"):
        Corpus(guard(*names), dict.fromkeys(names, 499), noise, contract=CONTRACT)
    for spoilt in (
        3 * noise(names[0]),
        noise(names[0]) * np.nan,
        noise(names[0])[:11],
        noise(names[0], 601),
    ):
        with pytest.raises(BadSetting, match="record 'a' of 'd'"):
            Corpus(
                guard(*names), {names[0]: 600}, lambda name, given=spoilt: given, contract=CONTRACT
            )  # type: ignore[misc]


def test_batches_follow_from_seed_and_step_whoever_makes_them() -> None:
    """7 recordings in steps of 3, pieces of 2: every one is met once in each pass, and two
    processes share what one would do.
    """
    names = [Name("d", "r" * (i + 1)) for i in range(7)]
    corpus = Corpus(
        guard(*names),
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
    corpus.names[6] = Name("d", "HR00200")
    with pytest.raises(LeakError):
        list(alone.between(0, 3))
