"""Seeds from words: pinned, independent of everything but the words."""

import numpy as np
import pytest

from ecgbench.core.seeds import rng, seed_of


def test_seeds_are_the_same_on_every_machine_and_for_ever() -> None:
    """Pinned: sha256 of the words and their types. A change here changes every draw, window and
    head of the study.
    """
    assert seed_of("leads", 0, "00001") == 2599936384867070816
    assert rng("window", 1, 2, "00001").integers(0, 1000, 4).tolist() == [19, 22, 696, 914]


def test_words_differ_in_value_type_order_number_and_division() -> None:
    words = [
        ("a", 0),
        ("a", "0"),
        ("a", 1),
        (0, "a"),
        ("a",),
        ("a", 0, 0),
        ("a0",),
        ("a", "", 0),
        ("A", 0),
        ("a", -1),
        (),
    ]
    assert len({seed_of(*w) for w in words}) == len(words)


@pytest.mark.parametrize("word", [1.0, None, True, b"a", np.float64(1)])
def test_what_is_neither_a_word_nor_a_number_is_refused(word: object) -> None:
    with pytest.raises(TypeError, match="str and int"):
        seed_of("leads", word)  # type: ignore[arg-type]
