"""What a cell predicts is the same whichever table it is read from."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ecgbench.evaluate.predict import prediction_table
from ecgbench.study.scores import Predicted, wins_of, with_wins

LABELS = ["b", "a:b", "ST-T"]
"""One ends as another does, behind the sign between the parts of a column's name."""


def table(records: int = 30) -> pd.DataFrame:
    random = np.random.default_rng(0)
    target = random.integers(-1, 2, (records, 3)).astype(np.int8)
    columns = {"record": [f"r{k}" for k in range(records)], "patient": ["é"] * records}
    made = prediction_table(columns, LABELS, random.random((records, 3)), target)
    return with_wins(["auroc"], made)


def test_pandas_and_pyarrow_give_the_columns_of_the_table() -> None:
    whole = table()
    arrow = pa.Table.from_pandas(whole)
    for own in (Predicted.of(whole), Predicted.of(arrow)):
        assert (own.labels, list(own.wins)) == (LABELS, ["auroc"])
        assert own.records == list(whole["record"])
        assert own.patients.tolist() == list(whole["patient"])
        for name, array in (
            ("target:", own.target),
            ("probability:", own.probability),
            ("wins:auroc:", own.wins["auroc"]),
        ):
            expected = np.stack([whole[f"{name}{label}"] for label in LABELS], axis=1)
            np.testing.assert_array_equal(array, expected)
            assert array.dtype == expected.dtype
            assert not array.flags.writeable


def test_some_records_are_compared_with_one_another_alone() -> None:
    whole, few = table(), frozenset(f"r{k}" for k in range(0, 30, 3))
    own = Predicted.of(whole).only(few)
    alone = with_wins(["auroc"], whole[whole["record"].isin(few)].iloc[:, :8])
    np.testing.assert_array_equal(wins_of("auroc", own), Predicted.of(alone).wins["auroc"])
    every = Predicted.of(whole)
    assert every.only(few | set(whole["record"])) is every


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="probability:a:b"):
        Predicted.of(table().drop(columns="probability:a:b"))
