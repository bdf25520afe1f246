"""The data dictionary: it has every column of the CSV files that were published."""

from pathlib import Path

import pandas as pd
import pytest

from ecgbench.reports import Column, Table
from ecgbench.results.columns import Meaning, dictionary, meaning

PUBLISHED = Path(__file__).parents[2] / "reports" / "ptbxl-2000"


@pytest.mark.parametrize("file", sorted(PUBLISHED.glob("*.csv")), ids=lambda f: f.name)
def test_every_column_of_a_published_report_has_its_meaning(file: Path) -> None:
    names = list(pd.read_csv(file, nrows=0))
    assert [name for name in names if meaning(name, file.stem) is None] == []


def test_a_meaning_is_short_and_said_once() -> None:
    rows = dictionary()
    assert len({(row.column, row.file) for row in rows}) == len(rows)
    assert [row for row in rows if not 0 < len(row.meaning.split()) <= 15] == []


def test_the_nearest_meaning_holds_and_gives_the_heading_where_a_report_has_none() -> None:
    def of(column: str, file: str) -> Meaning:
        found = meaning(column, file)
        assert found is not None
        return found

    assert of("kept", "verdicts").unit == "fraction"
    assert of("kept", "operating_points_2_by_leads").file == "operating_points*"
    assert of("difference", "lead_importance_pairs_3").file == "lead_importance_pairs*"
    assert of("ppv_0.01_low", "operating_points").column == "*_low"
    assert of("I+II", "survival_auroc").file == "survival_*"
    assert of("task", "survival_auroc").file == ""
    assert meaning("mine", "mine") is None
    columns = [Column("seconds"), Column("fs", "Rate"), Column("mine")]
    assert [c.title for c in Table(name="models", columns=columns, rows=[]).columns] == [
        *("Window, s", "Rate", "mine")
    ]
