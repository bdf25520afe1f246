"""Every frozen number is what it was; a change is found and named."""

import os
from pathlib import Path

import pandas as pd
import pytest

from tests.frozen.__main__ import HERE, REAL, made, moved, table

FILES = sorted(p.stem for p in HERE.glob("*.csv"))


@pytest.fixture(scope="module")
def tables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, pd.DataFrame]:
    data: Path | None = None
    if os.environ.get("ECGBENCH_REAL_DATA"):
        data = request.getfixturevalue("real_ptbxl")
    return made(tmp_path_factory.mktemp("frozen"), data)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_numbers_hold(name: str, request: pytest.FixtureRequest) -> None:
    if name.startswith(REAL):
        request.getfixturevalue("real_data")  # skips without genuine recordings
    new = request.getfixturevalue("tables")[name]
    lines = moved(name, table(HERE / f"{name}.csv"), new)
    assert not lines, "\n".join(lines[:40])


def test_a_changed_number_a_lost_row_and_a_lost_column_are_named() -> None:
    old = table(HERE / "probe_scores.csv")
    at = old.index[old["label"] == "macro"][0]
    row = " ".join(old.loc[at, ["metric", "label", "task", "model", "setting"]])
    value = old.loc[at, "value"]
    for move, lines in ((2e-4, [f"probe_scores: {row}: value: {value} -> MOVED"]), (1e-6, [])):
        new = old.copy()
        new.loc[at, "value"] = other = str(float(value) * (1 + move))
        assert moved("probe_scores", old, new) == [x.replace("MOVED", other) for x in lines]
    gone = moved("probe_scores", old, old.drop(index=at).drop(columns="n"))
    assert gone == ["probe_scores: column n is gone", f"probe_scores: row {row} is gone"]
    twice = moved("probe_scores", old, pd.concat([new, old]))
    assert len(twice) == 1
    assert "two rows have one name" in twice[0]


@pytest.mark.long
def test_every_table_has_its_frozen_file(request: pytest.FixtureRequest) -> None:
    assert set(request.getfixturevalue("tables")) <= set(FILES)
