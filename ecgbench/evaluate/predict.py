"""From features to predictions: the head on every window, probabilities averaged over the windows
of a record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ecgbench.stats.known import UNKNOWN


def probabilities(
    features: np.ndarray,
    record_of: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    softmax: np.ndarray | None = None,
) -> np.ndarray:
    """features (window, dim), record_of (window,) 0..n-1 ascending, head weight (label, dim) and
    bias (label,) -> (n, label) float64.

    Sigmoid per window, arithmetic mean per record (reference benchmark). With `softmax`, weight
    (class, dim) and bias (class,) are of classes that exclude one another, and it is the class of
    each label (label,). NaN: the head does not know a label (NaN in its row, or class -1).
    """
    logits = features.astype(np.float64) @ weight.astype(np.float64).T + bias.astype(np.float64)
    if softmax is not None:
        each = np.exp(logits - logits.max(axis=1, keepdims=True))
        each /= each.sum(axis=1, keepdims=True)
        return averaged(np.where(softmax < 0, np.nan, each[:, softmax]), record_of)
    return averaged(0.5 * (1 + np.tanh(0.5 * logits)), record_of)


def averaged(values: np.ndarray, record_of: np.ndarray) -> np.ndarray:
    """Mean of (window, k) values per record -> (n, k) float64; every record has at least one
    window.
    """
    starts = np.flatnonzero(np.diff(record_of, prepend=-1))
    counts = np.diff(starts, append=len(record_of))
    return np.asarray(np.add.reduceat(values.astype(np.float64), starts, axis=0) / counts[:, None])


def defined(probability: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability and target (record, label), in which a label that the head does not know (NaN
    throughout) is known of no record.
    """
    lost = np.isnan(probability).all(axis=0)
    return np.where(lost, 0.5, probability), np.where(lost, UNKNOWN, target).astype(np.int8)


def prediction_table(
    columns: Mapping[str, Any], labels: Sequence[str], probability: np.ndarray, target: np.ndarray
) -> pd.DataFrame:
    """The columns, then `probability:<label>` and `target:<label>` of arrays (record, label)."""
    named = {f"probability:{n}": probability[:, i] for i, n in enumerate(labels)}
    return pd.DataFrame(
        {**columns, **named, **{f"target:{n}": target[:, i] for i, n in enumerate(labels)}}
    )
