"""Heads of fewer labelled patients as a person asks for them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ecgbench.cli import app
from ecgbench.data.select import only_labelled
from ecgbench.errors import BadSetting


def test_patients_are_nested_and_the_test_split_keeps_its_labels() -> None:
    index = pd.DataFrame({"patient": [str(i // 2) for i in range(60)], "t:a": 1})
    index["split"] = np.repeat(["train", "val", "test"], 20)
    known = [
        {*few.loc[few["t:a"] == 1, "patient"]}
        for few in (only_labelled(index, "d", number, 3) for number in (5, 12, 20))
    ]
    tested = {*index.loc[index["split"] == "test", "patient"]}
    assert known[0] < known[1] < known[2] == {*index["patient"]}
    assert [len(one - tested) for one in known] == [5, 12, 20]
    assert known[0] != {*(few := only_labelled(index, "d", 5, 4)).loc[few["t:a"] == 1, "patient"]}
    with pytest.raises(BadSetting, match="20 patients"):
        only_labelled(index, "d", 21, 0)


@pytest.mark.parametrize("words", [["3"], ["25", "--protocol", "linear"], ["25,9999"]])
def test_a_number_that_cannot_be(words: list[str], tmp_path: Path) -> None:
    command = ["run", "--models", "simple_features", "--tasks", "demo", "--labels-used", *words]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")])
    assert isinstance(done.exception, BadSetting)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_all_patients_give_the_head_of_the_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["run", "--models", "simple_features", "--leads", "I,12", "--tasks", "demo"]
    words += ["--limit", "60", "--out", str(out), "--engine", "inline", "--set", "run.report=no"]
    assert CliRunner().invoke(app, words).exit_code == 0
    stored = pd.concat(map(pd.read_parquet, (out / "fits").rglob("validation.parquet")))
    number = stored["patient"].nunique()
    done = CliRunner().invoke(app, [*words, "--labels-used", f"10,{number},all"])
    assert done.exit_code == 0, done.output
    own, all_used, few = (
        {f.parent.name: f.read_bytes() for f in (out / sub / "fits").rglob("head.safetensors")}
        for sub in ("", f"labels_used/{number}@4", "labels_used/10@4")
    )
    assert own == all_used
    assert few.keys().isdisjoint(own)
    assert CliRunner().invoke(app, ["report", str(out), "--figures", "png"]).exit_code == 0
    rows = pd.read_csv(out / "report" / "labels_used.csv")
    rows = rows[rows["label"] == "macro"].set_index(["leads", "labelled", "draws"])["value"]
    for leads in ("I", "12"):
        assert rows[leads, number, 10] == pytest.approx(rows[leads, number, 1], abs=1e-12)
    (rate,) = pd.read_csv(out / "report" / "exchange_rate.csv").to_dict("records")
    assert rate["equal_low"] <= rate["equal"] <= rate["equal_high"]
