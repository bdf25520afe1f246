"""The store of a run: what a plan and an index hold, reasons, claims, facts."""

import multiprocessing
import shutil
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
from ecgbench.study.overview import prune, spare, states, summary
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


def finish(run: Store, of: Cell, cell_key: str, finished: float = 0.0) -> Path:
    """A finished cell as far as the store looks into it."""
    folder = run.cell_folder(of, cell_key)
    publish(
        folder,
        {"cell.json": as_json({"identity": of.identity, "key": cell_key, "finished": finished})},
    )
    return folder


def test_a_cell_is_there_under_the_key_it_has(tmp_path: Path) -> None:
    run, one = Store(tmp_path), cell("a", 1)
    assert run.state(one) == ("missing", PENDING)
    folder = finish(run, one, "k1")
    run.add_keys({one.identity: "k1"})
    assert run.state(one) == ("ok", "")
    assert run.folder(one) == Store(tmp_path).folder(one) == folder
    # its model was edited: what was computed for k1 is of another number
    run.add_keys({one.identity: "k2"})
    assert run.state(one) == ("missing", PENDING)
    run.add_keys({one.identity: "k1"})  # and edited back
    assert run.folder(one) == folder


@pytest.mark.parametrize("finished", [1.0, 3.0])
def test_a_key_that_was_replaced_does_not_come_back_without_the_index(
    finished: float, tmp_path: Path
) -> None:
    """A plug-in that was edited, and edited back: what counts is what was chosen last, not what is
    newest.
    """
    run, one = Store(tmp_path), cell("a", 1)
    run.add_keys({one.identity: "k1"})
    first = finish(run, one, "k1", finished=finished)
    run.add_keys({one.identity: "k2"})
    run.index.file.unlink()
    assert Store(tmp_path).folder(one) is None, "k2 was begun, and nothing else counts"
    Store(tmp_path).add_keys({one.identity: "k2"})
    second = finish(run, one, "k2", finished=2.0)
    run.index.file.unlink()
    assert Store(tmp_path).folder(one) == second
    Store(tmp_path).add_keys({one.identity: "k1"})
    run.index.file.unlink()
    assert Store(tmp_path).folder(one) == first


def test_an_index_whose_last_lines_are_gone_does_not_bring_an_old_number_back(
    tmp_path: Path,
) -> None:
    run, one = Store(tmp_path), cell("a", 1)
    run.add_keys({one.identity: "k1"})
    finish(run, one, "k1", finished=1.0)
    lines = run.index.file.read_bytes()
    run.add_keys({one.identity: "k2"})
    run.index.file.write_bytes(lines)
    assert Store(tmp_path).folder(one) is None
    second = finish(run, one, "k2", finished=2.0)
    assert Store(tmp_path).folder(one) == second
    run.quarantine(second, "is damaged")
    assert Store(tmp_path).folder(one) is None


def test_what_whoever_has_a_claim_meets_is_its_own(tmp_path: Path) -> None:
    """As of a machine that can begin no other process."""

    def work() -> None:
        with Store(tmp_path).claim("a") as mine:
            assert mine
            raise BlockingIOError("no process")

    with pytest.raises(BlockingIOError, match="no process"):
        work()


def test_what_is_finished_is_counted_from_the_index(tmp_path: Path) -> None:
    """And from the folders where it says nothing; what was set aside or pruned is not."""
    run = Store(tmp_path)
    cells = [cell(model, 1) for model in "abcdef"]
    run.add_request(request("abcdef"))
    for number, one in enumerate(cells[:4]):
        finish(run, one, f"k{number}")
    run.add_keys({one.identity: f"k{number}" for number, one in enumerate(cells[:4])})
    run.give_reason(cells[4], "failed", "no reason")
    expected = {"a": "ok", "b": "ok", "c": "ok", "d": "ok", "e": "failed", "f": "missing"}

    def counted() -> dict[str, str]:
        found = states(Store(tmp_path), cells)
        assert {c.fit.model: Store(tmp_path).state(c)[0] for c in cells} == expected
        return {c.fit.model: state for c, state in found}

    assert counted() == expected, "stores of earlier versions"
    run.add_finished(["k0", "k1", "k2"])
    size = run.index.file.stat().st_size
    run.add_finished(["k0", "k2"])
    assert run.index.file.stat().st_size == size
    assert counted() == expected
    whole = run.folder(cells[0])
    assert whole is not None
    run.quarantine(whole, "is damaged")
    expected["a"] = "missing"
    assert counted() == expected
    finish(run, cells[0], "k0")
    run.add_finished(["k0"])
    expected["a"] = "ok"
    assert counted() == expected
    run.add_keys({cells[1].identity: "k9"})  # its model was edited
    expected["b"] = "missing"
    assert counted() == expected
    finish(run, cells[1], "k9")
    run.add_finished(["k9"])
    prune(tmp_path)
    run.add_keys({cells[1].identity: "k1"})  # and edited back
    assert counted() == expected
    run.add_finished(["k9"], at=time.time() + 9999)  # of a node whose clock is ahead
    assert summary(tmp_path).rate >= 0
    folder = run.folder(cells[3])
    assert folder is not None
    run.add_finished(["k3"])
    shutil.move(folder, tmp_path / "taken by hand")
    assert dict(states(Store(tmp_path), cells))[cells[3]] == "ok"
    assert dict(states(Store(tmp_path), cells, looking=True))[cells[3]] == "missing"
    shutil.move(tmp_path / "taken by hand", folder)
    with run.index.file.open("ab") as file:
        file.write(b'{"finished": ["k0"\n{"finished": [5, "k9"], "at": "x"}\n[]\n')
    assert counted() == expected


def test_an_index_that_was_deleted_is_made_again_from_the_cells(tmp_path: Path) -> None:
    run = Store(tmp_path)
    for model in ("a", "b"):
        finish(run, cell(model, 1), f"{model}1", finished=1.0)
        finish(run, cell(model, 1), f"{model}2", finished=2.0)
    expected = {cell(m, 1).identity: f"{m}2" for m in ("a", "b")}
    assert Store(tmp_path).keys() == expected
    assert not run.index.file.exists()
    again = Store(tmp_path)
    again.add_keys({cell("c", 1).identity: "c1"})
    assert Store(tmp_path).keys() == again.keys() == {**expected, cell("c", 1).identity: "c1"}


@pytest.mark.parametrize("index", ["", '{"demo|a', "null\n"])
def test_a_damaged_index_is_completed_from_the_cells(index: str, tmp_path: Path) -> None:
    run, one, other = Store(tmp_path), cell("a", 1), cell("a", 2)
    expected = finish(run, one, "k1")
    finish(run, other, "k2")
    cell_file = run.cell_folder(other, "k2") / "cell.json"
    cell_file.write_text(cell_file.read_text()[:20])  # costs itself only
    run.index.file.write_text(index)
    assert (Store(tmp_path).folder(one), Store(tmp_path).folder(other)) == (expected, None)
    Store(tmp_path).add_keys({other.identity: "k3"})
    assert Store(tmp_path).keys() == {one.identity: "k1", other.identity: "k3"}


@pytest.mark.parametrize("line", ["5", "[1]", '{"a": 5}', '{"a": null}', '{"b": "2', "[" * 100_000])
def test_lines_that_name_no_key_are_passed_over(line: str, tmp_path: Path) -> None:
    run = Store(tmp_path)
    run.add_keys({"a": "1"})
    with run.index.file.open("a") as file:
        file.write(f"{line}\n")
    assert Store(tmp_path).keys() == run.keys() == {"a": "1"}


def test_a_damaged_reason_is_one_line(tmp_path: Path) -> None:
    run, one = Store(tmp_path), cell("a", 1)
    run.give_reason(one, "failed", "out of memory")
    for text in ("{", "[]", '{"status": "ok", "reason": ""}'):
        run.reason_file(one).write_text(text)
        status, why = run.state(one)
        assert status == "damaged"
        assert why.startswith(f"{run.reason_file(one)} is not what the run wrote; remove")
    run.add_request(request("a"))
    assert summary(tmp_path).states["damaged"] == 1
    run.reason_file(one).write_bytes(b"\xff")
    run.give_reason(one, "failed", "out of memory")
    assert run.state(one) == ("failed", "out of memory")


@pytest.mark.parametrize("index", ["", '{"demo|a|paper|random|fit0|1@seed0|zero": "gone"}\n', None])
def test_pruning_keeps_a_planned_cell_whatever_the_index_says(
    index: str | None, tmp_path: Path
) -> None:
    run, one, other = Store(tmp_path), cell("a", 1), cell("b", 1)
    run.add_request(request("a"))
    folder, unplanned = finish(run, one, "k1"), finish(run, other, "k2")
    if index is not None:
        run.index.file.write_text(index)
    prune(tmp_path)
    assert folder.exists()
    assert not unplanned.exists()
    Store(tmp_path).add_keys({one.identity: "k3"})
    assert list(spare(tmp_path)) == [], "the key of today is not finished"
    finish(run, one, "k3")
    assert list(spare(tmp_path)) == [folder]


def test_reasons_are_kept_until_something_newer_is_known(tmp_path: Path) -> None:
    run, one = Store(tmp_path), cell("a", 1)
    run.give_reason(one, "skipped", "reads all leads at once")
    assert run.state(one) == ("skipped", "reads all leads at once")
    run.give_reason(one, "failed", "out of memory", "a trace")
    assert run.state(one) == ("failed", "out of memory")
    assert run.state(cell("a", 2)) == ("missing", PENDING)
    finish(run, one, "k")
    run.add_keys({one.identity: "k"})
    assert run.state(one) == ("ok", "")


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


@pytest.mark.parametrize("change", ["cut", "flipped", "emptied"])
def test_a_damaged_plan_is_refused_in_one_sentence(change: str, tmp_path: Path) -> None:
    Store(tmp_path).add_request(request("a", 1, 2, 12))
    file = tmp_path / "plan.toml"
    text = file.read_text()
    changed = {"cut": text[:100], "flipped": text.replace("12", "11"), "emptied": ""}
    file.write_text(changed[change])
    with pytest.raises(Damaged, match=r"is not what a run wrote; .* or choose") as caught:
        Store(tmp_path).plan()
    assert "\n" not in str(caught.value)


def test_facts_of_a_network_are_written_once(tmp_path: Path) -> None:
    run = Store(tmp_path)
    first = run.add_facts("models", {"name": "a", "weights": "random"})
    other = run.add_facts("models", {"name": "a", "weights": "released"})
    assert run.add_facts("models", {"weights": "random", "name": "a"}) == first != other
    assert run.facts("models") == {
        first: {"name": "a", "weights": "random"},
        other: {"name": "a", "weights": "released"},
    }


def _contend(folder: Path, which: int, gate: "multiprocessing.synchronize.Barrier") -> None:
    run = Store(folder)
    gate.wait()
    for i in range(40):
        run.add_keys({f"{which} {i}": "x" * 60})
        with run.claim(f"{i}") as mine:
            if mine and not (folder / f"{i}.txt").exists():
                with (folder / f"{i}.txt").open("a") as notes:
                    notes.write("computed")
    run.add_request(request(str(which)))


def test_lines_and_plans_of_many_processes_are_all_there(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(3)
    racers = [context.Process(target=_contend, args=(tmp_path, i, gate)) for i in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0, 0]
    assert {file.read_text() for file in tmp_path.glob("*.txt")} == {"computed"}
    assert set(Store(tmp_path).keys()) == {f"{which} {i}" for which in range(3) for i in range(40)}
    joined = Store(tmp_path).plan()
    assert joined is not None
    assert {c.fit.model for c in joined.cells} == {"0", "1", "2"}


def test_plans_are_joined(tmp_path: Path) -> None:
    """A plan that holds the earlier one stands in its own order; else the newer cells stand
    behind.
    """
    run = Store(tmp_path)
    first, larger = request("b", 12, 1), request("ab", 1, 12)
    assert run.plan() is None
    assert run.join(plan_of(first)) == plan_of(first)
    run.add_request(first)
    assert run.join(plan_of(larger)) == plan_of(larger)
    other = plan_of(request("ab", 1))
    assert run.join(other).cells == (*plan_of(first).cells, cell("a", 1))
    assert run.join(plan_of(first)) == plan_of(first)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"training": Training(epochs=3)},
            "training.epochs = 100, and this command has training.epochs = 3",
        ),
        (
            {"scoring": Scoring(draw="window")},
            "scoring.draw = record, and this command has scoring.draw = window",
        ),
        ({"training": Training(lr=0.1), "limit": 60}, "has training.lr = 0.1 and limit = 60"),
        (
            {"weights": "b.safetensors"},
            "--weights b=random, and this command has --weights b=b.safetensors",
        ),
        (
            {"contract": "upstream"},
            "contract = paper, and this command has contract = upstream",
        ),
    ],
)
def test_other_settings_need_another_folder(
    changed: dict[str, object], told: str, tmp_path: Path
) -> None:
    """Two weights of one model would be averaged in one row as if they were two fits."""
    run = Store(tmp_path)
    run.add_request(request())
    with pytest.raises(BadSetting, match=f"holds a run with .*{told}; choose another folder"):
        run.join(plan_of(replace(request(), **changed)))  # type: ignore[arg-type]
