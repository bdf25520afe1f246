"""What `ecgbench run` leaves at its end: the answer and the main table on the terminal, the report
in a file; and what becomes of the run where the report cannot be made.
"""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench import api, reports
from tests.by_hand import two_models

pytestmark = [pytest.mark.reported, pytest.mark.usefixtures("one_thread")]
Typed = Callable[..., int]


@pytest.fixture(scope="module")
def run(typed: Typed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one cell."""
    out = tmp_path_factory.mktemp("reported") / "run"
    assert typed(out) == 0
    return out


def test_a_run_ends_with_its_answer_its_table_and_its_page(
    run: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "report" / "index.html").unlink()
    assert typed(run) == 0
    out = capsys.readouterr().out
    study = api.read(run)
    row = study.main.iloc[0]
    (line,) = [text for text in out.splitlines() if text.startswith("Demo (synthetic)")]
    ends = " ".join(f"{100 * row[name]:.1f}" for name in ("value", "low", "high"))
    assert line.translate(str.maketrans("", "", "[],")).split()[-3:] == ends.split()
    assert "Tiny (random weights)" in out
    assert "over 8 labels of Demo (synthetic)\n" in out
    assert reports.summary(study)[0] in out
    assert out.splitlines()[-1].endswith(str(run / "report" / "index.html"))
    assert (run / "report" / "index.html").is_file()
    assert reports.up_to_date(run / "report", reports.made_from(run))


def test_a_report_that_nobody_wants_or_of_many_cells_is_left(
    run: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "report" / "index.html").unlink(missing_ok=True)
    assert typed(run, "--set", "run.report=no") == 0
    monkeypatch.setattr("ecgbench.study.command.REPORTED", 0)
    assert typed(run) == 0
    said = capsys.readouterr().out.splitlines()
    assert [text for text in said if text.startswith("next: ")] == 2 * [
        f"next: ecgbench report {run}"
    ]
    assert len(said) == 4
    assert not (run / "report" / "index.html").exists()


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyError("a bug\nof two lines")]
)
def test_a_report_that_fails_costs_neither_the_run_nor_its_answer(
    error: Exception,
    run: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*args: object) -> None:
        raise error

    monkeypatch.setattr(reports, "write", fails)
    assert typed(run) == 1
    said = capsys.readouterr()
    (line,) = [text for text in said.err.splitlines() if "report" in text]
    assert line.endswith(f"ecgbench report {run}")
    assert "Tiny (random weights)" in said.out
    assert "index.html" not in said.out


def test_python_writes_the_report_and_prints_no_table(
    run: Path, copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "report" / "index.html").unlink(missing_ok=True)
    tiny = Path(__file__).parents[1] / "tiny.py"
    how = {"protocol": "linear", "settings": {"training.epochs": 2}, "weights": "random"}
    how |= {"limit": 60, "seeds": 1, "engine": "inline", "prepared": copies}
    api.run(tiny, "demo", 12, out=run, **how)
    assert "Tiny" not in capsys.readouterr().out
    assert (run / "report" / "index.html").is_file()


def test_a_table_wider_than_the_terminal_stands_in_parts() -> None:
    study = two_models()
    whole, narrow = reports.summary(study), reports.summary(study, 50)
    start = whole.index(next(text for text in whole if text.startswith("Macro"))) + 2
    assert max(map(len, whole[start:])) > 50 >= max(map(len, narrow[start:]))
    heads = [text for text in narrow if text.startswith("Task ")]
    assert len(heads) > 1
    assert " ".join(heads).replace("Task", "").replace("Leads", "").split() == (
        whole[start].replace("Task", "").replace("Leads", "").split()
    )
