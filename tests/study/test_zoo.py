"""Bad models through `--models path.py`, in workers as a run starts them: each costs its own cells
and no others.
"""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

from ecgbench.cards.model import reference_feeding
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import EcgbenchError
from ecgbench.evaluate.encode import Encoder
from ecgbench.models import Features
from ecgbench.policies.hide import Policy
from ecgbench.results.study import read

TINY = Path(__file__).parents[1] / "tiny.py"
USUAL = ("--tasks", "demo", "--weights", "random", "--limit", "30", "--seeds", "1")
USUAL += ("--protocol", "probe")
Done = subprocess.CompletedProcess[str]
Here = Callable[..., Done]
PLUG_IN = """"{name}: tiny with a twist"

import importlib.util, os, subprocess, sys, time
from dataclasses import replace

import torch
from torch import nn

{at_import}
spec = importlib.util.spec_from_file_location("tiny_itself", {tiny!r})
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)
CARD = replace(tiny.CARD, contracts=(replace(tiny.CARD.contracts[0], seconds={seconds}),))


class Twisted(tiny.Tiny):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, signal, measured):
        {before}
        found = super().forward(signal, measured)
        {after}
        return found


def build(weights=None):
    return Twisted()
"""
Kinds = dict[str, tuple[dict[str, str], str]]
"""Name of a bad model -> its twist, and what the reason of its failure holds (either side of a
bar).
"""
RAISING: Kinds = {
    "lacking": ({"at_import": "import no_such_package"}, "No module named 'no_such_package'"),
    "misspelt": ({"at_import": "def (:"}, "SyntaxError"),
    "leaving": ({"at_import": "sys.exit(0)"}, "SystemExit"),
    "raising": (
        {"before": "raise RuntimeError('no kernel\\n\\x1b[31m' + 'x' * 10_000_000)"},
        "no kernel U+001B[31mxxx",
    ),
    "greedy": ({"before": "torch.empty(10**15)"}, "not enough memory|can't allocate memory"),
    "restless": ({"before": "self.norm.weight.data.mul_(1.001)"}, "the frozen encoder changed"),
    "unsure": ({"after": "found = found.pooled * torch.nan"}, "are not finite"),
    "empty": ({"after": "found = None"}, "NoneType"),
}
CHILD = "subprocess.Popen(['sleep', '60']); input('a question')"
ENDING: Kinds = {
    "aborting": ({"before": "os.abort()"}, "SIGABRT"),
    "killed": ({"before": "os.kill(os.getpid(), 9)"}, "SIGKILL (memory may have run out)"),
    "quitting": ({"before": "sys.exit(0)"}, "SystemExit: 0"),
    "endless": ({"before": "while True: time.sleep(0.01)"}, "no progress for 4 s"),
    # in C, with the interpreter's lock held
    "gripping": ({"before": "10**10**8"}, "no progress for 4 s"),
    "parent": ({"before": CHILD}, "EOFError"),
}


def plug_in(folder: Path, name: str, **twists: str) -> Path:
    """Writes `folder`/name.py: tests/tiny.py with lines `at_import`, `made` at its construction,
    `before` and `after` its pass, and other `seconds`.
    """
    usual = {
        "at_import": "",
        "seconds": "2.5",
        **dict.fromkeys(("made", "before", "after"), "pass"),
    }
    path = folder / f"{name}.py"
    path.write_text(PLUG_IN.format(name=name, tiny=str(TINY), **{**usual, **twists}))
    return path


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


def failures(done: Done) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("  failed: ")]


def reasons(out: Path) -> dict[str, dict[str, str]]:
    return {p.parts[-3]: json.loads(p.read_text()) for p in (out / "reasons").rglob("*.json")}


def the_others_finished(here: Here, done: Done, out: Path, expected: dict[str, str]) -> None:
    """tiny, first and last of the run, has its numbers; each of `expected` has one line that says
    why, and a report names what lacks.
    """
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
        given = reasons(out)[name]
        assert any(part in given["reason"] for part in reason.split("|")), (name, given["reason"])
        assert given["reason"] in line
        assert len(line) < 1000
        assert line.isprintable()
        died = "its process" in reason or "no progress" in reason
        assert f"(log: {given['log']}" in line or not (given["log"] or died)
    assert here("report", out, cwd=out).returncode == 0
    page = (out / "report" / "index.html").read_text()
    assert all(name in page for name in expected)
    table = pd.read_csv(out / "report" / "main_table.csv")
    assert set(table.loc[table["status"] == "ok", "model"]) == {"tiny", "later"}


def zoo(here: Here, kinds: Kinds, folder: Path, copies: Path, *words: str) -> Path:
    """A run of tiny, each bad model, and another good one, whose outcome is checked; returns its
    folder.
    """
    bad = [plug_in(folder, name, **twist) for name, (twist, _) in kinds.items()]
    models = ",".join(map(str, [TINY, *bad, plug_in(folder, "later")]))
    places = ("--prepared", copies, "--out", folder / "run")
    done = here("run", "--models", models, *USUAL, *places, "--leads", "12", *words, cwd=folder)
    the_others_finished(
        here, done, folder / "run", {name: reason for name, (_, reason) in kinds.items()}
    )
    return folder / "run"


@pytest.mark.long
def test_a_model_that_raises_costs_its_own_cells_only(
    here: Here, tmp_path: Path, copies: Path
) -> None:
    """All in one process, which is enough for these and spares the start of one per model."""
    out = zoo(here, RAISING, tmp_path, copies, "--engine", "inline")
    assert not (out / "logs").exists()


@pytest.mark.long
def test_a_model_that_ends_or_hangs_its_process_costs_its_own_cells_only(
    here: Here, tmp_path: Path, copies: Path
) -> None:
    """Also one whose child holds its streams open and who asks standard input."""
    out = zoo(here, ENDING, tmp_path, copies, "--set", "run.timeout=4")
    given = reasons(out)
    for name in ("endless", "gripping"):
        assert "most recent call first" in Path(given[name]["log"]).read_text()


@pytest.mark.long
def test_what_fails_at_one_set_of_leads_costs_that_cell(
    here: Here, tmp_path: Path, copies: Path
) -> None:
    """Even where it takes the process with it while all sets of leads are computed together."""
    # lead II, blank at lead I alone
    picky = plug_in(tmp_path, "picky", before="signal[:, 1].any() or os.abort()")
    out = tmp_path / "run"
    again = ("--models", picky, *USUAL, "--leads", "I,II,I+II", "--prepared", copies, "--out", out)
    done = here("run", *again, cwd=tmp_path)
    assert done.returncode == 1
    study = read(out)
    assert dict(zip(study.cells["setting"], study.cells["status"], strict=True)) == {
        "I": "failed",
        "II": "ok",
        "I+II": "ok",
    }
    (line,) = failures(done)
    assert "demo · picky · I" in line
    assert "its process was killed by SIGABRT" in line
    picky.write_text(picky.read_text().replace("os.abort()", "True"))  # its author mends it
    assert here("run", *again, "--engine", "inline", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("twist", "came"),
    [
        (lambda f: f._replace(pooled=f.pooled.double()), None),
        (lambda f: f._replace(pooled=f.pooled[:, :3]), "(2, 3) float32"),
        (lambda f: f._replace(pooled=f.pooled[:1]), "(1, 4) float32"),
        (lambda f: f._replace(pooled=f.pooled.numpy()), "ndarray"),
        (lambda f: f.pooled.long(), "(2, 4) int64"),
    ],
)
def test_features_are_checked_where_they_come_from(
    twist: Callable[[Features], object], came: str | None
) -> None:
    class Odd(nn.Module):
        def forward(self, signal: torch.Tensor, measured: torch.Tensor) -> object:
            return twist(Features(signal, signal[:, :4].mean(2)))

    contract = reference_feeding(fs=100, seconds=1, leads=LEADS)
    encoder = Encoder(Odd(), contract, Policy.of("zero", lambda: None), dim=4)  # type: ignore[arg-type, return-value]
    view, wanted = torch.ones(12, 200).numpy(), {(1 << 12) - 1: torch.arange(2).numpy()}
    if came is None:
        assert next(iter(encoder(view, wanted).values())).dtype == "float32"
        return
    with pytest.raises(EcgbenchError, match=re.escape(f"gave {came} where")):
        encoder(view, wanted)
