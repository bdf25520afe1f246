"""From features to predictions: the head on every window, probabilities averaged over the windows
of a record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd


def probabilities(
    features: np.ndarray, record_of: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """features (window, dim), record_of (window,) 0..n-1 ascending, head weight (label, dim) and
    bias (label,) -> (n, label) float64.

    Sigmoid per window, arithmetic mean per record (reference benchmark).
    """
    logits = features.astype(np.float64) @ weight.astype(np.float64).T + bias.astype(np.float64)
    return averaged(0.5 * (1 + np.tanh(0.5 * logits)), record_of)


def averaged(values: np.ndarray, record_of: np.ndarray) -> np.ndarray:
    """Mean of (window, k) values per record -> (n, k) float64; every record has at least one
    window.
    """
    starts = np.flatnonzero(np.diff(record_of, prepend=-1))
    counts = np.diff(starts, append=len(record_of))
    return np.asarray(np.add.reduceat(values.astype(np.float64), starts, axis=0) / counts[:, None])


def prediction_table(
    columns: Mapping[str, Any], labels: Sequence[str], probability: np.ndarray, target: np.ndarray
) -> pd.DataFrame:
    """The columns, then `probability:<label>` and `target:<label>` of arrays (record, label)."""
    named = {f"probability:{n}": probability[:, i] for i, n in enumerate(labels)}
    return pd.DataFrame(
        {**columns, **named, **{f"target:{n}": target[:, i] for i, n in enumerate(labels)}}
    )
