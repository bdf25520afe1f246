"""`ecgbench new`: what it writes runs as it is, found by its name where the command is typed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.long
def test_a_new_model_keeps_every_promise_of_a_model(here: Command, tmp_path: Path) -> None:
    done = here("new", "model", "mynet", cwd=tmp_path)
    assert "ecgbench check model mynet" in done.stdout
    done = here("check", "model", "MyNet", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "24,416 parameters, 64 features" in done.stdout  # its card leaves them out
    study = ("run", "--models", "mynet", "--tasks", "demo", "--limit", "40", "--leads", "I")
    for protocol in ("finetune", "finetune-modern"):
        done = here(*study, "--weights", "random", "--protocol", protocol, cwd=tmp_path)
        assert (done.returncode, "the card of mynet has no groups" in done.stderr) == (2, True)


@pytest.mark.long
def test_a_checkpoint_is_opened_before_any_data_are_read(
    here: Command, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One of another network ends the run at once; a usual one is found in its container."""
    here("new", "model", "mynet", cwd=tmp_path)
    study = ("run", "--models", "mynet", "--tasks", "demo", "--limit", "40", "--leads", "I")
    ways = ("--engine", "inline", "--prepared", "prepared", "--out", "r")
    state = {
        "first.weight": torch.randn(32, 12, 10),
        "first.bias": torch.randn(32),
        "second.weight": torch.randn(64, 32, 10),
    }
    torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}}, tmp_path / "my.pt")
    for file, why in (("my.pt", "1 missing: second.bias"), ("no.pt", "no file no.pt")):
        done = here(*study, "--weights", f"mynet={file}", *ways, cwd=tmp_path)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / "prepared").exists()
        assert not (tmp_path / "r/cells").exists()
    state |= {"second.bias": torch.randn(64), "head.weight": torch.randn(5, 64)}
    torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}}, tmp_path / "my.pt")
    done = here(*study, "--weights", "mynet=my.pt", *ways, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "under 'state_dict.module.'; left out: state_dict.module.head" in caplog.text
    done = here("check", "model", "mynet", "--weights", "my.pt", cwd=tmp_path)
    assert "ok     left out of my.pt: state_dict.module.head: 1 tensor" in done.stdout


def test_a_new_dataset_reads_the_tables_that_its_page_names(here: Command, tmp_path: Path) -> None:
    here("new", "dataset", "clinic", cwd=tmp_path)
    (tmp_path / "clinic" / "signals").mkdir(parents=True)
    leads = "I,II,III,aVR,aVL,aVF,V1,V2,V3,V4,V5,V6"
    draw = np.random.default_rng(0)
    rows = [f"A{i},P{i // 2},{int(i % 5 == 0)},{int(i % 7 == 0)}" for i in range(60)]
    (tmp_path / "clinic/records.csv").write_text("\n".join(["record,patient,af,lbbb", *rows]))
    for i in range(60):
        path = tmp_path / "clinic" / "signals" / f"A{i}.csv"
        steps = draw.integers(-900, 900, (5000, 12))
        np.savetxt(path, steps, fmt="%d", delimiter=",", header=leads, comments="")
    done = here("check", "dataset", "clinic", "--data", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_a_new_report_is_on_the_page(here: Command, tmp_path: Path) -> None:
    here("new", "report", "best_lead", cwd=tmp_path)
    study = (*("run", "--models", TINY, "--tasks", "demo", "--limit", "40"), "--engine", "inline")
    here(*study, *("--leads", "I,II", "--weights", "random", "--out", "r"), cwd=tmp_path)
    done = here("report", "r", "--only", "best_lead", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r/report/best_lead.csv").exists()
    here(*study, *("--leads", "12", "--weights", "random", "--out", "all"), cwd=tmp_path)
    assert here("report", "all", "--only", "best_lead", cwd=tmp_path).returncode == 0
    assert "no single lead by name" in (tmp_path / "all/report/index.html").read_text()


TINY = Path(__file__).parents[1] / "tiny.py"


@pytest.mark.parametrize(
    ("name", "why"),
    [("my net", "no name"), ("mynet", "exists; choose"), ("LAEF", "'laef' is an installed model")],
)
def test_what_cannot_be_written_is_one_line(
    here: Command, tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters/mynet.py").write_text("mine")
    done = here("new", "model", name, cwd=tmp_path)
    assert (done.returncode, why in done.stderr) == (2, True)
    assert (tmp_path / "adapters/mynet.py").read_text() == "mine"
