import numpy as np
import pytest

from ecgbench.errors import BadSetting
from ecgbench.pretrain.masking import NODES, Draw, draw, masked_nodes


def joined(draws: list[Draw]) -> list[np.ndarray]:
    return [
        np.concatenate([getattr(d, name) for d in draws])
        for name in ("measured", "masked", "dropped")
    ]


@pytest.mark.parametrize(("ratio", "count"), [(0.15, 3), (0.40, 8), (0.45, 9), (0.5, 10)])
def test_every_shown_lead_has_exactly_as_many_masked_nodes(ratio: float, count: int) -> None:
    found = draw(0, 1, range(448), ratio)
    assert masked_nodes(ratio) == count
    assert set(found.masked.sum(-1)[found.measured]) == {count}
    assert not found.masked[~found.measured].any()
    assert found.dropped is None


def test_numbers_of_leads_leads_and_nodes_are_uniform() -> None:
    """13,440 records: each share within five standard errors of its expectation."""
    draws = [draw(0, step, range(448)) for step in range(30)]
    measured, masked = (
        np.concatenate([d.measured for d in draws]),
        np.concatenate([d.masked for d in draws]),
    )
    shown = measured.sum(1)
    assert abs(np.bincount(shown, minlength=13)[1:] / len(shown) - 1 / 12).max() < 5 * np.sqrt(
        1 / 12 / len(shown)
    )
    assert shown.min() == 1
    for count in (1, 3, 11):
        share = measured[shown == count].mean(0)
        assert abs(share - count / 12).max() < 5 * np.sqrt(0.25 / (shown == count).sum())
    nodes = masked[measured]
    assert abs(nodes.mean(0) - 0.4).max() < 5 * np.sqrt(0.24 / len(nodes))


def test_leads_records_and_steps_are_masked_independently() -> None:
    """Two independent sets of 8 of 20 nodes agree on 8 * 8 / 20 = 3.2 of them on average."""
    first, second = draw(0, 0, range(2000)), draw(0, 1, range(2000))
    whole = first.masked[first.measured.all(1)]
    both = first.measured[:, 0] & second.measured[:, 0]
    for one, other in (
        (whole[:, 0], whole[:, 7]),
        (whole[:-1, 0], whole[1:, 0]),
        (first.masked[both, 0], second.masked[both, 0]),
    ):
        shared = (one & other).sum(1)
        assert shared.mean() == pytest.approx(3.2, abs=5 * 1.1 / np.sqrt(len(shared)))
    assert not np.array_equal(first.measured, second.measured)
    assert not np.array_equal(first.measured, draw(1, 0, range(2000)).measured)


def test_draws_do_not_depend_on_how_the_batch_is_split() -> None:
    whole = joined([draw(3, 17, range(64), edge_drop=0.2)])
    processes = joined(
        [draw(3, 17, range(start, start + 16), edge_drop=0.2) for start in range(0, 64, 16)]
    )
    strided = joined([draw(3, 17, range(rank, 64, 3), edge_drop=0.2) for rank in range(3)])
    order = np.concatenate([np.arange(rank, 64, 3) for rank in range(3)])
    for name, one, two, three in zip(("measured", "masked", "dropped"), whole, processes, strided):
        assert np.array_equal(one, two), name
        assert np.array_equal(one[order], three), name
    single = draw(3, 17, [41])
    assert np.array_equal(single.masked[0], whole[1][41])
    assert draw(3, 17, []).masked.shape == (0, 12, NODES)


def test_edges_to_itself_are_never_dropped_and_others_with_their_probability() -> None:
    dropped = draw(0, 0, range(64), edge_drop=0.2).dropped
    assert dropped is not None
    itself = np.eye(NODES, dtype=bool)
    assert not dropped[..., itself].any()
    others = dropped[..., ~itself]
    assert others.mean() == pytest.approx(0.2, abs=5 * np.sqrt(0.16 / others.size))
    both = dropped & dropped.swapaxes(-1, -2)
    assert both[..., ~itself].mean() == pytest.approx(0.04, abs=0.003), (
        "the two directions are drawn apart"
    )


@pytest.mark.parametrize(("ratio", "said"), [(0.0, "masks 0 of 20"), (0.99, "masks 20 of 20")])
def test_what_hides_nothing_or_everything_is_refused(ratio: float, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        draw(0, 0, range(4), ratio)
