"""A real Slurm on this machine, with everything that happens on a cluster: processes that are
killed, jobs that are preempted, cancelled, or run out of time, and a node that goes away.

Needs root, and slurmctld, slurmd and munged (slurm-wlm, munge).
"""

import os
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

from ecgbench.errors import BadSetting
from ecgbench.results.study import read
from ecgbench.study.engines.slurm import options_of
from ecgbench.study.store import cells_of
from tests.study.test_zoo import plug_in

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
MinJobAge=300
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
        places = {"host": socket.gethostname().split(".")[0], "folder": folder}
        self.file = folder / "slurm.conf"
        self.file.write_text(CONFIGURATION.format(**places, controller=_port(), node=_port()))

    def up(self) -> None:
        if subprocess.run(["pgrep", "-x", "munged"], stdout=subprocess.DEVNULL).returncode:
            Path("/run/munge").mkdir(exist_ok=True)
            shutil.chown("/run/munge", "munge", "munge")
            run("su", "munge", "-s", "/bin/sh", "-c", "munged")
        run("slurmctld")
        run("slurmd")
        until(lambda: "idle" in said("sinfo", "-h", "-o", "%t"), 30)

    def down(self) -> None:
        for daemon in ("slurmd", "slurmctld"):
            with suppress(OSError, ValueError):
                pid = int((self.folder / f"{daemon}.pid").read_text())
                os.kill(pid, signal.SIGTERM)
                until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), 20)


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def said(*words: object) -> str:
    line = list(map(str, words))
    return subprocess.run(line, capture_output=True, text=True, check=True, timeout=60).stdout


def started(log: Path, *words: object, cwd: Path) -> "subprocess.Popen[bytes]":
    """An `ecgbench` command, as a person types it; the environment is that of `here`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ECGBENCH_")}
    env = {**kept, "NO_COLOR": "1", "ECGBENCH_PREPARED": "prepared"}
    line = [sys.executable, "-m", "ecgbench", *map(str, words)]
    with log.open("w") as told:
        return subprocess.Popen(line, cwd=cwd, env=env, stdout=told, stderr=told)


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


def running() -> dict[str, int]:
    """Id of a job -> process id of what submitit started on the node."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().decode().split("\0")
            pairs = (place / "environ").read_text().split("\0")
            env = dict(pair.partition("=")[::2] for pair in pairs)
            if "submitit.core._submit" in words and words[0] == sys.executable:
                name = "_".join(env[f"SLURM_ARRAY_{part}_ID"] for part in ("JOB", "TASK"))
                found[name] = int(place.name)
    return found


def predictions(run: Path) -> dict[tuple[str, str], bytes]:
    """(model, leads) -> what lies in its one cell."""
    found: dict[tuple[str, str], bytes] = {}
    for folder in cells_of(run):
        key = folder.parts[-3], folder.parts[-2]
        assert key not in found, f"two cells of {key}"
        found[key] = (folder / "predictions.parquet").read_bytes()
    return found


def test_whatever_happens_to_jobs_the_numbers_are_those_of_one_process(
    cluster: Cluster, here: Here, tmp_path: Path
) -> None:
    """One is killed, one is ended by a person, all make way for somebody whose work goes before,
    and one model kills its own process.
    """
    good = [plug_in(tmp_path, f"m{n}", before="time.sleep(0.5)") for n in range(3)]
    bad = plug_in(tmp_path, "bad", before="os.kill(os.getpid(), 9)")
    models = ",".join(map(str, [*good, bad]))
    words = ("run", "--models", models, *STUDY, "--out", "run")
    spread = ("--engine", "slurm:partition=low,time=20m")
    out, log = tmp_path / "run", tmp_path / "followed"
    follower = started(log, *words, *spread, cwd=tmp_path)
    alive: dict[str, int] = {}

    def both_at_work() -> bool:
        alive.clear()
        alive.update(running())
        return {"0", "1"} <= {name.partition("_")[2] for name in alive}

    until(both_at_work, 180)
    array = next(iter(alive)).partition("_")[0]
    os.kill(alive[f"{array}_0"], signal.SIGKILL)
    said("scancel", f"{array}_1")
    words_of = ("-p", "high", "-n", 8, "--wrap", "sleep 2", "-o", "/dev/null")
    before = said("sbatch", "--parsable", *words_of)
    until(lambda: not said("squeue", "-h", "-j", before.strip(), "-t", "PD,R,CG"), 180)
    shown = here("runs", "status", "run", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "8 cells" in shown.stdout

    assert ended(follower, 400) == 1, log.read_text()
    followed = log.read_text()
    assert "2 cells of bad: its process was killed by SIGKILL" in followed
    assert "ended in Slurm (CANCELLED)" in followed
    assert followed.count("  failed: ") == 2
    assert "submitted again" in followed  # the job that was killed
    once_more = started(log, *words, *spread, cwd=tmp_path)
    assert ended(once_more, 400) == 1
    assert "2 cells computed, 4 were there already, 0 skipped, 2 failed" in log.read_text()

    for path in good:
        plug_in(tmp_path, path.stem)  # without its pauses
    alone = ("run", "--models", ",".join(map(str, good)), *STUDY, "--engine", "inline")
    assert here(*alone, "--out", "alone", cwd=tmp_path).returncode == 0
    found = predictions(out)
    assert set(found) == {(f"m{n}", leads) for n in range(3) for leads in ("12", "I")}
    assert found == predictions(tmp_path / "alone")
    assert read(out).cells["status"].value_counts().to_dict() == {"ok": 6, "failed": 2}


def test_a_job_whose_time_is_over_goes_on_where_it_stopped(
    cluster: Cluster, here: Here, tmp_path: Path
) -> None:
    """As Slurm tells it before the end; a fine-tuning, submitted by a command that does not wait,
    and followed by another.
    """
    tuned = ("--protocol", "finetune", "--set", "training.epochs=8", "--out", "run")
    model = plug_in(tmp_path, "slow", before="time.sleep(0.5)")
    words = ("run", "--models", model, *STUDY, *tuned)
    spread = "slurm:partition=low,time=20m"
    began = here(*words, "--engine", f"{spread},wait=no", cwd=tmp_path)
    assert began.returncode == 0, began.stderr
    assert "1 jobs go on without this command" in began.stdout
    log = tmp_path / "followed"
    follower = started(log, *words, "--engine", spread, cwd=tmp_path)
    until(lambda: list((tmp_path / "run").glob("checkpoints/*/checkpoint.pt")), 180)
    (name,) = said("squeue", "-h", "-r", "-o", "%i").split()
    said("scancel", "--signal=USR2", name)
    until(lambda: said("squeue", "-h", "-r", "-t", "PD", "-o", "%i").split() == [name], 60)
    assert ended(follower, 400) == 0, log.read_text()
    assert (
        "2 computed by another command meanwhile" in log.read_text()
    )  # the other command asked for them
    assert len((tmp_path / "run" / "jobs" / "submitted.tsv").read_text().splitlines()) == 2


@pytest.mark.parametrize("words", ["partition", "time=soon", "at_once=0", "a=1,a=2"])
def test_options_are_those_of_sbatch(words: str) -> None:
    with pytest.raises(BadSetting):
        options_of(words)
