"""A real Slurm on this machine, with everything that happens on a cluster: processes that are
killed, jobs that are preempted, cancelled, or run out of time, and a node that goes away.

Needs root, and slurmctld, slurmd and munged (Debian: slurm-wlm, munge).
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ecgbench.results.study import read
from ecgbench.study.store import cells_of
from tests.test_zoo import plug_in

Here = Callable[..., Any]
NEEDED = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol", "scancel")
LACKING = [program for program in NEEDED if not shutil.which(program)]
pytestmark = [
    pytest.mark.long,
    pytest.mark.slurm,
    pytest.mark.skipif(bool(LACKING), reason=f"no {', '.join(LACKING)} (apt: slurm-wlm, munge)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="starting Slurm's daemons needs root"),
]
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,sched_min_interval=0
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
PreemptMode=REQUEUE
PreemptType=preempt/partition_prio
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 State=UP
"""
STUDY = ("--tasks", "demo", "--weights", "random", "--limit", 24, "--leads", "12,I")
STUDY += ("--protocol", "linear", "--set", "training.epochs=2")


class Cluster:
    """One node with eight cores that it may not have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in ("state", "spool"):
            (folder / part).mkdir()
        host = socket.gethostname().split(".")[0]
        text = CONFIGURATION.format(host=host, folder=folder, controller=_port(), node=_port())
        self.file = folder / "slurm.conf"
        self.file.write_text(text)

    def up(self) -> None:
        if subprocess.run(["pgrep", "-x", "munged"], stdout=subprocess.DEVNULL).returncode:
            Path("/run/munge").mkdir(exist_ok=True)
            shutil.chown("/run/munge", "munge", "munge")
            subprocess.run(["su", "munge", "-s", "/bin/sh", "-c", "munged"], check=True)
        subprocess.run(["slurmctld"], check=True)
        subprocess.run(["slurmd"], check=True)
        until(lambda: "idle" in said("sinfo", "-h", "-o", "%t"), 30)

    def end(self, daemon: str, how: int = signal.SIGTERM) -> None:
        pid = int((self.folder / f"{daemon}.pid").read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, how)
        until(lambda: not Path(f"/proc/{pid}").exists(), 20)

    def down(self) -> None:
        for daemon in ("slurmd", "slurmctld"):
            with suppress(OSError, ValueError):
                self.end(daemon)


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def said(*words: object) -> str:
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=True, timeout=60
    ).stdout


def env() -> dict[str, str]:
    """As `here` has it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ECGBENCH_")}
    return {**kept, "NO_COLOR": "1", "ECGBENCH_RECOMPUTE": "no", "ECGBENCH_PREPARED": "prepared"}


def started(log: Path, *words: object, cwd: Path) -> "subprocess.Popen[bytes]":
    """An `ecgbench` command, as a person types it."""
    line = [sys.executable, "-m", "ecgbench", *map(str, words)]
    with log.open("w") as told:
        return subprocess.Popen(line, cwd=cwd, env=env(), stdout=told, stderr=told)


def ended(process: "subprocess.Popen[bytes]", seconds: float) -> int:
    """The exit code of a command that waits for tasks. Slurm would hold back for two minutes what
    was queued again.
    """
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        begin_now()
        time.sleep(0.5)
    return process.wait(1)


REVOKED = 1.1
"""Seconds: within the second in which slurmd ended a job it refuses to start it again ("Job
credential revoked"), and Slurm says FAILED (NonZeroExitCode). By itself Slurm waits two minutes.
"""


def begin_now() -> None:
    """What waits for a time that Slurm has set; what was queued again just now a second later."""
    waiting = said("squeue", "-h", "-r", "-t", "PD", "-o", "%i").split()
    time.sleep(REVOKED if waiting else 0)
    for name in waiting:
        # it may run by now
        line = ["scontrol", "update", f"JobId={name}", "StartTime=now"]
        subprocess.run(line, stderr=subprocess.DEVNULL)


def until(is_so: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("slurm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(made.file))
        try:
            try:
                made.up()
            except (OSError, subprocess.SubprocessError, AssertionError) as error:
                pytest.skip(f"Slurm's daemons do not start here: {error}")
            yield made
        finally:
            with suppress(OSError, subprocess.SubprocessError):
                said("scancel", "--user=root")
            made.down()


def running(run: Path) -> dict[int, int]:
    """Task -> process id of its worker (not of the guards and models below it)."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().decode().split("\0")
            if words[1:4] == ["-m", "ecgbench", "worker"] and words[4].startswith(str(run)):
                found[int(words[5])] = int(place.name)
    return found


def predictions(run: Path) -> dict[tuple[str, str], bytes]:
    """(model, leads) -> what lies in its one cell."""
    found: dict[tuple[str, str], bytes] = {}
    for folder in cells_of(run):
        key = folder.parts[-3], folder.parts[-2]
        assert key not in found, f"two cells of {key}"
        found[key] = (folder / "predictions.parquet").read_bytes()
    return found


def test_whatever_happens_to_tasks_the_numbers_are_those_of_one_process(
    cluster: Cluster, here: Here, tmp_path: Path
) -> None:
    slow = "time.sleep(0.5)"
    good = [plug_in(tmp_path, f"m{n}", before=slow) for n in range(8)]
    bad = plug_in(tmp_path, "bad", before="os.kill(os.getpid(), 9)")
    models = ",".join(map(str, [*good, bad]))
    words = ("run", "--models", models, *STUDY, "--out", "run")
    spread = ("--slurm", "partition=low,time=20m,minutes=0.01")
    out, chance = tmp_path / "run", random.Random(0)

    log = tmp_path / "followed"
    follower = started(log, *words, *spread, cwd=tmp_path)
    until(lambda: len(running(out)) >= 8, 120)
    (array,) = {name.split("_")[0] for name in said("squeue", "-h", "-r", "-o", "%F_%K").split()}

    # two workers are killed, and one task is ended by a person
    alive = running(out)
    first, second, third = chance.sample(sorted(set(alive) - {8}), 3)
    for task in (first, second):
        os.kill(alive[task], signal.SIGKILL)
    said("scancel", f"{array}_{third}")
    # all eight cores are wanted by somebody whose work goes before
    before = said(
        "sbatch", "--parsable", "-p", "high", "-n", 8, "--wrap", "sleep 2", "-o", "/dev/null"
    )
    until(lambda: not said("squeue", "-h", "-j", before.strip(), "-t", "PD,R,CG"), 180)
    # the node goes away while tasks hold their claims, and comes back
    begin_now()
    until(lambda: running(out), 180)
    cluster.end("slurmd", signal.SIGKILL)
    time.sleep(1)
    subprocess.run(["slurmd"], check=True)
    shown = here("status", "run", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "18 cells" in shown.stdout

    assert ended(follower, 400) == 1, log.read_text()
    followed = log.read_text()
    assert "9 tasks handed over to Slurm" in followed
    assert "failed: 2 cells of bad: its process was killed by SIGKILL" in followed
    assert f"failed: 2 cells of m{third}: its task ended: Slurm says CANCELLED" in followed
    assert followed.count("  failed: ") == 2
    assert followed.count("handed over again") >= 2  # the workers that were killed
    once_more = here(*words, *spread, cwd=tmp_path)
    assert "failed: 2 cells of bad" in once_more.stderr
    assert once_more.stderr.count("  failed: ") == 1
    assert "2 cells computed, 14 were there already, 0 skipped, 2 failed" in once_more.stdout

    for path in good:
        plug_in(tmp_path, path.stem)  # without its pauses
    alone = (
        "run",
        "--models",
        ",".join(map(str, good)),
        *STUDY,
        "--engine",
        "inline",
        "--out",
        "alone",
    )
    assert here(*alone, cwd=tmp_path).returncode == 0
    found = predictions(out)
    assert set(found) == {(f"m{n}", leads) for n in range(8) for leads in ("12", "I")}
    assert found == predictions(tmp_path / "alone")
    states = read(out).cells["status"].value_counts().to_dict()
    assert states == {"ok": 16, "failed": 2}


OUT = 'a %j "run"'
"""Signs that mean something in a line of options."""


def test_a_task_whose_time_is_over_goes_on_where_it_stopped(
    cluster: Cluster, here: Here, tmp_path: Path
) -> None:
    """As Slurm tells it before the end; a fine-tuning, handed over by a command that does not wait,
    and followed by another. Its recordings are prepared by a job before it.
    """
    tuned = ("--protocol", "finetune", "--set", "training.epochs=8", "--out", OUT, "--yes")
    model = plug_in(tmp_path, "slow", before="time.sleep(0.5)")
    words = ("run", "--models", model, *STUDY, *tuned)
    spread = ("--slurm", "partition=low,time=20m,prepare=job")
    began = here(*words, *spread, "--detach", cwd=tmp_path)
    assert began.returncode == 0, began.stderr
    assert "1 task handed over to Slurm" in began.stdout
    log = tmp_path / "followed"
    follower = started(log, *words, *spread, cwd=tmp_path)
    until(lambda: list((tmp_path / OUT).glob("checkpoints/*/checkpoint.safetensors")), 180)
    (name,) = said("squeue", "-h", "-r", "-o", "%i").split()
    said("scancel", "--signal=USR1", "--set", f"training.batch={name}")
    until(lambda: said("squeue", "-h", "-r", "-t", "PD", "-o", "%i").split() == [name], 60)
    assert ended(follower, 400) == 0, log.read_text()
    assert "2 cells computed" in log.read_text()
    assert "handed over" not in log.read_text()  # followed, and never submitted anew
    (submitted,) = (tmp_path / OUT).glob("batches/*/submitted.jsonl")
    (array,) = (json.loads(line)["id"] for line in submitted.read_text().split("\n") if line)
    assert "Restarts=1 " in said("scontrol", "show", "job", "-o", array)
    assert "demo is prepared" in (submitted.parent / "logs/prepare.log").read_text()
    assert "--signal=B:USR1@120" in (submitted.parent / "tasks.sh").read_text()
    assert "checkpoint" not in log.read_text()  # none was damaged, or of another training
    plug_in(tmp_path, "slow")
    assert here(*words, "--out", "one", "--engine", "inline", cwd=tmp_path).returncode == 0
    assert predictions(tmp_path / OUT) == predictions(tmp_path / "one")
