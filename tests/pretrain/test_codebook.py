"""Codebooks against scikit-learn, the two sides of the normalisation, and files that cannot lie."""

import contextlib
import json
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.cluster import MiniBatchKMeans
from sklearn.preprocessing import normalize

from ecgbench.core.seeds import seed_of
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.pretrain.codebook import (
    NOTHING,
    Codebook,
    Codes,
    codebooks,
    elbow,
    fit,
    load,
    normalised,
    usage,
)
from ecgbench.pretrain.descriptors import preset
from tests.waves import data

FACTS = {"name": "mfcc-ecg"}


def stream(batches: int = 8, seed: int = 0) -> list[torch.Tensor]:
    """Batches of 12 leads and 20 segments around a few directions, of any length."""
    draw = np.random.default_rng(seed)
    around = np.random.default_rng(7).normal(size=(9, 13))
    shape = (batches, 5, 12, 20)
    x = around[draw.integers(9, size=shape)] * draw.lognormal(
        0, 2, (*shape, 1)
    ) + 0.2 * draw.normal(size=(*shape, 13))
    return list(torch.from_numpy(x.astype(np.float32)))


@pytest.fixture(scope="module")
def books() -> dict[int, Codebook]:
    return fit(stream(), (4, 9, 40), seed=3, facts=FACTS)


def test_codes_are_those_of_scikit_learn_on_vectors_of_length_1(books: dict[int, Codebook]) -> None:
    x = torch.cat(stream(20, seed=1))
    scaled = normalize(x.reshape(-1, 13).numpy())
    for size, book in books.items():
        theirs = MiniBatchKMeans(size, random_state=0).partial_fit(scaled[:size])
        theirs.cluster_centers_ = book.centres
        codes = book.assign(x)
        assert codes.shape == x.shape[:-1]
        assert codes.dtype == torch.int64
        distance = np.sort(((scaled[:, None].astype(np.float64) - book.centres) ** 2).sum(-1), 1)
        clear = distance[:, 1] - distance[:, 0] > 1e-6
        assert clear.mean() > 0.999
        np.testing.assert_array_equal(
            codes.reshape(-1).numpy()[clear], theirs.predict(scaled)[clear]
        )


@pytest.mark.parametrize("size", [9, 40])
def test_the_fit_is_partial_fit_over_scaled_vectors(size: int, books: dict[int, Codebook]) -> None:
    theirs = MiniBatchKMeans(
        size,
        random_state=seed_of("codebook", 3, size) % 2**32,
        n_init=1,
        reassignment_ratio=0,
        batch_size=1200,
    )
    for batch in stream():
        theirs.partial_fit(normalize(batch.reshape(-1, 13).numpy()))
    np.testing.assert_allclose(books[size].centres, theirs.cluster_centers_, atol=1e-6)
    made = books[size].facts
    assert made["name"] == "mfcc-ecg"
    assert made["fit"] | {"scikit-learn": ""} == {
        "codes": size,
        "seed": 3,
        "batches": 8,
        "vectors": 9600,
        "scale": "length 1",
        "scikit-learn": "",
    }


def test_again_from_the_same_seed_and_stream_gives_the_same_bytes(
    books: dict[int, Codebook], tmp_path: Path
) -> None:
    again = fit(iter(stream()), (40, 9), seed=3, facts=FACTS)
    for size in (9, 40):  # whatever else was fitted beside it
        first, second = (
            book[size].save(tmp_path / f"{i}.npz").read_bytes()
            for i, book in enumerate((books, again))
        )
        assert first == second
    assert fit(stream(), (9,), seed=4, facts=FACTS)[9].digest != again[9].digest


def test_length_does_not_count_and_odd_vectors_have_a_rule(books: dict[int, Codebook]) -> None:
    x = stream()[0]
    for book in books.values():
        assert torch.equal(book.assign(x * 1024), book.assign(x))
        odd = x[0, 0, :4].clone()
        odd[0], odd[1, 5], odd[2, 0] = 0, torch.nan, torch.inf
        codes = book.assign(odd)
        assert codes.tolist()[1:3] == [NOTHING, NOTHING]
        # all centres lie ahead of the origin alike
        assert codes[0] == int((book.centres.astype(np.float64) ** 2).sum(1).argmin())
        assert codes[3] == book.assign(x[0, 0, 3])
        plain = book.assign(x)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(book.assign(x), plain)
    assert torch.equal(normalised(torch.zeros(2, 13)), torch.zeros(2, 13))
    torch.testing.assert_close(normalised(x).norm(dim=-1), torch.ones(x.shape[:-1]))


def test_batches_are_forgotten_one_by_one() -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    def batches() -> Iterator[torch.Tensor]:
        for batch in stream(6):
            made = batch.clone()
            alive.append(weakref.ref(made))
            yield made
            del made
            assert sum(ref() is not None for ref in alive) <= 1

    assert fit(batches(), (4,), seed=0, facts={})[4].facts["fit"]["batches"] == 6


def test_a_saved_codebook_comes_back_and_a_changed_file_is_refused(
    books: dict[int, Codebook], tmp_path: Path
) -> None:
    book = books[9]
    path = book.save(tmp_path / "book.npz")
    found = load(path)
    np.testing.assert_array_equal(found.centres, book.centres)
    assert (found.facts, found.digest) == (book.facts, book.digest)
    for changed in (
        {"centres": book.centres + np.float32(1e-7)},
        {"facts": np.array(json.dumps({**book.facts, "name": "mfcc-paper"}))},
        {"facts": np.array("no JSON")},
        {"centres": np.array([object()])},
    ):
        np.savez(tmp_path / "other.npz", **{**np.load(path), **changed})
        with pytest.raises(BadWeights, match=r"other\.npz"):
            load(tmp_path / "other.npz")
    whole = path.read_bytes()
    for damaged in (
        whole[:-30],
        whole[:200] + bytes([whole[200] ^ 1]) + whole[201:],
        b"",
        b"\x80\x04K\x01.",
    ):
        (tmp_path / "other.npz").write_bytes(damaged)
        with pytest.raises(BadWeights, match=r"other\.npz"):
            load(tmp_path / "other.npz")
    # one bit anywhere: refused, or one that says nothing (dates, attributes)
    for place in range(0, len(whole), 7):
        turned = whole[place] ^ 1 << place % 8
        (tmp_path / "other.npz").write_bytes(whole[:place] + bytes([turned]) + whole[place + 1 :])
        with contextlib.suppress(BadWeights):
            assert load(tmp_path / "other.npz").digest == book.digest
    np.save(tmp_path / "one.npy", book.centres)
    for absent in (tmp_path / "one.npy", tmp_path / "none.npz", tmp_path):
        with pytest.raises(BadWeights):
            load(absent)


def test_the_elbow_table(books: dict[int, Codebook]) -> None:
    held_out = stream(3, seed=5)
    held_out[1] = held_out[1].clone()
    held_out[1][0, 0, 0] = torch.nan
    table = elbow(books.values(), iter(held_out)).set_index("codes")
    assert table.index.tolist() == [4, 9, 40]
    assert (table["vectors"] == 3 * 1200 - 1).all()
    assert table["sse"].is_monotonic_decreasing
    flat = torch.cat(held_out).reshape(-1, 13).double().numpy()
    flat = flat[~np.isnan(flat).any(1)]
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    every = ((flat[:, None] - books[9].centres) ** 2).sum(-1)
    assert table.loc[9, "sse"] == pytest.approx(every.min(1).sum(), rel=1e-5)
    assert table.loc[9, "inertia"] == pytest.approx(every.min(1).mean(), rel=1e-5)
    assert (table.loc[9, "used"], table.loc[9, "perplexity"]) == usage(
        np.bincount(every.argmin(1), minlength=9)
    )


def test_what_cannot_be_clustered_is_refused() -> None:
    bad = stream(2)
    bad[1][0, 0, 0, 0] = torch.nan
    with pytest.raises(BadSetting, match="batch 1"):
        fit(bad, (9,), seed=0, facts={})


def test_codes_are_those_of_the_books_on_the_description() -> None:
    describe = preset("mfcc-ecg")
    books = codebooks(data(6).corpus, describe, (4, 7), seed=1)
    again = codebooks(data(6).corpus, describe, (4, 7), seed=1)
    assert [books[c].digest for c in (4, 7)] == [again[c].digest for c in (4, 7)]
    assert codebooks(data(6).corpus, describe, (4,), seed=2)[4].digest != books[4].digest
    labeller = Codes(describe, [books[4], books[7]])
    signal = torch.from_numpy(data(6).corpus.cut(np.arange(3), np.zeros(3, int)))
    codes = labeller(signal)
    assert codes.shape == (2, 3, 12, 20)
    assert torch.equal(codes[1, 2, 5, 7], books[7].assign(describe(signal)[2, 5, 7]))
    assert labeller.digest != Codes(describe, [books[4]]).digest
    signal[1, 3, 200] = torch.nan
    with pytest.raises(BadSetting, match="has no code"):
        labeller(signal)
