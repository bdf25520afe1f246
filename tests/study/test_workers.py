"""Work cut into tasks for other processes: what is put together, what becomes of a task that ends
too early, and that several processes give the numbers of one.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ecgbench.core.cells import Folders
from ecgbench.errors import BadSetting
from ecgbench.study.batch import Batch, cut, of_run
from ecgbench.study.engine import Setup
from ecgbench.study.engines.slurm import Slurm, begun
from ecgbench.study.events import Died, Event, Failed, Finished, Note, Over, Skipped
from ecgbench.study.job import Compute
from ecgbench.study.store import Store, cells_of
from ecgbench.study.workers import TRIES, State, Workers
from tests.study.test_loop import TINY, plan_of
from tests.test_zoo import plug_in

Here = Callable[..., Any]


def job_of(out: Path, model: str = "tiny", id: str = "1", dataset: str = "demo") -> Compute:
    """Of three cells."""
    folders = Folders(data=None, prepared=None, out=out)
    return Compute(id=id, model=model, dataset=dataset, folders=folders, plan=plan_of(str(TINY)))


def test_short_jobs_are_put_together_and_long_ones_stay_alone(tmp_path: Path) -> None:
    jobs = [
        job_of(tmp_path, model, str(n), dataset)
        for n, (model, dataset) in enumerate(
            [("quick", "a"), ("quick", "b"), ("slow", "a"), ("new", "b"), ("quick", "a")]
        )
    ]
    tasks = cut(jobs, {"quick": 20.0, "slow": 500.0}, 120.0)  # 60 s and 1,500 s a job
    assert [[job.id for job in task] for task in tasks] == [["0"], ["2"], ["4", "1"], ["3"]]
    assert [len(task) for task in cut(jobs, {"quick": 20.0}, 0.0)] == [1] * 5


def test_a_batch_is_read_as_it_was_written(tmp_path: Path) -> None:
    batch = a_batch(tmp_path, 2).write()
    assert Batch.read(batch.file) == batch
    assert list(of_run(tmp_path)) == [batch]
    told = json.loads(batch.file.read_text())
    another = json.dumps({**told, "engine": "", "format": 9})
    for spoilt in ("{", "[]", json.dumps({**told, "tasks": 3}), another):
        batch.file.write_text(spoilt)
        with pytest.raises(BadSetting, match=str(batch.file)):
            Batch.read(batch.file)
    assert list(of_run(tmp_path)) == []


def a_batch(run: Path, tasks: int) -> Batch:
    return Batch(
        folder=run / "batches" / "one",
        engine="slurm",
        device="cpu",
        patience=60.0,
        tasks=tuple((job_of(run, id=str(n)),) for n in range(tasks)),
        options={},
    )


class Nowhere:
    """Starts nothing; its tasks are as the test says."""

    place, seconds, prepares, settles = "nowhere", 0.0, False, 0.0

    def __init__(self, state: State) -> None:
        self.state, self.launched = state, list[tuple[int, int]]()
        self.shown: list[Event] = []

    def write(self, batch: Batch) -> str:
        return f"written: {batch.file}"

    def launch(self, batch: Batch, first: int, count: int) -> None:
        self.launched.append((first, count))

    def states(self, batch: Batch) -> Mapping[int, State]:
        return dict.fromkeys(range(len(batch.tasks)), self.state)

    def close(self) -> str:
        return ""


def workers(run: Path, launcher: Nowhere, monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr("ecgbench.study.workers.LOOK", 0.0)
    setup = Setup(logs=run / "logs", patience=60.0, show=launcher.shown.append, out=run)
    return Workers(setup, launcher, "slurm")


def said_by(engine: Workers) -> list[Event]:
    said: list[Event] = []
    for _ in range(10):
        said += engine.events(0.0)
    return said


def test_a_task_that_ends_too_early_is_handed_over_again_and_then_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Nowhere(State("ended", "Slurm says NODE_FAIL"))
    engine = workers(tmp_path, launcher, monkeypatch)
    engine.submit(job_of(tmp_path, id="1"))
    said = said_by(engine)
    assert launcher.launched == [(0, 1)] * TRIES
    (died,) = (event for event in said if isinstance(event, Died))
    assert (died.job, died.reason) == ("1", "its task ended: Slurm says NODE_FAIL")


def test_a_task_that_counts_as_ended_for_a_moment_is_not_handed_over_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm shows one that it queues again."""
    launcher = Nowhere(State("ended", "Slurm says FAILED"))
    launcher.settles = 0.2
    engine = workers(tmp_path, launcher, monkeypatch)
    engine.submit(job_of(tmp_path))
    assert said_by(engine) == []
    launcher.state = State("waiting", "Slurm says PENDING (BeginTime)")
    time.sleep(0.3)
    assert said_by(engine) == []
    launcher.state = State("ended", "Slurm says FAILED")
    assert said_by(engine) == []
    assert launcher.launched == [(0, 1)]
    time.sleep(0.3)
    said_by(engine)
    assert launcher.launched == [(0, 1)] * 2


def test_a_task_that_a_person_has_ended_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Nowhere(State("ended", "Slurm says CANCELLED", again=False))
    engine = workers(tmp_path, launcher, monkeypatch)
    engine.submit(job_of(tmp_path))
    assert sum(isinstance(event, Died) for event in said_by(engine)) == 1
    assert launcher.launched == [(0, 1)]


def test_the_store_says_what_became_of_a_job_and_not_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of events that lies, and one that is no such file."""
    monkeypatch.setattr("ecgbench.study.workers.SETTLING", -1.0)
    launcher = Nowhere(State("running"))
    engine = workers(tmp_path, launcher, monkeypatch)
    job = job_of(tmp_path, id="7")
    engine.submit(job)
    list(engine.events(0.0))
    (batch,) = of_run(tmp_path)
    cell = job.plan.cells[0]
    Store(tmp_path).give_reason(cell, "failed", "no reason")
    lie = {"kind": "Finished", "job": "7", "cells": [c.identity for c in job.plan.cells]}
    over = {"kind": "Over", "job": "7", "answer": {}}
    batch.events_file(0).write_text("".join(json.dumps(e) + "\n" for e in (lie, over)))
    said = said_by(engine)
    assert not any(isinstance(event, Finished) for event in said)
    (failed,) = (event for event in said if isinstance(event, Failed))
    assert (failed.cells, failed.reason) == ((cell.identity,), "no reason")
    assert [event.job for event in said if isinstance(event, Over)] == ["7"]


def test_a_cell_may_be_seen_later_than_the_word_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that several machines share; the task has ended by then."""
    launcher = Nowhere(State("running"))
    engine = workers(tmp_path, launcher, monkeypatch)
    job = job_of(tmp_path)
    engine.submit(job)
    list(engine.events(0.0))
    (batch,) = of_run(tmp_path)
    over = json.dumps({"kind": "Over", "job": "1", "answer": {}})
    batch.events_file(0).write_text(over + "\n")
    launcher.state = State("ended", "Slurm says COMPLETED")
    assert said_by(engine) == []
    assert launcher.launched == [(0, 1)]
    for cell in job.plan.cells:
        Store(tmp_path).give_reason(cell, "skipped", "no leads")
    assert [type(event) for event in said_by(engine)] == [Skipped] * 3 + [Over]


def test_what_is_no_event_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = Nowhere(State("running"))
    engine = workers(tmp_path, launcher, monkeypatch)
    engine.submit(job_of(tmp_path))
    list(engine.events(0.0))
    (batch,) = of_run(tmp_path)
    batch.events_file(0).write_text("garbage\n")
    assert said_by(engine) == []
    handed, wrong = launcher.shown
    assert handed == Note("", "1 task handed over to nowhere")
    assert isinstance(wrong, Note)
    assert "no event" in wrong.text


def test_what_an_earlier_command_has_handed_over_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not handed over a second time."""
    first = Nowhere(State("waiting"))
    engine = workers(tmp_path, first, monkeypatch)
    engine.submit(job_of(tmp_path, id="1"))
    assert engine.leave().startswith("1 task handed over")
    second = Nowhere(State("running"))
    engine = workers(tmp_path, second, monkeypatch)
    engine.submit(job_of(tmp_path, id="5"))
    (batch,) = of_run(tmp_path)
    told = [
        {"kind": "Note", "job": "1", "text": "here"},
        {"kind": "Over", "job": "5", "answer": {}},
    ]
    batch.events_file(0).write_text("".join(json.dumps(e) + "\n" for e in told))
    # its numbers of jobs are not ours
    assert said_by(engine) == [Note("5", "here")]
    assert second.launched == []
    of_control = job_of(tmp_path / "controls" / "labels-0", id="6")
    engine.submit(of_control)  # its cells have the same names
    said_by(engine)
    assert second.launched == [(0, 1)]
    second.launched.clear()
    second.state = State("ended", "Slurm says FAILED")
    died = {event.job for event in said_by(engine) if isinstance(event, Died)}
    assert died == {"5", "6"}
    assert second.launched == [(0, 1)] * 2 * (TRIES - 1)


# Slurm's commands, as they answer


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands; `queue` in it is what squeue prints, `given` what sbatch was given."""
    place = tmp_path / "bin"
    place.mkdir()
    for name, text in {
        "sbatch": 'echo "$@" >> "$0.given"; n=$(wc -l < "$0.given"); echo "$((76 + n));cluster"',
        "squeue": 'cat "$(dirname "$0")/queue" 2>/dev/null || { cat "$0.error" >&2; exit 1; }',
        "scontrol": "echo 'MaxArraySize            = 2'",
    }.items():
        (place / name).write_text(f"#!/bin/bash\n{text}\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    return place


def slurm(run: Path, **options: str) -> Slurm:
    return Slurm(Setup(logs=run, patience=1.0, show=lambda event: None, options=options, out=run))


def test_arrays_are_no_larger_than_the_cluster_takes(cluster: Path, tmp_path: Path) -> None:
    batch = a_batch(tmp_path / "run", 5).write()
    slurm(tmp_path, at_once="1").launch(batch, 0, 5)
    given = (cluster / "sbatch.given").read_text().splitlines()
    place = batch.folder / "tasks.sh"
    assert given == [
        f"--parsable --array=0-{count - 1}%1 {place} {first}"
        for first, count in ((0, 2), (2, 2), (4, 1))
    ]
    names = {0: "77_0", 1: "77_1", 2: "78_0", 3: "78_1", 4: "79_0"}
    assert batch.handed_over() == names
    slurm(tmp_path).launch(batch, 3, 1)
    assert batch.handed_over() == names | {3: "80_0"}


def test_recordings_are_prepared_by_a_job_that_all_others_wait_for(
    cluster: Path, here: Here, tmp_path: Path
) -> None:
    batch = a_batch(tmp_path / "run", 3).write()
    slurm(tmp_path, prepare="job", gpus="2", partition="gpu").launch(batch, 0, 3)
    given = (cluster / "sbatch.given").read_text().splitlines()
    place = batch.folder
    after = "--parsable --kill-on-invalid-dep=yes --dependency=afterok:77"
    assert given == [
        f"--parsable {place}/prepare.sh",
        f"{after} --array=0-1 {place}/tasks.sh 0",
        f"{after} --array=0-0 {place}/tasks.sh 2",
    ]
    script = (place / "prepare.sh").read_text()
    assert "--partition=gpu" in script
    assert "gpus" not in script
    slurm(tmp_path, prepare="job").launch(batch, 1, 1)  # again, of a task that ended
    assert (cluster / "sbatch.given").read_text().splitlines()[3:] == [
        f"--parsable --array=0-0 {place}/tasks.sh 1"
    ]
    fresh = a_batch(tmp_path / "other", 1).write()
    said = slurm(tmp_path, prepare="job", emit_sbatch=str(tmp_path / "jobs.sh")).write(fresh)
    assert said.splitlines() == [
        f"to submit: prepared=$(sbatch --parsable {fresh.folder}/prepare.sh)",
        "to submit: sbatch --parsable --kill-on-invalid-dep=yes "
        f'"--dependency=afterok:$prepared" --array=0-0 {tmp_path}/jobs.sh 0',
    ]
    done = here("worker", batch.file, "prepare", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "demo is prepared" in done.stderr


def test_an_array_that_a_person_submits_is_known_when_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was queued again does not take the place of what was submitted since."""
    batch = a_batch(tmp_path / "run", 5).write()

    def begins(array: str, index: str, task: int) -> None:
        for name, value in (("JOB_ID", array), ("TASK_ID", index), ("TASK_COUNT", "3")):
            monkeypatch.setenv(f"SLURM_ARRAY_{name}", value)
        begun(batch, task)

    begins("90", "1", 3)  # 2, 3 and 4 as 0 to 2
    first = {2: "90_0", 3: "90_1", 4: "90_2"}
    assert batch.handed_over() == first
    batch.hand_over("95", 3, 1)
    begins("90", "1", 3)
    begins("90", "2", 4)
    assert batch.handed_over() == first | {3: "95_0"}
    assert len((batch.folder / "submitted.jsonl").read_text().split("\n{")) == 3  # two lines


def test_states_are_those_of_squeue(cluster: Path, tmp_path: Path) -> None:
    batch = a_batch(tmp_path / "run", 5).write()
    batch.hand_over("77", 0, 5)
    (cluster / "queue").write_text(
        "77_0|RUNNING|None\n77_1|PENDING|Priority\n77_2|CANCELLED|None\n77_3|TIMEOUT|TimeLimit\n"
    )
    states = slurm(tmp_path).states(batch)
    assert [states[n].standing for n in range(5)] == [
        *("running", "waiting", "ended", "ended", "ended")
    ]
    assert [states[n].again for n in (2, 3)] == [False, True]
    assert states[3].why == "Slurm says TIMEOUT (TimeLimit)"
    assert states[1].why == "Slurm says PENDING (Priority)"
    (cluster / "queue").unlink()
    (cluster / "squeue.error").write_text("Unable to contact slurm controller\n")
    silent = slurm(tmp_path).states(batch)
    assert {state.standing for state in silent.values()} == {"running"}
    assert "Unable to contact" in silent[0].why
    (cluster / "squeue.error").write_text("slurm_load_jobs error: Invalid job id specified\n")
    assert {state.standing for state in slurm(tmp_path).states(batch).values()} == {"ended"}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"partition": "gpu", "time": "4h"}, "#SBATCH --partition=gpu\n#SBATCH --time=04:00:00\n"),
        ({"time": "1m"}, "#SBATCH --signal=B:USR1@15\n"),
        ({"cpus": "3"}, "export OMP_NUM_THREADS=3 "),
        ({"gpus": "1", "mail_type": "END"}, "#SBATCH --mail-type=END\n"),
    ],
)
def test_the_script_says_what_was_asked(options: dict[str, str], line: str, tmp_path: Path) -> None:
    launcher = slurm(tmp_path, **options, emit_sbatch=str(tmp_path / "jobs.sh"))
    said = launcher.write(a_batch(tmp_path / "run", 3).write())
    assert line in (tmp_path / "jobs.sh").read_text()
    assert said == f"to submit: sbatch --parsable --array=0-2 {tmp_path}/jobs.sh 0"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slurm", "gpu"), "--slurm gpu: NAME=VALUE"),
        (("--slurm", "cpus=0.5"), "--slurm cpus=0.5: a whole number from 1"),
        (("--slurm", "at_once=1e400"), "--slurm at_once=1e400: a whole number from 1"),
        (("--slurm", "minutes=1e400"), "--slurm minutes=1e400: a number above 0"),
        (("--slurm", "partition=gpu evil --wrap=x"), "no option of sbatch"),
        (("--slurm", "prepare=later"), "--slurm prepare=later: job, or leave it out"),
        (("--slurm", "minutes=soon"), "--slurm minutes=soon: a number above 0"),
        (("--slurm", "time=1h;rm"), "no option of sbatch"),
        (("--slurm", "time=1h", "--engine", "isolated"), "is of --engine slurm"),
        (("--detach", "--engine", "inline"), "--detach is of --engine slurm"),
        (("--detach", "--emit-sbatch", "x.sh"), "leave one of the two out"),
        (("--detach", "--controls", "labels"), "--controls follow the study"),
        (("--engine", "local:none"), "--engine local:none: a number of processes"),
        (("--engine", "slurm"), "there is no sbatch here"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: tuple[str, ...], said: str, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    usual = ("--models", TINY, "--weights", "random", "--limit", 24, "--leads", "12")
    done = here("run", *usual, *words, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = (one for one in done.stderr.splitlines() if one.startswith("ecgbench: "))
    assert said in line
    assert not list(tmp_path.glob("runs/*/cells"))


@pytest.mark.long
def test_several_processes_give_the_numbers_of_one(here: Here, tmp_path: Path) -> None:
    """A model that ends its process costs its own cells, also those of the same task."""
    killer = plug_in(tmp_path, "killer", before="os.kill(os.getpid(), 9)")
    usual = ("--tasks", "demo", "--weights", "random", "--limit", 24, "--leads", "12,I")
    usual += ("--protocol", "linear", "--epochs", 2)
    two = ("--models", f"{TINY},{killer}", *usual)
    several = here("run", *two, "--engine", "local:2", "--out", "several", cwd=tmp_path)
    assert several.returncode == 1, several.stderr
    assert "2 cells computed, 0 were there already, 0 skipped, 2 failed" in several.stdout
    assert "failed: 2 cells of killer" in several.stderr
    assert "SIGKILL" in several.stderr
    one = here("run", "--models", TINY, *usual, "--in-process", "--out", "one", cwd=tmp_path)
    assert one.returncode == 0

    def predictions(run: str) -> dict[str, bytes]:
        return {
            folder.parts[-2]: (folder / "predictions.parquet").read_bytes()
            for folder in cells_of(tmp_path / run)
        }

    assert predictions("several") == predictions("one")
    assert set(predictions("one")) == {"12", "I"}
    again = here("run", *two, "--engine", "local:2", "--out", "several", cwd=tmp_path)
    assert "0 cells computed, 2 were there already" in again.stdout
    told = json.loads(here("status", "several", "--json", cwd=tmp_path).stdout)
    assert (told["cells"], told["ok"], told["failed"]) == (4, 2, 2)
    assert told["models"]["killer"] == {"failed": 2}


@pytest.mark.long
@pytest.mark.parametrize(
    "flock", ["return None", "raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))"]
)
def test_two_commands_in_one_folder_share_the_cells_whatever_its_locks_do(
    flock: str, here: Here, tmp_path: Path
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/sitecustomize.py").write_text(
        f"import errno, fcntl, os\n\ndef flock(handle, how):\n    {flock}\n\nfcntl.flock = flock\n"
    )
    usual = ("--models", TINY, "--tasks", "demo", "--weights", "random", "--limit", 24)
    usual += ("--leads", "12,I,II,V1", "--protocol", "linear", "--epochs", 2)
    one = here("run", *usual, "--in-process", "--out", "one", cwd=tmp_path)
    assert one.returncode == 0
    places = {"ECGBENCH_PREPARED": tmp_path / "prepared", "PYTHONPATH": tmp_path / "disk"}
    words = map(str, (*usual, "--engine", "local:2", "--out", "two"))
    line = [sys.executable, "-c", "import sys; sys.argv[0] = 'ecgbench'; "]
    line[-1] += f"sys.path.append({os.getcwd()!r}); from ecgbench.cli import main; main()"
    command = [*line, "run", *words]
    env = os.environ | {name: str(place) for name, place in places.items()}
    both = [
        subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    computed = [int(found[1]) for text in told if (found := re.search(r"(\d+) cells? comp", text))]
    assert sum(computed) == 4, told
    kept = {
        run: {
            folder.parts[-2]: (folder / "predictions.parquet").read_bytes()
            for folder in cells_of(tmp_path / run)
        }
        for run in ("one", "two")
    }
    assert kept["two"] == kept["one"]
    assert len(kept["one"]) == 4
