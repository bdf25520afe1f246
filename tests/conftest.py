"""Shared fixtures: a tiny PTB-XL in the true layout, and the genuine recordings where they are at
hand.
"""

import fcntl
import gc
import io
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

settings.register_profile("few", max_examples=40, deadline=None)
settings.load_profile("few")

WANTED = "needs genuine recordings (ECGBENCH_REAL_DATA)"


NUMBER = count()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in ("ECGBENCH_DATA", "ECGBENCH_PREPARED"):
        monkeypatch.delenv(name, raising=False)
    weights = tmp_path_factory.getbasetemp() / f"weights{next(NUMBER)}"
    monkeypatch.setenv("ECGBENCH_WEIGHTS", str(weights))


@pytest.fixture(scope="module", autouse=True)
def _no_waiting_for_the_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """fsync protects from a power cut, which no test makes, and takes seconds on a busy disk; a
    file of tests marked `durable` keeps it.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("durable"):
            patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_report(request: pytest.FixtureRequest) -> Iterator[None]:
    """A report takes longer than the run of a test; a file of tests marked `reported` has it."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("reported"):
            patch.setattr("ecgbench.study.command.REPORTED", 0)
        yield


PICTURES = {
    "png": b"\x89PNG\r\n\x1a\n",
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "pdf": b"%PDF-1.4\n",
}


@pytest.fixture(scope="module", autouse=True)
def _no_rendering(request: pytest.FixtureRequest) -> Iterator[None]:
    """Half of the time of a report of a small study goes into text and lines of its pictures;
    figures are drawn in every test, and become pictures in a file of tests marked `rendered`.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("rendered"):
            patch.setattr(
                "ecgbench.reports._figure.rendered",
                lambda sheet, kinds: {kind: PICTURES[kind] for kind in kinds},
            )
        yield


@pytest.fixture(scope="session")
def ptbxl_copy() -> ModuleType:
    """tests/data/ptbxl_copy.py: `make`, `write_record`, `signal`."""
    from tests.data import ptbxl_copy

    return ptbxl_copy


@pytest.fixture(scope="session")
def _made_ptbxl(ptbxl_copy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ptbxl_copy.make(tmp_path_factory.mktemp("fake")).parent


@pytest.fixture
def fake_ptbxl(_made_ptbxl: Path, tmp_path: Path) -> Path:
    """A folder for --data that holds ptbxl/ with 30 invented records (train 16, val 7, test 7); the
    test's own to spoil.
    """
    return Path(shutil.copytree(_made_ptbxl, tmp_path / "data"))


@pytest.fixture
def kill_when() -> Callable[..., None]:
    """kill_when(target, *words): runs target(*words) in a process and kills it (SIGKILL) once the
    file words[-1] exists.
    """

    def run(target: Callable[..., None], *words: Path) -> None:
        process = multiprocessing.get_context("fork").Process(target=target, args=words)
        process.start()
        for _ in range(3000):
            if words[-1].exists():
                break
            time.sleep(0.01)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert words[-1].exists()

    return run


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small matrices are slower with more threads, and the last bits of a sum depend on their
    number.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared copies, shared by all runs of a process."""
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="session")
def typed(copies: Path) -> Callable[..., int]:
    """typed(out, *words): `ecgbench run --engine inline` of the tiny plug-in on 60 records of the
    demo at twelve leads, with random weights; protocol linear, two epochs, unless `words` name
    `probe` or `shipped`.

    Later words override. Returns the exit code.
    """
    from ecgbench import models, policies
    from ecgbench.cli import main
    from ecgbench.evaluate import protocols

    tiny = Path(__file__).with_name("tiny.py")
    usual = "--engine inline --tasks demo --weights random --limit 60 --leads 12 --seeds 1"
    linear = ("--protocol", "linear", "--set", "training.epochs=2")

    def run(out: Path, *words: str) -> int:
        for room in (models, policies, protocols):
            room.ROOM.forget()  # as in a new process
        line = ["ecgbench", "run", *usual.split(), "--models", str(tiny)]
        line += linear if {"probe", "shipped"}.isdisjoint(words) else ()
        line += ["--prepared", str(copies), "--out", str(out), *words]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", line)
            try:
                main()
            except SystemExit as end:
                return int(end.code or 0)
        return 0

    return run


@pytest.fixture(scope="session")
def here() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """here(*words, cwd=folder, **env): an `ecgbench` command in this process, for what a start of
    its own would not change; plug-ins are found anew. Prepared copies and weights lie in `cwd`.
    """
    from ecgbench import cli, datasets, metrics, models, policies, reports
    from ecgbench.study import engines

    rooms = (datasets, engines, metrics, models, reports, policies)

    def run(*words: object, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
        out, err = io.StringIO(), io.StringIO()
        places = {"ECGBENCH_PREPARED": cwd / "prepared", "ECGBENCH_WEIGHTS": cwd / "cache"}
        shown = {"NO_COLOR": "1", "COLUMNS": "200"}
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(cwd)
            for name in [n for n in os.environ if n.startswith("ECGBENCH_")]:
                patch.delenv(name)
            for name, value in {**places, **shown, **env}.items():
                patch.setenv(name, str(value))
            patch.setattr(sys, "argv", ["ecgbench", *map(str, words)])
            for room in rooms:
                room.ROOM.forget()
            try:
                cli.main()
            except SystemExit as end:
                code = int(end.code or 0)
            finally:
                for room in rooms:
                    room.ROOM.forget()
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def installed() -> Callable[..., str]:
    """installed(site, folder, *commands): `ecgbench` commands in `folder`, one after the other in a
    process that finds the packages of `site`; what they print.
    """
    code = """
import json, sys
from ecgbench.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["ecgbench", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""

    def run(site: Path, folder: Path, *commands: tuple[object, ...]) -> str:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ECGBENCH_")}
        searched = os.pathsep.join([str(site), kept.get("PYTHONPATH", "")])
        usual = {"NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
        # what plug-ins declare is kept there
        env = {**kept, **usual, "PYTHONPATH": searched, "XDG_CACHE_HOME": str(site / "cache")}
        words = json.dumps([[str(w) for w in command] for command in commands])
        line = [sys.executable, "-c", code, words]
        done = subprocess.run(
            line, cwd=folder, capture_output=True, text=True, timeout=300, env=env
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def two_processes(tmp_path: Path) -> Callable[[str], None]:
    """two_processes(__file__): runs `several(tmp_path)` of a test file in two gloo processes of one
    thread each, with the environment that torchrun gives (tests/cli/test_pretrain.py starts
    torchrun itself). The two are copies of one that has imported everything, which takes longer
    than what they do.
    """

    def launch(file: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        env = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = {**os.environ, **env, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        line = [sys.executable, str(Path(__file__).with_name("two.py")), file, str(tmp_path)]
        # a session of its own, so that the copies end with it
        both = subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            code = both.wait(timeout=150)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(both.pid, signal.SIGKILL)
            both.wait()
        assert code == 0, [path.read_text() for path in sorted(tmp_path.glob("stderr*"))]

    return launch


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder named by ECGBENCH_REAL_DATA."""
    named = os.environ.get("ECGBENCH_REAL_DATA")
    if not named:
        pytest.skip(WANTED)
    return Path(named).resolve()


@pytest.fixture(scope="session")
def real_ptbxl(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for --data with ptbxl/, 2,000 genuine records as published; shared by all workers,
    so only prepared/ may be added.
    """
    from tests.frozen.__main__ import unpacked

    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "real"
    shared.mkdir(exist_ok=True)
    with (shared / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / ".unpacked").exists():
            unpacked(real_data, shared)
            (shared / ".unpacked").touch()
    return shared


def pytest_configure(config: pytest.Config) -> None:
    # xdist would begin with the files of most tests and end on a long one while a worker idles
    config.option.loadscopereorder = False


def pytest_collection_finish(session: pytest.Session) -> None:
    # what is there by now stays to the end: the collector need not look at it again and again
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("real") and not os.environ.get("ECGBENCH_REAL_DATA"):
        pytest.skip(WANTED)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = sum(
        WANTED in str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])
    )
    terminalreporter.write_line(
        f"{skipped} tests were skipped for want of the genuine recordings (ECGBENCH_REAL_DATA)."
    )


@pytest.fixture(scope="session")
def recompute() -> ModuleType:
    """tests/recompute.py: every printed number again, by an independent computation."""
    from tests import recompute

    return recompute
