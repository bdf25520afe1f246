import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ecgbench.cards.cell import Training
from ecgbench.core.seeds import rng
from ecgbench.evaluate import loop
from ecgbench.evaluate.protocols.linear import Split, one_window_each, train


def split(
    n: int, seed: int, windows: tuple[int, ...] = (1, 3, 2), dim: int = 6, labels: int = 2
) -> Split:
    """Records r0.. of 1 to 3 windows; label k is the sign of feature k of the record, with noise
    from window to window.
    """
    draw = np.random.default_rng(seed)
    counts = np.resize(windows, n)
    hearts = draw.normal(size=(n, dim))
    features = np.repeat(hearts, counts, axis=0) + draw.normal(0, 0.1, (counts.sum(), dim))
    target = (hearts[:, :labels] > 0).astype(np.int8)
    return Split(
        records=[f"r{seed}.{i}" for i in range(n)],
        features=features.astype(np.float32),
        record_of=np.repeat(np.arange(n), counts),
        target=target,
    )


def adamw_by_hand(
    learn: Split, training: Training, seed: int
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """AdamW (Loshchilov and Hutter 2019) on the gradient of the mean cross-entropy, in numpy and
    float64.
    """
    head = loop.head(learn.features.shape[1], learn.target.shape[1], seed)
    theta = [p.detach().numpy().astype(np.float64) for p in (head.weight, head.bias)]
    m, v, losses, step = [0.0, 0.0], [0.0, 0.0], [], 0
    for epoch in range(training.epochs):
        chosen, order = (
            one_window_each(learn, seed, epoch),
            rng("order", seed, epoch).permutation(len(learn.records)),
        )
        batch, lost = min(training.batch, len(order)), []
        for b in range(len(order) // batch):
            at = order[b * batch : (b + 1) * batch]
            x, y = learn.features[chosen[at]].astype(np.float64), learn.target[at]
            q = 1 / (1 + np.exp(-(x @ theta[0].T + theta[1])))
            known = y >= 0
            if not known.any():
                continue
            lost.append(float(-np.log(np.where(y == 1, q, 1 - q))[known].mean()))
            error, step = np.where(known, q - y, 0) / known.sum(), step + 1
            for i, g in enumerate((error.T @ x, error.sum(0))):
                m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g**2
                theta[i] = theta[i] * (1 - training.lr * training.weight_decay)
                theta[i] = theta[i] - training.lr * (m[i] / (1 - 0.9**step)) / (
                    np.sqrt(v[i] / (1 - 0.999**step)) + 1e-8
                )
        losses.append(float(np.mean(lost)))
    return theta[0], theta[1], losses


@pytest.mark.parametrize("unknown", [0.0, 0.4, 0.8])
@pytest.mark.parametrize(("records", "batch"), [(30, 8), (5, 64), (30, 2)])
def test_equals_adamw_by_hand(records: int, batch: int, unknown: float) -> None:
    """30 records in batches of 8: the last 6 are dropped; 5 records: one batch; batches of 2, of
    which some know no label. The gradient is that of the mean over known labels.
    """
    training = Training(epochs=3, lr=0.01, weight_decay=0.1, batch=batch)
    learn = split(records, 3)
    hidden = np.random.default_rng(8).random(learn.target.shape) < unknown
    learn = replace(learn, target=np.where(hidden, -1, learn.target).astype(np.int8))
    # no label is defined: the last epoch is kept
    nowhere = replace(split(4, 4), target=np.zeros((4, 2), np.int8))
    head, best, log = train(training, 7, learn, nowhere)
    weight, bias, losses = adamw_by_hand(learn, training, 7)
    assert best == 2
    np.testing.assert_allclose(head.weight.detach().numpy(), weight, atol=1e-6)
    np.testing.assert_allclose(head.bias.detach().numpy(), bias, atol=1e-6)
    np.testing.assert_allclose([e.loss for e in log], losses, atol=1e-6)


def test_a_record_draws_its_window_alone() -> None:
    """From (seed, epoch, record): whatever other records there are, and in whatever order."""
    whole = split(12, 1, windows=(4, 1, 3))
    picked = [7, 0, 10, 3]
    part = Split(
        records=[whole.records[i] for i in picked],
        features=np.concatenate([whole.features[whole.record_of == i] for i in picked]),
        record_of=np.repeat(np.arange(4), [(whole.record_of == i).sum() for i in picked]),
        target=whole.target[picked],
    )
    seen, alike = set(), 0
    for epoch in range(30):
        rows, few = one_window_each(whole, 2, epoch), one_window_each(part, 2, epoch)
        np.testing.assert_array_equal(whole.record_of[rows], np.arange(12))
        np.testing.assert_array_equal(whole.features[rows[picked]], part.features[few])
        seen.add(int(rows[0]))
        # both have four windows
        alike += int(rows[0] == rows[3] - np.flatnonzero(whole.record_of == 3)[0])
    assert seen == {0, 1, 2, 3}
    assert alike < 20
    assert any(
        (one_window_each(whole, 2, e) != one_window_each(whole, 3, e)).any() for e in range(3)
    )


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.5, 0.9, 0.7, 0.9], 1),
        ([0.9, 0.1, 0.2, 0.3], 0),
        ([math.nan] * 4, 3),
        ([math.nan, 0.2, math.nan, 0.1], 1),
        ([0.0, 0.0, 0.0, 0.0], 0),
    ],
)
def test_the_best_epoch_is_kept(scores: list[float], best: int) -> None:
    """Every epoch leaves other weights; the module ends with those of the first of the best."""
    module = nn.Linear(1, 1)
    seen: list[Tensor] = []

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        yield torch.ones(2, 1), torch.ones(2, 1)

    def validate() -> float:
        assert not module.training
        seen.append(module.weight.detach().clone())
        return scores[len(seen) - 1]

    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    found, log = loop.train(module, optimiser, batches, validate, len(scores))
    assert found == best
    assert len({float(w) for w in seen}) == len(scores)
    assert torch.equal(module.weight, seen[best])
    assert [e.epoch for e in log] == list(range(len(scores)))
