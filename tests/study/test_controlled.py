"""Controls along the whole path, on data whose truth is planted: "old" is in the table of ages
alone, "loud" in lead V1 alone (tests/plugins/aged.py).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from ecgbench import datasets, reports
from ecgbench.data import select
from ecgbench.results.controls import checked
from ecgbench.results.study import Run, read
from ecgbench.study import controls

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]
AGED = Path(__file__).parents[1] / "plugins" / "aged.py"
REPEATS = 5


@pytest.fixture(scope="module")
def study(
    typed: Callable[..., int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], Path]]:
    """study(name, controls): the run with these controls; a few permutations of the labels."""
    home = tmp_path_factory.mktemp("controls")
    words = ("--tasks", str(AGED), "--leads", "12,V1", "--limit", "140", "--protocol", "probe")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controls, "REPEATS", REPEATS)

        def run(name: str, wanted: str) -> Path:
            datasets.ROOM.forget()
            assert typed(home / name, *words, "--controls", wanted) == 0
            return home / name

        yield run
    datasets.ROOM.forget()


@pytest.fixture(scope="module")
def whole(study: Callable[[str, str], Path]) -> Run:
    return read(study("whole", "labels,leads,age_sex,recorder"))


def found(study: Run) -> dict[tuple[str, str, str], SimpleNamespace]:
    rows = checked(study).to_dict("records")
    return {(r["control"], r["task"], r["leads"]): SimpleNamespace(**r) for r in rows}


def test_each_control_comes_out_as_the_planted_truth_says(whole: Run) -> None:
    rows = found(whole)
    for task in ("aged_old", "aged_loud"):
        chance = rows["labels", task, "12"]
        assert chance.repeats == REPEATS
        assert chance.verdict == "as expected"
        assert chance.low < 0.5 < chance.high
    # the model reads loudness, and needs the lead that it is in
    loud = rows["leads", "aged_loud", "V1"]
    assert loud.model_value > 0.9
    assert loud.verdict == "as expected"
    assert loud.value < loud.model_value - 0.2
    # age tells who is old, and no recording does
    shortcut = rows["age_sex", "aged_old", "12"]
    assert shortcut.value > 0.95
    assert shortcut.model_value < 0.7
    assert shortcut.verdict == "NOT as expected"
    assert rows["age_sex", "aged_loud", "12"].verdict == "as expected"
    refused = rows["recorder", "aged_old", "12"]
    assert refused.verdict == "no number"
    assert "neither site nor device is known" in refused.note


def test_the_same_command_again_computes_nothing(
    study: Callable[[str, str], Path], whole: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    study("whole", "labels,leads,age_sex,recorder")
    said = capsys.readouterr().out
    assert f"0 cells computed, {REPEATS * 4} were there already" in said
    assert "control age_sex" in said


@pytest.mark.long
def test_a_permutation_that_keeps_the_test_labels_shows(
    study: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean stays near chance; p of the permutations tells it."""
    honest = select.permuted

    def kept(index: pd.DataFrame, *words: str | int) -> pd.DataFrame:
        made, test = honest(index, *words), (index["split"] == "test").to_numpy()
        columns = [c for c in index.columns if ":" in c]
        made.loc[test, columns] = index.loc[test, columns].to_numpy()
        return made

    monkeypatch.setattr(select, "permuted", kept)
    broken = read(study("kept", "labels"))
    row = found(broken)["labels", "aged_loud", "12"]
    assert row.verdict == "NOT as expected", row
    section, *_ = reports.sections("controls", broken)
    sentences = section.parts[0].texts  # type: ignore[union-attr]
    assert any("something in this run knows the labels" in one for one in sentences)
