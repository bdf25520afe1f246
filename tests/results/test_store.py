import dataclasses
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench.cells import Cell, Fit, Plan, Scoring, Training, key
from ecgbench.ecg.draw import Count
from ecgbench.errors import BadSetting, WriteError
from ecgbench.files import as_json, as_npy, as_parquet
from ecgbench.results import store
from ecgbench.results.store import Store


def cell(model: str, k: int, weights: str = "random", contract: str = "paper") -> Cell:
    fit = Fit(task="demo", model=model, contract=contract, weights=weights, seed=0)
    return Cell(fit=fit, task="demo", setting=Count(k, 0), policy="zero")


def plan(*cells: Cell) -> Plan:
    return Plan(name="test", cells=cells)


def content() -> dict[str, bytes | str]:
    table = pd.DataFrame({"label": ["macro", "MI"], "auroc": [0.75, float("nan")]})
    return {"scores.parquet": as_parquet(table), "replicates.npy": as_npy(np.arange(6.0)), "cell.json": as_json({"windows": 2})}


def test_what_is_finished_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "cell"
    assert store.state(folder)[0] == "missing"
    store.finish(folder, content())
    assert store.state(folder) == ("ok", "")
    assert store.read_table(folder, "scores.parquet")["auroc"].isna().tolist() == [False, True]
    assert store.read_array(folder, "replicates.npy").tolist() == [0, 1, 2, 3, 4, 5]
    assert store.read_json(folder, "cell.json") == {"windows": 2}
    told = json.loads((folder / "DONE").read_text())
    assert told == {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.name != "DONE"}


@pytest.mark.parametrize("survived", range(4))
def test_a_cell_is_finished_with_its_last_file_only(survived: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, put = [], store.put

    def failing(path: Path, data: bytes | str) -> Path:
        if len(written) == survived:
            raise OSError(28, "No space left on device")
        written.append(path.name)
        return put(path, data)

    monkeypatch.setattr(store, "put", failing)
    with pytest.raises(OSError, match="No space"):
        store.finish(tmp_path / "cell", content())
    assert len(written) == survived
    assert not store.finished(tmp_path / "cell")
    assert store.state(tmp_path / "cell")[0] == "missing"
    monkeypatch.undo()
    store.finish(tmp_path / "cell", content())
    assert store.state(tmp_path / "cell")[0] == "ok"


def test_reasons_are_kept_until_something_newer_is_known(tmp_path: Path) -> None:
    store.excuse(tmp_path, store.SKIPPED, "reads all leads at once")
    assert store.state(tmp_path) == ("skipped", "reads all leads at once")
    store.excuse(tmp_path, store.FAILED, "out of memory", "a trace")
    assert store.state(tmp_path) == ("failed", "out of memory")
    store.finish(tmp_path, content())
    assert store.state(tmp_path) == ("ok", "")
    assert not (tmp_path / store.FAILED).exists()


def test_what_was_altered_or_is_gone_is_not_read(tmp_path: Path) -> None:
    store.finish(tmp_path, content())
    data = (tmp_path / "replicates.npy").read_bytes()
    (tmp_path / "replicates.npy").write_bytes(data[:-1] + b"\x01")
    with pytest.raises(BadSetting, match="is not what the run wrote; remove"):
        store.read_array(tmp_path, "replicates.npy")
    (tmp_path / "scores.parquet").unlink()
    with pytest.raises(BadSetting, match=r"scores\.parquet is not what the run wrote"):
        store.read_table(tmp_path, "scores.parquet")


def test_one_claim_at_a_time(tmp_path: Path) -> None:
    """Two stores of one folder are as two processes: the system keeps their open files apart."""
    run, other = Store(tmp_path / "run"), Store(tmp_path / "run")
    with run.claim("a") as mine, other.claim("a") as theirs, other.claim("b") as another:
        assert (mine, theirs, another) == (True, False, True)
    with other.claim("a") as mine:
        assert mine
    with pytest.raises(ValueError, match="in a cell"), run.claim("a"):
        raise ValueError("in a cell")
    with other.claim("a") as mine:
        assert mine


def _claims(folder: Path, ready: Path) -> None:
    with Store(folder).claim("a") as mine:
        ready.write_text(str(mine))
        time.sleep(60)


def test_the_claim_of_a_killed_process_ends_with_it(tmp_path: Path, kill_when: Callable[..., None]) -> None:
    kill_when(_claims, tmp_path / "run", tmp_path / "ready")
    with Store(tmp_path / "run").claim("a") as mine:
        assert mine


def test_a_folder_that_cannot_be_made_is_told_and_no_lost_claim(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file in the way")
    with pytest.raises(WriteError, match=r"cannot write .*run/locks/"), Store(tmp_path / "run").claim("a"):
        pass


def test_a_plan_keeps_what_another_run_wrote_meanwhile(tmp_path: Path) -> None:
    ours, theirs = plan(cell("a", 1)), plan(cell("b", 1))
    Store(tmp_path).write_plan(theirs, _facts("b", device="cpu"), {"B": "2"})
    Store(tmp_path).write_plan(ours, _facts("a", device="cuda"), {"A": "1"})
    found = Store(tmp_path).document()
    assert found is not None
    both = Plan.from_json(found["plan"])
    assert set(both.cells) == {*ours.cells, *theirs.cells}
    assert found["hash"] == key(both.to_json())
    assert found["keys"] == {"A": "1", "B": "2"}
    assert found["facts"] == {"models": {"a": 1, "b": 1}, "tasks": {"a": 1, "b": 1}, "datasets": {"demo": "a"}, "device": "cuda"}


def _facts(model: str, device: str) -> dict[str, object]:
    return {"models": {model: 1}, "tasks": {model: 1}, "datasets": {"demo": model}, "device": device}


def test_a_plan_whose_draws_another_run_raised_is_not_written(tmp_path: Path) -> None:
    """Its cells were scored with fewer, and a table of both would mix them."""
    run = Store(tmp_path)
    run.write_plan(dataclasses.replace(plan(cell("b", 1)), scoring=Scoring(draws=2000)), {}, {})
    before = run.plan_file.read_bytes()
    with pytest.raises(BadSetting, match="more bootstrap draws meanwhile; run the same command again"):
        run.write_plan(plan(cell("a", 1)), {}, {})
    assert run.plan_file.read_bytes() == before
    again = run.join(plan(cell("a", 1)))
    assert again.scoring.draws == 2000
    run.write_plan(again, {}, {})


def test_plans_are_joined(tmp_path: Path) -> None:
    """A plan that holds the earlier one stands in its own order; else the newer cells stand behind."""
    run = Store(tmp_path)
    first = plan(cell("b", 12), cell("b", 1))
    assert run.document() is None
    assert run.join(first) == first
    run.write_plan(first, {}, {})
    larger = plan(cell("a", 1), cell("b", 1), cell("b", 12))
    assert run.join(larger) == larger
    other = plan(cell("a", 1), cell("b", 1))
    assert run.join(other).cells == (*first.cells, cell("a", 1))
    assert run.join(first) == first


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"training": Training(epochs=3)}, "training"),
        ({"scoring": Scoring(draw="window")}, "scoring"),
        ({"limit": 60}, "limit"),
        ({"training": Training(lr=0.1), "limit": 60}, "training, limit"),
        ({"cells": (cell("b", 2, weights="b.safetensors"),)}, "holds b with weights random"),
        ({"cells": (cell("a", 2, contract="upstream"),)}, "contract"),
    ],
)
def test_other_settings_need_another_folder(changed: dict[str, object], told: str, tmp_path: Path) -> None:
    """Two weights of one model would be averaged in one row as if they were two fits."""
    run = Store(tmp_path)
    run.write_plan(plan(cell("b", 1)), {}, {})
    with pytest.raises(BadSetting, match=f"{told}.*choose another folder with --out"):
        run.join(dataclasses.replace(plan(cell("b", 1)), **changed))  # type: ignore[arg-type]
