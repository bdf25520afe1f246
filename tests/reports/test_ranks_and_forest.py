"""Ranks over datasets and the forest plot: equal to what the tables give, and refused in one line
where they mean nothing.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from ecgbench.errors import BadSetting
from ecgbench.reports import forest, ranks
from ecgbench.reports import write as write_report
from ecgbench.results.joint import Entry, joint
from ecgbench.results.options import Options
from ecgbench.results.study import Study, read
from tests.results.made_run import Data, Made, write

pytestmark = pytest.mark.rendered

MADE = Made(
    data={
        "alpha": Data(tasks={"a": 3, "b": 2}),
        "beta": Data(tasks={"c": 4}),
        "gamma": Data(tasks={"d": 3}),
    },
    models=("good", "near", "weak"),
    seeds=1,
    skill=lambda model, leads: {"good": 1.4, "near": 1.3, "weak": 0.5}[model],
)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Study:
    path = tmp_path_factory.mktemp("ranks") / "run"
    write(path, MADE)
    return read(path)


def part(section: Any, name: str) -> Any:
    return next(p for p in section.parts if getattr(p, "name", "") == name)


def test_ranks_are_those_of_one_task_a_dataset(three: Study) -> None:
    value = three.main.set_index(["leads", "task", "model"])["value"].unstack()
    for blocks, tasks in (((), ["a", "c", "d"]), (("b",), ["b", "c", "d"])):
        (section,) = ranks.sections(replace(three, options=Options(blocks=blocks)))
        for row in part(section, "ranks").rows:
            name = row["model"].text.lower()
            for leads in ("1", "12"):
                expected = value.loc[leads].loc[tasks].rank(axis=1, ascending=False)[name].mean()
                assert row[leads] == pytest.approx(expected)


def test_two_tasks_of_one_dataset_do_not_both_stand_for_it(three: Study) -> None:
    with pytest.raises(BadSetting, match=r"--set report\.blocks=a,b: both are of alpha"):
        ranks.sections(replace(three, options=Options(blocks=("a", "b"))))


def test_a_model_without_a_score_is_not_ranked(tmp_path: Path) -> None:
    models = (*MADE.models, "odd")
    skill = {"good": 1.4, "near": 1.3, "weak": 0.5, "odd": 1.0}
    write(
        tmp_path / "run",
        replace(
            MADE,
            models=models,
            skill=lambda model, leads: skill[model],
            lacking=[("c", "odd", "1")],
        ),
    )
    (section,) = ranks.sections(read(tmp_path / "run"))
    rows = {row["model"].text: row for row in part(section, "ranks").rows}
    assert rows["Odd"]["1"] is None
    assert rows["Odd"]["12"] is not None


def test_the_forest_is_of_joint_differences(three: Study) -> None:
    (section,) = forest.sections(replace(three, options=Options(baseline="near")))
    rows = part(section, "forest").numbers.rows
    entries = [Entry(m, "zero", "12") for m in ("good", "near")]
    for dataset, tasks in (("alpha", ["a", "b"]), ("all datasets", ["a", "b", "c", "d"])):
        row = next(
            r for r in rows if (r["leads"], r["model"], r["dataset"]) == ("12", "good", dataset)
        )
        found = joint(three, entries, tasks).difference(*entries)
        assert (row["difference"], row["se"], row["p"]) == pytest.approx(
            (found.value, found.se, found.p), rel=1e-9
        )
        assert row["baseline"] == "near"
    assert len(rows) == 2 * 2 * 4
    with pytest.raises(BadSetting, match="--baseline nobody: no trained model"):
        forest.sections(replace(three, options=Options(baseline="nobody")))


def test_all_of_it_on_a_page_twice_with_the_same_bytes(three: Study, tmp_path: Path) -> None:
    names = ["across", "ranks", "forest", "non_inferiority"]
    first = write_report(three, tmp_path / "one", names)
    second = write_report(read(three.path), tmp_path / "two", names)
    assert {"ranks_diagram.svg", "forest.png", "across.tex"} <= {f.name for f in first}
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    assert np.isfinite(three.main["value"]).all()


def test_a_page_of_too_many_drawings_links_the_rest(
    three: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(three, tmp_path / "whole", ["forest"])
    monkeypatch.setattr("ecgbench.reports._page.DRAWN", 1000)
    write_report(three, tmp_path / "small", ["forest"])
    whole, small = ((tmp_path / n / "index.html").read_text() for n in ("whole", "small"))
    assert "Not drawn here" not in whole
    assert 'Not drawn here, to keep the page small: <a href="forest.svg">' in small
    drawn = (tmp_path / "small" / "forest.svg").stat().st_size
    assert len(whole) - len(small) > drawn / 2


def test_models_of_one_title_are_told_apart(tmp_path: Path) -> None:
    """In the tables, and in the diagram, whose labels are shortened."""
    same = {name: {"title": "Net" + " of many layers" * 4} for name in ("good", "near")}
    write(tmp_path, replace(MADE, leads="12"), **same)
    (section,) = ranks.sections(read(tmp_path))
    named = [row["model"].text for row in part(section, "ranks").rows]
    assert [name.endswith(f"({model})") for name, model in zip(named, same)] == [True, True]
    sheet = Figure()
    part(section, "ranks_diagram").draw(sheet)
    said = [text.get_text() for ax in sheet.axes for text in ax.texts]
    assert all(any(name in text for text in said) for name in named)


def test_of_columns_with_fewer_draws_there_is_no_rank(three: Study) -> None:
    less = {key: cells for key, cells in three.finished.items() if key[0] != "c"}
    gone = three.finished["c", "weak", "zero", "1"]
    uneven = replace(three, results=[r for r in three.results if r is not gone[0]])
    assert set(less) < set(uneven.finished)
    (section,) = ranks.sections(uneven)
    assert set(part(section, "ranks").rows[0]) == {"model", "12"}


def test_settings_of_other_datasets_say_so(tmp_path: Path) -> None:
    data = MADE.data | {"delta": Data(tasks={"e": 2})}
    gone = [("e", model, "1") for model in MADE.models]
    write(tmp_path, replace(MADE, data=data, leads="1,2,3,4,5,12", lacking=gone))
    study = read(tmp_path)
    (section,) = ranks.sections(study)
    (said,) = section.parts[-1].texts
    assert "1 random lead: A, C, D; 2 random leads: A, C, D, E;" in said
    assert "3 datasets no p can be below 0.25 and with 4 datasets no p can be below 0.125" in said
    (section,) = forest.sections(study)
    figure, notes = section.parts
    assert "Diamonds: the mean over all datasets that have a score there." in figure.caption
    shown = "Shown: 1 random lead, 2 random leads, 3 random leads and 4 random leads. "
    assert shown + "The other lead settings are in across_pairs.csv." in notes.texts[0]


def test_tasks_of_one_dataset_have_no_mean_over_datasets(tmp_path: Path) -> None:
    write(tmp_path, replace(MADE, data={"alpha": Data(tasks={"a": 3, "b": 2})}, leads="12"))
    (section,) = forest.sections(read(tmp_path))
    assert "Diamonds" not in section.parts[0].caption
