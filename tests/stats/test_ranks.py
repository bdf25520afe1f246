"""Ranks over datasets, worked by hand."""

import numpy as np
import pytest

from ecgbench.stats.ranks import ranked, smallest_p


def test_ranks_and_p_by_hand() -> None:
    # the first beats the second in all six: 2 / 2^6; the third loses to both in five of six
    table = [[9, 8, 7], [9, 8, 6], [9, 7, 5], [9, 6, 3], [9, 5, 1], [9, 4, 10.5]]
    found = ranked(table)
    assert found.ranks == pytest.approx([7 / 6, 13 / 6, 16 / 6])
    # signed ranks of (first, third): 2, 3, 4, 6, 8 against 1.5 the other way: W = 1, p = 4 / 64
    raw = {(0, 1): 2 / 64, (0, 2): 4 / 64}
    assert found.p[0, 1] == pytest.approx(3 * raw[0, 1])
    assert found.p[0, 2] == pytest.approx(max(3 * raw[0, 1], 2 * raw[0, 2]))
    assert (found.p == found.p.T).all()
    assert (np.diag(found.p) == 1).all()


def test_equal_scores_share_a_rank_and_equal_models_do_not_differ() -> None:
    found = ranked([[1, 1, 0], [1, 1, 0], [1, 1, 0]])
    assert found.ranks == pytest.approx([1.5, 1.5, 3])
    assert found.p[0, 1] == 1


def test_no_p_is_below_the_smallest_one() -> None:
    for n in (3, 5, 8):
        table = np.arange(2 * n).reshape(n, 2)
        assert ranked(table).p[0, 1] == pytest.approx(smallest_p(n))


def test_gaps_are_refused() -> None:
    with pytest.raises(ValueError, match="without gaps"):
        ranked([[1, np.nan]])
