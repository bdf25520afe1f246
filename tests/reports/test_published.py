"""The studies that lie in reports/ are read by the program of today, and give their own tables."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from ecgbench import reports

PLACE = Path(__file__).parents[2] / "reports"


@pytest.mark.parametrize("name", ["ablations-small", "lead-sampling-small"])
def test_a_published_study_gives_its_published_tables(name: str, tmp_path: Path) -> None:
    study = shutil.copytree(PLACE / name / "study", tmp_path / "study")
    reports.write(reports.read(study), tmp_path / "report", pictures=())
    published = sorted((PLACE / name / "report").glob("*.csv"))
    assert published
    for file in published:
        ours = pd.read_csv(tmp_path / "report" / file.name)
        pd.testing.assert_frame_equal(ours, pd.read_csv(file), check_like=True, rtol=1e-9)
    assert not list(study.rglob("*.damaged"))
