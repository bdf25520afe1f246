"""The loop of a run against an engine that says whatever a test wants, and a worker that has no
run.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ecgbench.study.engine import Setup, ask
from ecgbench.study.events import (
    Advance,
    Died,
    Disqualified,
    Event,
    EventFile,
    Failed,
    Finished,
    InProgress,
    Note,
    Over,
    Skipped,
    Stage,
    StageOver,
    Started,
    Stopped,
)
from ecgbench.study.job import Compute, Job, Look, Measure, plugins
from ecgbench.study.job_record import Outcome
from ecgbench.study.started import start

from ecgbench import adapters, datasets, models
from ecgbench.core.cells import Folders, Plan, Request
from ecgbench.core.folders import publish
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.results.study import read
from ecgbench.study import engines
from ecgbench.study import plan as planning
from ecgbench.study.progress import Lines
from ecgbench.study.run import Run
from ecgbench.study.store import Store

TINY = Path(__file__).parents[1] / "tiny.py"
Answer = Callable[[Compute], list[Event]]


class Scripted:
    """Answers each job with the events that a function gives, a chunk of them at a time."""

    def __init__(self, answer: Answer, slots: int = 1) -> None:
        self.answer, self.slots = answer, slots
        self.jobs: list[Compute] = []
        self.coming: dict[str, list[Event]] = {}
        self.most = 0

    def submit(self, job: Job) -> None:
        assert isinstance(job, Compute)
        self.jobs.append(job)
        self.coming[job.id] = self.answer(job)
        self.most = max(self.most, len(self.coming))
        assert len(self.coming) <= self.slots

    def events(self, timeout: float) -> Iterator[Event]:
        for job in list(self.coming):
            for _ in range(2):
                event = self.coming[job].pop(0)
                if isinstance(event, Over | Died | Stopped) and event.job == job:
                    del self.coming[job]
                    yield event
                    break
                yield event

    def close(self) -> None:
        """Nothing."""


def plan_of(*names: str, leads: str = "I,II,12") -> Plan:
    for room in (models, adapters, datasets):
        room.ROOM.forget()
    asked = Request(
        models=names,
        tasks=("demo",),
        leads=parse_leads(leads),
        seeds=1,
        weights="random",
        limit=60,
        name="x",
    )
    return planning.plan(planning.check(asked), lambda loaded: dict.fromkeys(loaded, "zero"))


def cells_of(job: Compute) -> tuple[str, ...]:
    return tuple(c.identity for c in job.plan.cells)


@pytest.fixture
def run(copies: Path, tmp_path: Path) -> Callable[[Plan, Scripted], Outcome]:
    def run(plan: Plan, engine: Scripted) -> Outcome:
        return Run(
            plan, Folders(data=None, prepared=copies, out=tmp_path / "run"), Lines(), engine
        )()

    return run


Runs = Callable[[Plan, Scripted], Outcome]


def test_forged_events_change_nothing(run: Runs, tmp_path: Path) -> None:
    """Of jobs and cells that there are not, of stages that nobody opened, and of cells said to be
    finished that are not there.
    """

    def answer(job: Compute) -> list[Event]:
        of_other_jobs = [
            Started("99"),
            Over("99", {}),
            Died("", "no"),
            Disqualified("99", "no", ""),
            Stopped("99", "BadWeights", "no"),
        ]
        stray = [
            Advance(job.id, 7, 1),
            StageOver(job.id, 7),
            Skipped(job.id, ("a|b",), "x"),
            Failed(job.id, ("a|b",), "x", ""),
        ]
        claims = [
            InProgress(job.id, ("a|b",), True),
            Finished(job.id, cells_of(job)),
            Finished(job.id, ("a",)),
        ]
        return [
            *of_other_jobs,
            *stray,
            *claims,
            Stage(job.id, 1, "x", -3, "y"),
            Advance(job.id, 1, -5),
            Event(job.id),
            Over(job.id, {}),
        ]

    outcome = run(plan_of("stmem"), Scripted(answer))
    assert (outcome.computed, outcome.reused, outcome.failures) == (0, 0, 3)
    ((_, reason, _),) = outcome.failed
    assert reason == "its job ended without it"
    assert Store(tmp_path / "run").state(plan_of("stmem").cells[0]) == ("failed", reason)


@pytest.mark.parametrize("said", ["nothing", "that it failed", "that it died", "that it is done"])
def test_a_cell_counts_when_it_is_in_the_store_whatever_is_said_of_it(
    run: Runs, tmp_path: Path, said: str
) -> None:
    """Once as computed, and in the next run as one that was there."""
    store = Store(tmp_path / "run")

    def answer(job: Compute) -> list[Event]:
        if one not in job.plan.cells:
            return [Over(job.id, {})]
        if store.folder(one) is None:
            store.add_keys({one.identity: "0" * 64})
            publish(store.cell_folder(one, "0" * 64), {"cell.json": "{}"})
        events: dict[str, list[Event]] = {
            "nothing": [],
            "that it failed": [Failed(job.id, (one.identity,), "no", "")],
            "that it died": [InProgress(job.id, (one.identity,), False)],
            "that it is done": [Finished(job.id, (one.identity,))],
        }
        over = Died(job.id, "no") if said == "that it died" else Over(job.id, {})
        return [*events[said], over]

    plan = plan_of("stmem")
    one = plan.cells[0]
    outcome = run(plan, Scripted(answer))
    assert (outcome.computed, outcome.reused, outcome.failures) == (1, 0, 2)
    assert store.state(one) == ("ok", "")
    if said == "that it is done":
        outcome = run(plan, Scripted(answer))
        assert (outcome.computed, outcome.reused, outcome.failures) == (0, 1, 2)


def test_jobs_are_in_flight_together_and_each_is_claimed(run: Runs, tmp_path: Path) -> None:
    store, claimed = Store(tmp_path / "run"), []

    def answer(job: Compute) -> list[Event]:
        with store.claim(job.name) as free:
            claimed.append(not free)
        return [Note(job.id, "at work"), Failed(job.id, cells_of(job), "no", ""), Over(job.id, {})]

    engine = Scripted(answer, slots=2)
    assert run(plan_of("stmem", "merl", "laef", leads="12"), engine).failures == 3
    assert engine.most == 2
    assert claimed == [True] * 3
    assert len({job.id for job in engine.jobs}) == 3
    for job in engine.jobs:
        with store.claim(job.name) as free:
            assert free


def test_what_is_left_of_a_job_that_died_is_submitted_again(run: Runs) -> None:
    """Together: each alone, then the rest; alone: that cell fails and the rest goes on; with
    nothing in progress: all fail.
    """
    plan = plan_of("stmem", leads="I,II,12,1")

    def answer(job: Compute) -> list[Event]:
        cells = cells_of(job)
        if len(cells) == 4:
            return [Started(job.id), InProgress(job.id, cells[:2], True), Died(job.id, "killed")]
        if len(cells) == 2:
            return [InProgress(job.id, cells[:1], False), Died(job.id, "killed", "a.log")]
        return (
            [Died(job.id, "aborted")]
            if cells[0] == cells_of(engine.jobs[0])[1]
            else [Over(job.id, {})]
        )

    engine = Scripted(answer)
    outcome = run(plan, engine)
    first = cells_of(engine.jobs[0])
    tried = [cells_of(job) for job in engine.jobs]
    assert tried == [first, first[:1], first[1:2], first[2:], first[3:]]
    assert {(reason, log): len(cells) for (_, reason, log), cells in outcome.failed.items()} == {
        ("its job ended without it", ""): 2,
        ("aborted", ""): 1,
        ("killed", "a.log"): 1,
    }


def test_a_process_that_names_foreign_cells_and_dies_fails_what_is_left(run: Runs) -> None:
    def answer(job: Compute) -> list[Event]:
        assert job.id == "1", "it is tried again, and would be for ever"
        return [InProgress(job.id, ("nonsense",), False), Died(job.id, "it ended")]

    engine = Scripted(answer)
    outcome = run(plan_of("stmem"), engine)
    assert (len(engine.jobs), outcome.failures) == (1, 3)


def test_a_cell_is_skipped_where_the_store_says_so(
    run: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(job: Compute) -> list[Event]:
        one, two, _ = job.plan.cells
        Store(tmp_path / "run").give_reason(one, "skipped", "too short")
        said = [Skipped(job.id, (one.identity, two.identity), "\x1b[31mtoo\nshort")]
        return [*said, Failed(job.id, (two.identity,), "\x1b[31mit\nfailed", ""), Over(job.id, {})]

    outcome = run(plan_of("stmem"), Scripted(answer))
    assert (len(outcome.skipped), outcome.failures) == (1, 2)
    shown = [
        *outcome.skipped,
        *(reason for _, reason, _ in outcome.failed),
        capsys.readouterr().err,
    ]
    assert "\x1b" not in "".join(shown)
    assert "U+001B[31mit failed" in shown[-1]


ENGINE = """
from ecgbench.study.engine import EngineCard
CARD = EngineCard(title="x", summary="y")
class Mine:
    slots = 1
    def submit(self, job): {submit}
    def events(self, timeout): {events}
    def close(self): pass
def start(setup): {start}
"""


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (
            {"start": "return 1 / 0"},
            r"engine 'mine' failed at mine.py:9: ZeroDivisionError: division by zero",
        ),
        ({"start": "pass"}, r"engine 'mine' failed at .*: AttributeError: 'NoneType'"),
        ({"submit": "raise KeyError(5)"}, r"engine 'mine' failed at mine.py:6: KeyError: 5"),
        ({"events": "yield 1 / 0"}, r"engine 'mine' failed at mine.py:7: ZeroDivisionError"),
        (
            {"events": "yield 5"},
            r"engine 'mine': its events\(\) gives a int where an Event belongs",
        ),
    ],
)
def test_an_engine_plug_in_that_fails_is_one_line(
    tmp_path: Path, fault: dict[str, str], complaint: str
) -> None:
    (tmp_path / "mine.py").write_text(
        ENGINE.format(
            **{"start": "return Mine()", "submit": "pass", "events": "return []", **fault}
        )
    )
    try:
        name = engines.resolve(str(tmp_path / "mine.py"))
        with pytest.raises(BadSetting, match=complaint):
            ask(
                start(name, Setup(logs=tmp_path, patience=1.0, show=lambda event: None)),
                compute_job(tmp_path, tmp_path),
            )
    finally:
        engines.ROOM.forget()


def test_what_stops_the_run_ends_it_and_frees_its_claims(run: Runs, tmp_path: Path) -> None:
    engine = Scripted(lambda job: [Stopped(job.id, "BadWeights", "not these")])
    with pytest.raises(BadWeights, match="not these"):
        run(plan_of("stmem"), engine)
    with Store(tmp_path / "run").claim(engine.jobs[0].name) as free:
        assert free


def test_a_question_is_answered_or_its_process_died() -> None:
    class Request(Scripted):
        def submit(self, job: Job) -> None:
            self.coming[job.id] = [Note("other", "x"), *self.answer(job)]  # type: ignore[arg-type]

    look = Look(id="look", model="stmem", weights=None, contract="paper")
    assert ask(
        Request(lambda job: [Over("other", {"policy": "no"}), Over("look", {"policy": "zero"})]),
        look,
    ) == {"policy": "zero"}
    assert ask(Request(lambda job: [Died("look", "killed")]), look) == {"failed": "killed"}
    with pytest.raises(BadWeights):
        ask(Request(lambda job: [Stopped("look", "BadWeights", "x")]), look)


def compute_job(out: Path, prepared: Path) -> Compute:
    plan = plan_of(str(TINY))
    plan = replace(plan, training=replace(plan.training, epochs=2))
    folders = Folders(data=None, prepared=prepared, out=out)
    return Compute(
        id="7", model="tiny", plugins=plugins(), plan=plan, dataset="demo", folders=folders
    )


def test_jobs_travel_as_json(tmp_path: Path) -> None:
    job = compute_job(tmp_path, tmp_path)
    look = Look(id="l", model="tiny", weights=None, contract="paper", plugins=job.plugins)
    for one in (job, look, Measure(**{**job.__dict__, "id": "m"})):
        back = Job.from_json(json.loads(json.dumps(one.to_json())))
        assert back == one
        assert type(back) is type(one)
    for bad in ({}, {"kind": "explode"}, {**look.to_json(), "plugins": 3}):
        with pytest.raises(BadSetting, match="no job that a run wrote"):
            Job.from_json(bad)


def test_a_worker_without_a_run_leaves_results_that_a_report_and_a_run_find(
    copies: Path, tmp_path: Path
) -> None:
    """Its job is a file and so are its events; a run in the same folder has nothing left to
    compute.
    """
    job = compute_job(tmp_path / "run", copies)
    (tmp_path / "job.json").write_text(json.dumps(job.to_json()))
    command = [
        sys.executable,
        "-m",
        "ecgbench.study.worker",
        str(tmp_path / "job.json"),
        str(tmp_path / "events.jsonl"),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    came = list(EventFile(tmp_path / "events.jsonl").events())
    assert isinstance(came[0], Started)
    assert isinstance(came[-1], Over)
    assert {e.job for e in came} == {"7"}
    store = Store(tmp_path / "run")
    assert {i for e in came if isinstance(e, Finished) for i in e.cells} == set(cells_of(job))
    assert all(store.folder(cell) is not None for cell in job.plan.cells)
    assert set(read(store.path).cells["status"]) == {"ok"}
    engine = Scripted(lambda job: [Finished(job.id, cells_of(job)), Over(job.id, {})])
    outcome = Run(job.plan, job.folders, Lines(), engine)()
    assert (outcome.computed, outcome.reused, outcome.failures) == (0, 3, 0)
