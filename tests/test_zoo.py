"""Bad models through `--models path.py`, in processes as a person starts them: each costs its own cells and no others."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

from ecgbench.adapters._adapt import Policy
from ecgbench.benchmark.engines import isolated
from ecgbench.benchmark.engines.isolated import DiedError
from ecgbench.cards import InputContract
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import EcgbenchError
from ecgbench.inference.encode import Encoder
from ecgbench.models import Features
from ecgbench.results.study import read

TINY = Path(__file__).parent / "tiny.py"
USUAL = ("--tasks", "demo", "--weights", "random", "--limit", "30", "--epochs", "2", "--seeds", "1")
STRANGER = """"{name}: tiny with a twist"

import importlib.util, os, signal, subprocess, sys, time

import torch

{at_import}
spec = importlib.util.spec_from_file_location("tiny_itself", {tiny!r})
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)
CARD = tiny.CARD


class Twisted(tiny.Tiny):
    def forward(self, signal, measured):
        {before}
        found = super().forward(signal, measured)
        {after}
        return found


def build(weights=None):
    return Twisted()
"""
AT_IMPORT = {
    "lacking": ("import no_such_package", "No module named 'no_such_package'"),
    "misspelt": ("def (:", "SyntaxError"),
    "leaving": ("sys.exit(0)", ""),
    "aborting": ("os.abort()", "its process was ended by SIGABRT"),
}
IN_FORWARD = {
    "raising": ("raise RuntimeError('no such kernel\\n\\x1b[31m' + 'x' * 10_000_000)", "RuntimeError: no such kernel ?[31mxxx"),
    "greedy": ("torch.empty(10**15)", "not enough memory|can't allocate memory"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "its process was ended by SIGKILL (memory may have run out)"),
    "aborted": ("os.abort()", "its process was ended by SIGABRT"),
    "quitting": ("sys.exit(0)", "its process ended with exit code 0"),
    "endless": ("while True: time.sleep(0.01)", "no progress for 4 s"),
    "gripping": ("10**10**8", "no progress for 4 s"),  # in C, with the interpreter's lock held
    "deaf": ("input('a question')", "EOFError"),
    "closing": ("os.closerange(3, 256)", "its process ended with exit code 1"),
    "babbling": ("[os.write(fd, b'garbage\\n') for fd in range(3, 64) if os.path.exists(f'/proc/self/fd/{fd}') "
                 "and 'pipe' in os.readlink(f'/proc/self/fd/{fd}') and os.get_inheritable(fd) is False "
                 "and (int(open(f'/proc/self/fdinfo/{fd}').read().split('flags:')[1].split()[0], 8) & 3) == 1]", "pipe of its events"),
    "restless": ("self.norm.weight.data.mul_(1.001)", "the frozen encoder changed"),
}  # fmt: skip
AFTERWARDS = {
    "unsure": ("found = found._replace(pooled=found.pooled * torch.nan)", "are not finite"),
    "flat": ("found = found._replace(pooled=found.pooled[0])", "the network gave (96,) float32 where Features.pooled is"),
    "whole": ("found = found._replace(pooled=found.pooled.long())", "int64 where Features.pooled is"),
    "empty": ("found = None", "the network gave NoneType where Features.pooled is"),
}


def stranger(folder: Path, name: str, at_import: str = "", before: str = "pass", after: str = "pass") -> Path:
    path = folder / f"{name}.py"
    path.write_text(STRANGER.format(name=name, tiny=str(TINY), at_import=at_import, before=before, after=after))
    return path


def ecgbench(*words: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", "ecgbench", *words], env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


def run(models: list[Path], out: Path, copies: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    paths = ",".join(map(str, models))
    return ecgbench("run", "--models", paths, *USUAL, "--prepared", str(copies), "--out", str(out), *words)


def failures(done: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("  failed: ")]


def excuses(out: Path) -> dict[str, dict[str, str]]:
    return {p.parts[-4]: json.loads(p.read_text()) for p in out.rglob("FAILED.json")}


def the_others_finished(done: "subprocess.CompletedProcess[str]", out: Path, expected: dict[str, str]) -> None:
    """tiny, first and last of the run, has its numbers; each of `expected` has one line that says why, and a report names what lacks."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert len(done.stdout) + len(done.stderr) < 60_000
    study = read(out)
    by_model = study.cells.groupby("model")["status"].agg(set).to_dict()
    assert by_model == {"tiny": {"ok"}, "later": {"ok"}, **{name: {"failed"} for name in expected}}
    lines = failures(done)
    assert len(lines) == len(expected), done.stderr
    for name, reason in expected.items():
        (line,) = [text for text in lines if f" {name}" in text.split(":")[1]]
        told = excuses(out)[name]
        assert any(part in told["reason"] for part in reason.split("|")), (name, told["reason"])
        assert told["reason"] in line
        assert len(line) < 1000
        assert line.isprintable()
        assert f"(log: {told['log']})" in line if told["log"] else "(log:" not in line
        assert not told["log"] or Path(told["log"]).stat().st_size < 1.3 * 2**20
    reported = ecgbench("report", str(out))
    assert reported.returncode == 0, reported.stderr
    page = (out / "report" / "index.html").read_text()
    assert all(name in page for name in expected)
    table = pd.read_csv(out / "report" / "main_table.csv")
    assert set(table.loc[table["status"] == "ok", "model"]) == {"tiny", "later"}


def test_each_bad_model_costs_its_own_cells_only(tmp_path: Path, copies: Path) -> None:
    bad = [stranger(tmp_path, name, at_import=line) for name, (line, _) in AT_IMPORT.items()]
    bad += [stranger(tmp_path, name, before=line) for name, (line, _) in IN_FORWARD.items()]
    bad += [stranger(tmp_path, name, after=line) for name, (line, _) in AFTERWARDS.items()]
    out = tmp_path / "run"
    done = run([TINY, *bad, stranger(tmp_path, "later")], out, copies, "--leads", "12", "--cell-timeout", "4")
    the_others_finished(done, out, {name: reason for part in (AT_IMPORT, IN_FORWARD, AFTERWARDS) for name, (_, reason) in part.items()})
    assert all(told["log"] for name, told in excuses(out).items() if name in ("raising", "aborted", "aborting", "deaf"))


def test_a_flood_of_output_is_cut_and_a_child_that_stays_is_not_waited_for(tmp_path: Path, copies: Path) -> None:
    """The flood goes to both streams and then fails, so that its log is named; the child holds the streams of its dead parent open."""
    flood = "[os.write(fd, b'0123456789' * 10**5) for _ in range(50) for fd in (1, 2)]; raise ValueError('drowned')"
    child = "subprocess.Popen(['sleep', '60']); raise ValueError('gone')"
    bad = [stranger(tmp_path, name, before=line) for name, line in (("flooding", flood), ("parent", child))]
    out, began = tmp_path / "run", time.monotonic()
    done = run([TINY, *bad, stranger(tmp_path, "later")], out, copies, "--leads", "12")
    the_others_finished(done, out, {"flooding": "ValueError: drowned", "parent": "ValueError: gone"})
    assert time.monotonic() - began < 50
    log = Path(excuses(out)["flooding"]["log"])
    assert 2**20 < log.stat().st_size < 1.2 * 2**20
    assert "bytes left out" in log.read_text()
    assert "drowned" in log.read_text()[-2000:]


def test_what_fails_at_one_set_of_leads_costs_that_cell(tmp_path: Path, copies: Path) -> None:
    """Even where it takes the process with it while all sets of leads are computed together."""
    picky = stranger(tmp_path, "picky", before="signal[:, 1].any() or os.abort()")  # lead II, blank at lead I alone
    out = tmp_path / "run"
    done = run([picky], out, copies, "--leads", "I,II,I+II")
    assert done.returncode == 1
    study = read(out)
    assert dict(zip(study.cells["setting"], study.cells["status"], strict=True)) == {"I": "failed", "II": "ok", "I+II": "ok"}
    (line,) = failures(done)
    assert "demo · picky · I" in line
    assert "its process was ended by SIGABRT" in line
    picky.write_text(picky.read_text().replace("os.abort()", "True"))  # its author mends it
    assert run([picky], out, copies, "--leads", "I,II,I+II").returncode == 0


def test_in_this_process_on_request(tmp_path: Path, copies: Path) -> None:
    done = run([TINY], tmp_path / "run", copies, "--leads", "12", "--in-process")
    assert done.returncode == 0, done.stderr
    assert "1 cells computed" in done.stdout
    assert not (tmp_path / "run" / "logs").exists()


@pytest.mark.parametrize(
    ("twist", "came"),
    [
        (lambda f: f, None),
        (lambda f: f._replace(pooled=f.pooled.double()), None),
        (lambda f: f._replace(pooled=f.pooled[:, :3]), "(2, 3) float32"),
        (lambda f: f._replace(pooled=f.pooled[:, None]), "(2, 1, 4) float32"),
        (lambda f: f._replace(pooled=f.pooled[:1]), "(1, 4) float32"),
        (lambda f: f._replace(pooled=f.pooled > 0), "(2, 4) bool"),
        (lambda f: f._replace(pooled=f.pooled.numpy()), "ndarray"),
        (lambda f: f.pooled.long(), "(2, 4) int64"),
    ],
)
def test_features_are_checked_where_they_come_from(twist: Callable[[Features], object], came: str | None) -> None:
    class Odd(nn.Module):
        def forward(self, signal: torch.Tensor, measured: torch.Tensor) -> object:
            return twist(Features(signal, signal[:, :4].mean(2)))

    contract = InputContract(
        name="paper", fs=100, seconds=1, leads=LEADS, unit="mV", filter=None, normalisation="none", fill="before",
        policy="zero", absent="0 mV",
    )  # fmt: skip
    encoder = Encoder(Odd(), contract, Policy.of("zero", lambda: None), dim=4)  # type: ignore[arg-type, return-value]
    view, wanted = torch.ones(12, 200).numpy(), {(1 << 12) - 1: torch.arange(2).numpy()}
    if came is None:
        assert next(iter(encoder(view, wanted).values())).dtype == "float32"
        return
    with pytest.raises(EcgbenchError, match=r"where Features\.pooled is") as told:
        encoder(view, wanted)
    assert f"the network gave {came} where Features.pooled is (2, 4) of floats" in str(told.value)


@pytest.mark.parametrize("line", [b"garbage", b"[1]", b"{}", b'{"kind": 3}', b"\xff\xfe", b"[" * 100_000])
def test_a_line_that_no_worker_wrote_ends_the_process(line: bytes) -> None:
    with pytest.raises(DiedError, match="pipe of its events"):
        isolated._event(line)
