"""The script that holds two reports of one study against one another finds one digit."""

import csv
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

REPORT = Path(__file__).parents[1] / "reports" / "ptbxl-2000"


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "compare_reports", Path(__file__).parent / "compare_reports.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_report_equals_itself(compare: ModuleType) -> None:
    assert list(compare.differences(REPORT, REPORT)) == []


@pytest.mark.parametrize(
    "kind", ["csv", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("md", "tex", "html"))]
)
def test_one_digit_is_found(compare: ModuleType, tmp_path: Path, kind: str) -> None:
    changed = Path(shutil.copytree(REPORT, tmp_path / "after"))
    file = changed / ("index.html" if kind == "html" else f"main_table.{kind}")
    with (REPORT / "main_table.csv").open() as table:
        score = next(csv.DictReader(table))["value"]
    printed = score if kind == "csv" else f"{100 * float(score):.1f}"
    digit = str((int(printed[-1]) + 1) % 10)
    assert printed in file.read_text()
    file.write_text(file.read_text().replace(printed, printed[:-1] + digit))
    assert any(file.name in line for line in compare.differences(REPORT, changed))


def test_a_lost_row_is_found(compare: ModuleType, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(REPORT, tmp_path / "after"))
    lines = (changed / "labels.csv").read_text().splitlines(keepends=True)
    (changed / "labels.csv").write_text("".join(lines[:-1]))
    assert [d for d in compare.differences(REPORT, changed) if "no row" in d]
