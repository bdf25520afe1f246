"""Exported results read back: the same numbers, marked; each fault is refused in one line."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ecgbench
from ecgbench.cards.cell import Scoring
from ecgbench.core.files import as_json, as_parquet, put_proved, sha256_of
from ecgbench.errors import BadSetting, MissingData
from ecgbench.exchange import export, opened
from ecgbench.results.study import Run, read
from ecgbench.study import lent
from ecgbench.study.store import cells_of
from tests.invented import Data, Made, write

NUMBERS = ["value", "low", "high", "se", "n_records", "n_patients", "p"]
MADE = Made(
    data={"ptbxl": Data(tasks={"ptbxl_super": 3}, per_patient=2)},
    scoring=Scoring(metrics=("auroc", "auprc")),
)
"""Of a published data set; the labels are invented."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = tmp_path_factory.mktemp("runs") / "mine"
    write(run, MADE)
    return read(run)


@pytest.fixture(scope="module")
def sent(study: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("sent") / "theirs"
    export(study, to, "R. Roe, Ghent")
    return to


@pytest.fixture
def spoilt(sent: Path, tmp_path: Path) -> Path:
    """An export, the test's own to spoil."""
    return Path(shutil.copytree(sent, tmp_path / "spoilt"))


def test_what_is_read_back_has_the_numbers_of_the_run_and_is_marked(study: Run, sent: Path) -> None:
    given = ecgbench.read(sent)
    assert given.main[NUMBERS].equals(study.main[NUMBERS])
    assert given.cells["value"].equals(study.cells["value"])
    assert all(lent.MARK in str(notes) and "Ghent" in str(notes) for notes in given.main["note"])
    assert all(lent.MARK in model.title for model in given.models)
    # records of a published data set keep their names
    names = ("ptbxl_super", "good", "12", "zero")
    assert given.predictions(*names).equals(study.predictions(*names))


def test_scores_have_the_schema_of_every_eval_ever(study: Run, sent: Path) -> None:
    log = json.loads((sent / "results" / "good.json").read_text())
    required = {"schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata"}
    assert {*required, "model_info", "eval_library", "evaluation_results"} <= set(log)
    rows = study.main[study.main["model"] == "good"]
    assert len(log["evaluation_results"]) == len(rows)
    for one, row in zip(log["evaluation_results"], rows.to_dict("records")):
        assert {"evaluation_name", "source_data", "metric_config", "score_details"} <= set(one)
        interval = one["score_details"]["uncertainty"]["confidence_interval"]
        stated = one["score_details"]["score"], interval["lower"], interval["upper"]
        assert stated == (row["value"], row["low"], row["high"])
        texts = one["score_details"]["details"], one["generation_config"]["additional_details"]
        assert all(isinstance(value, str) for text in texts for value in text.values())


def predictions(folder: Path) -> Path:
    return next(cells_of(folder)) / "predictions.parquet"


def hashed(folder: Path) -> None:
    """A probability in its sixth digit, with the hash of the table beside it."""
    table = pd.read_parquet(predictions(folder))
    name = next(name for name in table if name.startswith("probability:"))
    table.loc[3, name] += 1e-6
    predictions(folder).write_bytes(as_parquet(table))
    done = predictions(folder).with_name("DONE")
    stated = json.loads(done.read_text()) | {"predictions.parquet": sha256_of(predictions(folder))}
    done.write_text(as_json(stated))


FAULTS: dict[str, Callable[[Path], Any]] = {
    "a probability and its hash": hashed,
    "a cell is gone": lambda folder: shutil.rmtree(next(cells_of(folder))),
    "another format": lambda folder: put_proved(
        folder / lent.FILE, {**lent.read(folder), "format": 99}
    ),
    "export.json is edited": lambda folder: (folder / lent.FILE).write_text("{}}"),
    "no export": lambda folder: [shutil.rmtree(folder), folder.mkdir()],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_as_it_was_sent_is_refused(
    fault: str, spoilt: Path, study: Run, here: Callable[..., Any]
) -> None:
    FAULTS[fault](spoilt)
    beside = ("report", study.path, "--with", spoilt, "--to", spoilt.parent / "page")
    for words in (("read", spoilt), beside):
        done = here(*words, cwd=spoilt.parent)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert spoilt.name in done.stderr
    done = here("check", "results", spoilt, cwd=spoilt.parent)
    assert done.returncode == 1
    assert "BROKEN" in done.stdout


def test_rows_of_others_stand_beside_a_run(study: Run, sent: Path) -> None:
    both = read(study.path, others=[sent])
    names = list(dict.fromkeys(both.main["model"]))
    assert names == ["good", "weak", "good@theirs", "weak@theirs"]
    theirs = both.main["model"].str.endswith("@theirs")
    for mine in (theirs, ~theirs):
        assert both.main.loc[mine, "value"].tolist() == study.main["value"].tolist()
    marked = both.main["note"].astype(str).str.contains(lent.MARK)
    assert marked.equals(theirs)
    assert both.main["std"].notna().any()


def test_an_export_is_no_run_folder_and_no_published_report(
    sent: Path, here: Callable[..., Any], tmp_path: Path
) -> None:
    spoilt = Path(shutil.copytree(sent, tmp_path / "sent"))
    done = here("run", "--models", "simple_features", "--out", spoilt, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    for lost in (lent.FILE, "plan.toml"):
        part = Path(shutil.copytree(spoilt, tmp_path / lost.partition(".")[0]))
        (part / lost).unlink()
        with pytest.raises(BadSetting, match=lost):
            opened(part)


@pytest.mark.long
@pytest.mark.parametrize("other", ["records", "labels", "task", "run"])
def test_others_are_compared_on_the_same_test_records_and_labels(
    other: str, study: Run, tmp_path: Path
) -> None:
    data = {
        "records": Data(tasks={"ptbxl_super": 3}, per_patient=2, records=80),
        "labels": Data(tasks={"ptbxl_super": 3}, per_patient=2, prevalence=0.4),
        "task": Data(tasks={"ptbxl_sub": 3}),
        "run": MADE.data["ptbxl"],
    }
    write(tmp_path / "run", replace(MADE, data={"ptbxl": data[other]}))
    to = tmp_path / "run" if other == "run" else tmp_path / "sent"
    if other != "run":
        export(read(tmp_path / "run"), to, "somebody")
    with pytest.raises(BadSetting, match=f"--with {to}: "):
        read(study.path, others=[to])


def test_what_others_measured_is_neither_merged_nor_published(
    study: Run, sent: Path, here: Callable[..., Any], tmp_path: Path
) -> None:
    for words in (
        ("runs", "merge", study.path, sent, "--to", tmp_path / "both"),
        ("runs", "export", sent, "--to", tmp_path / "again"),
        ("report", sent, "--publish", "--to", tmp_path / "page"),
    ):
        done = here(*words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), words
        assert "sent" in done.stderr
    assert not any(tmp_path.glob("*/*"))


def test_own_records_become_numbers_and_the_numbers_stay(tmp_path: Path) -> None:
    write(tmp_path / "run", replace(MADE, data={"clinic": Data(tasks={"heart": 2})}))
    mine = read(tmp_path / "run")
    export(mine, tmp_path / "sent", "somebody")
    given = read(tmp_path / "sent")
    auroc = [run.of("auroc").main for run in (mine, given)]
    for name in ("value", "low", "high"):
        np.testing.assert_allclose(auroc[0][name], auroc[1][name], rtol=0, atol=1e-12)
    text = "".join(f.read_text("latin1").lower() for f in (tmp_path / "sent").rglob("*.json"))
    assert [word for word in ("clinic", "heart", '"r00001"', '"p00001"') if word in text] == []


def test_predictions_on_data_that_are_not_open_stay(tmp_path: Path) -> None:
    data = {"ptbxl": MADE.data["ptbxl"], "echonext": Data(tasks={"echonext": 2})}
    write(tmp_path / "run", replace(MADE, data=data))
    mine = read(tmp_path / "run")
    stays = export(mine, tmp_path / "sent", "somebody")
    assert any("Echonext" in sentence for sentence in stays)
    given = read(tmp_path / "sent")
    assert {r.dataset for r in given.results} == {"ptbxl"}
    log = json.loads((tmp_path / "sent" / "results" / "good.json").read_text())
    stated = {r["score_details"]["details"]["task"] for r in log["evaluation_results"]}
    assert stated == {"ptbxl_super", "echonext"}


def test_a_published_report_is_read_as_it_was_printed() -> None:
    folder = Path(__file__).parents[2] / "reports" / "ptbxl-2000"
    found = ecgbench.read(folder)
    printed = pd.read_csv(folder / "main_table.csv")
    assert found.main["value"].tolist() == printed["value"].tolist()
    assert list(found.main["leads"][:3]) == ["1", "2", "12"]
    compared = found.compare(("laef", "native"), "simple_features", "I")
    assert "not read from a run" in str(compared["note"][0])
    assert lent.MARK in repr(found)
    with pytest.raises(MissingData):
        opened(folder.parent / "ablations-small")
