"""`ecgbench check results`: an honest export passes, each kind of lie has a row of its own."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecgbench.check.results import check
from ecgbench.core import provenance
from ecgbench.core.files import as_json, as_parquet, put_proved, sha256_of
from ecgbench.errors import BadSetting, Damaged
from ecgbench.exchange import export
from ecgbench.results.study import read
from ecgbench.study import lent
from ecgbench.study.store import cells_of
from tests.invented import Data, Made, write

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def sent(typed: Callable[..., int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model on 60 records of the demo."""
    folder = tmp_path_factory.mktemp("check")
    assert typed(folder / "run", "--leads", "12,I") == 0
    export(read(folder / "run"), folder / "sent", "somebody")
    return folder / "sent"


def broken(folder: Path, copies: Path) -> list[str]:
    return [row["name"] for row in check(folder, prepared=copies) if not row["ok"]]


def test_an_honest_export_passes_wherever_it_is_checked(
    sent: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = provenance.code() | {"commit": 8 * "12a34", "dirty": True}
    monkeypatch.setattr(provenance, "code", lambda: here)
    rows = list(check(sent, prepared=copies))
    assert [row["detail"] for row in rows if not row["ok"]] == []
    assert len(rows) == 5


def stated(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    file = folder / "results" / "tiny.json"
    log = json.loads(file.read_text())
    change(log)
    file.write_text(as_json(log))


def higher(log: dict[str, Any]) -> None:
    log["evaluation_results"][0]["score_details"]["score"] += 2e-6


@pytest.mark.long
@pytest.mark.parametrize(
    "change", [higher, lambda log: log["evaluation_results"].pop()], ids=["higher", "left out"]
)
def test_a_score_that_predictions_do_not_give_is_broken(
    change: Callable[[dict[str, Any]], Any], sent: Path, copies: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(sent, tmp_path / "sent"))
    stated(folder, change)
    assert broken(folder, copies) == ["scores in results/tiny.json"]


def test_the_table_that_the_page_of_results_shows_is_compared(
    sent: Path, copies: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(sent, tmp_path / "sent"))
    table = pd.read_csv(folder / "main_table.csv")
    table["value"] += 0.01
    table.to_csv(folder / "main_table.csv", index=False)
    assert broken(folder, copies)[0] == "scores in main_table.csv"


@pytest.mark.parametrize("name", ["labels.csv", "index.html"])
def test_a_number_that_a_page_shows_is_compared(
    name: str, sent: Path, copies: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(sent, tmp_path / "sent"))
    text = (folder / name).read_text()
    at = [found.span(1) for found in re.finditer(r"\d\.(\d)[^<>]*[<|,]", text)][-1]
    (folder / name).write_text(f"{text[: at[0]]}{9 - int(text[slice(*at)])}{text[at[1] :]}")
    assert broken(folder, copies) == ["numbers of its pages"]


def flipped(table: pd.DataFrame) -> pd.DataFrame:
    name = next(name for name in table if name.startswith("target:"))
    return table.assign(**{name: np.roll(table[name], 1)})


FORGED: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "no probability": lambda table: table.assign(
        **{name: 2.0 for name in table if name.startswith("probability:")}
    ),
    "other labels": flipped,
    "a record less": lambda table: table.iloc[1:],
    "other patients": lambda table: table.assign(patient=table["record"]),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_cell_that_is_forged_with_its_hashes_is_found(
    kind: str, sent: Path, copies: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(sent, tmp_path / "sent"))
    cell = next(cells_of(folder))
    file = cell / "predictions.parquet"
    file.write_bytes(as_parquet(FORGED[kind](pd.read_parquet(file))))
    hashes = json.loads((cell / "DONE").read_text()) | {file.name: sha256_of(file)}
    before = sha256_of(cell / "DONE")
    (cell / "DONE").write_text(as_json(hashes))
    text = (folder / lent.FILE).read_text().replace(before, sha256_of(cell / "DONE"))
    stated = json.loads(text)
    put_proved(folder / lent.FILE, {k: v for k, v in stated.items() if k != "proof"})
    assert broken(folder, copies)
    if kind != "other patients":  # whose ids are those of whoever wrote them
        with pytest.raises((BadSetting, Damaged)):
            read(sent.parent / "run", others=[folder])


def test_test_records_of_another_split_are_broken(
    sent: Path, copies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pd.DataFrame({"record": [f"other{i}" for i in range(13)]})
    monkeypatch.setattr("ecgbench.check.results.Selection.of", lambda *_: other)
    (name,) = broken(sent, copies)
    assert name.endswith("task and split are known")


def test_scores_without_predictions_are_not_taken_for_checked(tmp_path: Path, copies: Path) -> None:
    write(tmp_path / "run", Made(data={"echonext": Data(tasks={"echonext": 2})}, models=("good",)))
    export(read(tmp_path / "run"), tmp_path / "sent", "somebody")
    names = broken(tmp_path / "sent", copies)
    assert names == ["scores in main_table.csv", "scores in results/good.json"]
