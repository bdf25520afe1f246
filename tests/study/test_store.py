"""The store of a run: cells and their keys, plans, reasons, claims, facts."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ecgbench.cards.cell import Cell, Fit, Scoring, Training
from ecgbench.cards.plan import Request, plan_of
from ecgbench.core.division import Division
from ecgbench.core.files import as_json
from ecgbench.core.folders import publish
from ecgbench.ecg.draw import Count
from ecgbench.ecg.leads import LeadSubset
from ecgbench.errors import BadSetting, Damaged
from ecgbench.study.overview import prune, spare, summary
from ecgbench.study.store import PENDING, Store

pytestmark = pytest.mark.durable


def cell(model: str, k: int, weights: str = "random", contract: str = "paper") -> Cell:
    fit = Fit(task="demo", model=model, contract=contract, weights=weights, seed=0)
    return Cell(fit=fit, task="demo", setting=Count(k, 0), policy="zero")


def request(models: str = "b", *leads: int, **more: Any) -> Request:
    """Of models with names of one letter."""
    return Request(
        models=tuple(models),
        tasks=("demo",),
        leads=leads or (1,),
        **{"seeds": 1, "weights": "random", "policies": ("zero",), "name": "test", **more},
    )


def finish(run: Store, of: Cell, cell_key: str) -> Path:
    """A finished cell as far as the store looks into it."""
    folder = run.cell_folder(of)
    publish(folder, {"cell.json": as_json({"identity": of.identity, "key": cell_key})})
    return folder


def key_of(folder: Path) -> str:
    return str(json.loads((folder / "cell.json").read_text())["key"])


def test_a_cell_of_another_key_makes_room(tmp_path: Path) -> None:
    run, one = Store(tmp_path), cell("a", 1)
    assert run.state(one) == ("missing", PENDING)
    assert not run.set_aside(one, "k1")
    folder = finish(run, one, "k1")
    assert not run.set_aside(one, "k1")
    assert run.state(one) == ("ok", "")
    assert run.folder(one) == Store(tmp_path).folder(one) == folder
    # its model was edited: what was computed for k1 is of another number, and stays
    assert run.set_aside(one, "k2")
    assert run.state(one) == ("missing", PENDING)
    finish(run, one, "k2")
    assert run.set_aside(one, "k1")  # and edited back
    assert key_of(folder) == "k1"
    assert run.set_aside(one, "k2")
    assert key_of(folder) == "k2"
    assert run.set_aside(one, "k3")
    for newer in ("k3", "k4"):
        finish(run, one, newer)
        assert run.set_aside(one, f"{newer}+")
    (old,) = folder.parent.iterdir()
    assert key_of(old) == "k4"
    (finish(run, one, "k5") / "cell.json").write_text("{")
    assert not run.set_aside(one, "k6"), "whoever compares it with its hash finds it damaged"


def test_a_damaged_reason_is_one_line(tmp_path: Path) -> None:
    """And a newer one, or a cell, takes its place."""
    run, one = Store(tmp_path), cell("a", 1)
    run.give_reason(one, "skipped", "reads all leads at once")
    assert run.state(one) == ("skipped", "reads all leads at once")
    for text in ("{", "[]", '{"status": "ok", "reason": ""}'):
        run.reason_file(one).write_text(text)
        assert run.state(one)[0] == "damaged"
    run.add_request(request("a"))
    assert summary(tmp_path).states["damaged"] == 1
    run.reason_file(one).write_bytes(b"\xff")
    run.give_reason(one, "failed", "out of memory", "a trace")
    assert run.state(one) == ("failed", "out of memory")
    finish(run, one, "k")
    assert run.state(one) == ("ok", "")


def test_pruning_keeps_what_the_plan_names(tmp_path: Path) -> None:
    run, one, other = Store(tmp_path), cell("a", 1), cell("b", 1)
    run.add_request(request("a"))
    folder, unplanned = finish(run, one, "k1"), finish(run, other, "k2")
    assert list(spare(tmp_path)) == [unplanned]
    run.set_aside(one, "k3")
    finish(run, one, "k3")
    prune(tmp_path)
    assert [*folder.parent.iterdir(), *spare(tmp_path)] == [folder]
    ahead = time.time() + 9999  # of a node whose clock is ahead
    os.utime(folder / "DONE", (ahead, ahead))
    assert summary(tmp_path).rate >= 0
    assert dict(summary(tmp_path).states)["ok"] == 1


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


def test_the_claim_of_a_killed_process_ends_with_it(
    tmp_path: Path, kill_when: Callable[..., None]
) -> None:
    kill_when(_claims, tmp_path / "run", tmp_path / "ready")
    with Store(tmp_path / "run").claim("a") as mine:
        assert mine


def test_a_plan_holds_what_was_asked_and_keeps_what_another_run_asked(tmp_path: Path) -> None:
    ours, theirs = plan_of(request("a")), plan_of(request("b"))
    Store(tmp_path).add_request(request("b"))
    both = Store(tmp_path).add_request(request("a"))
    assert set(both.cells) == {*ours.cells, *theirs.cells}
    assert Store(tmp_path).plan() == both
    assert [file.request() for file in Store(tmp_path).requested()] == [request("b"), request("a")]


def test_a_plan_is_written_when_more_is_asked_only(tmp_path: Path) -> None:
    run = Store(tmp_path)
    run.add_request(request("a", 1, 2))
    run.add_request(request("a", 2))
    assert [file.name for file in run.plan_files()] == ["plan.toml"]
    run.add_request(request("a", 3))
    assert [file.name for file in run.plan_files()] == ["plan.toml", "plan-2.toml"]
    (tmp_path / "plan-2.toml").rename(tmp_path / "plan-10.toml")  # no gap hides what is behind it
    (tmp_path / "plan-old.toml").write_text("of a person")
    run.add_request(request("a", 4))
    assert {cell.setting.k for cell in run.existing_plan().cells} == {1, 2, 3, 4}
    assert [file.name for file in run.plan_files()][1:] == ["plan-10.toml", "plan-11.toml"]


def test_what_follows_from_the_cards_is_read_without_them(tmp_path: Path) -> None:
    whole = Request(
        models=("a", "b"),
        tasks=("all", "form"),
        leads=(1, LeadSubset.of("I", "V2")),
        weights="a=released,b=/x/y.safetensors",
        fit_seeds=(0, 1),
        policies=("paper", "zero"),
        parents={"form": "all"},
        own_policies={"a": "native", "b": "zero"},
        division=Division(cross=3),
        control="labels@3",
        training=Training(leads="random"),
    )
    kept = Store(tmp_path).add_request(whole, [("models", "/x/a.py")])
    (file,) = Store(tmp_path).requested()
    assert file.request() == whole
    assert file.plugins == (("models", "/x/a.py"),)
    assert Store(tmp_path).plan() == kept == plan_of(whole)
    assert {c.policy for c in kept.cells if c.fit.model == "a"} == {"native", "zero"}


def test_a_damaged_plan_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).add_request(request("a", 1, 2, 12))
    file = tmp_path / "plan.toml"
    text = file.read_text()
    for changed in (text[:100], text.replace("12", "11"), ""):
        file.write_text(changed)
        with pytest.raises(Damaged):
            Store(tmp_path).plan()


def _contend(folder: Path, which: int, gate: "multiprocessing.synchronize.Barrier") -> None:
    run = Store(folder)
    gate.wait()
    for i in range(40):
        with run.claim(f"{i}") as mine:
            if mine and not (folder / f"{i}.txt").exists():
                with (folder / f"{i}.txt").open("a") as notes:
                    notes.write("computed")
    run.add_request(request(str(which)))


def test_plans_of_many_processes_are_all_there(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(3)
    racers = [context.Process(target=_contend, args=(tmp_path, i, gate)) for i in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0, 0]
    assert {file.read_text() for file in tmp_path.glob("*.txt")} == {"computed"}
    joined = Store(tmp_path).plan()
    assert joined is not None
    assert {c.fit.model for c in joined.cells} == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"scoring": Scoring(draw="window")}, "scoring.draw = window"),
        ({"training": Training(lr=0.1), "limit": 60}, "training.lr = 0.1 and limit = 60"),
        ({"weights": "b.safetensors"}, "--weights b=b.safetensors"),
        ({"contract": "upstream"}, "contract = upstream"),
    ],
)
def test_other_settings_need_another_folder(
    changed: dict[str, object], told: str, tmp_path: Path
) -> None:
    """Two weights of one model would be averaged in one row as if they were two fits."""
    run = Store(tmp_path)
    run.add_request(request())
    with pytest.raises(BadSetting, match=told):
        run.join(plan_of(replace(request(), **changed)))  # type: ignore[arg-type]
