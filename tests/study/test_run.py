"""Runs as a person types them, in this process; the tiny plug-in on 60 records of the demo unless
said otherwise.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import save_file

from ecgbench import models
from ecgbench.cards.plan import Request, plan_of
from ecgbench.data.prepare import prepare
from ecgbench.errors import BadSetting
from ecgbench.evaluate.device import choose, demand
from ecgbench.results.study import Run, read
from ecgbench.study import run as study_run
from ecgbench.study import work
from ecgbench.study.engines import Died
from ecgbench.study.jobs import Job
from ecgbench.study.options import RunOptions
from ecgbench.study.store import Store, cells_of, noted
from ecgbench.study.stored import read_pooled
from tests.study.test_zoo import plug_in

TINY = Path(__file__).parents[1] / "tiny.py"
GRID = ("--leads", "1,2,12,I,II", "--seeds", "2")
Typed = Callable[..., int]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def grid(typed: Typed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run at random leads, named leads and twelve, of two models."""
    folder = tmp_path_factory.mktemp("grid")
    assert typed(folder / "run", *both(folder), *GRID) == 0
    return folder / "run"


def both(folder: Path) -> tuple[str, str]:
    """Two models: tiny, and another whose windows are half as long."""
    return "--models", f"{TINY},{plug_in(folder, 'brief', seconds='1.25')}"


def table(run: Path) -> bytes:
    return read(run).main.to_csv(index=False).encode()


def hashes(run: Path) -> dict[str, str]:
    places = [
        p
        for part in ("cells", "fits", "features", "models", "datasets")
        for p in (run / part).rglob("*")
        if p.is_file()
    ]
    return {str(p.relative_to(run)): hashlib.sha256(p.read_bytes()).hexdigest() for p in places}


def keys(run: Path) -> dict[str, str]:
    return {note["identity"]: note["key"] for note in map(noted, cells_of(run))}


def states(study: Run) -> dict[str, str]:
    return {f"{c.model} {c.setting} {c.policy}": c.status for c in study.cells.itertuples()}


def test_a_second_time_nothing_is_computed(
    grid: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    before, was = hashes(grid), table(grid)
    assert typed(grid, *both(grid.parent), *GRID) == 0
    assert "0 cells computed, 14 were there already, 0 skipped, 0 failed" in capsys.readouterr().out
    assert hashes(grid) == before
    assert table(grid) == was
    commands = read(grid).provenance.commands
    assert [(c.computed, c.reused, c.ended) for c in commands] == [(14, 0, True), (0, 14, True)]


@pytest.mark.long
def test_a_grid_that_grew_is_the_grid_asked_for_at_once(
    grid: Path, typed: Typed, tmp_path: Path
) -> None:
    """More leads, more seeds, more models: cells that were there stay, and every number is the same
    to the last bit.
    """
    grown = tmp_path / "grown"
    assert typed(grown, "--leads", "12,2") == 0
    first = hashes(grown)
    assert typed(grown, "--leads", "II,1", "--seeds", "2") == 0
    assert typed(grown, *both(grid.parent), *GRID) == 0
    assert first.items() <= hashes(grown).items()
    assert keys(grown) == keys(grid)
    assert table(grown) == table(grid)
    cells = [p.relative_to(grid) for p in (grid / "cells").rglob("*.parquet")]
    assert len(cells) == 14 * 2
    assert all((grid / p).read_bytes() == (grown / p).read_bytes() for p in cells)


def test_a_second_plug_in_of_one_name_does_not_take_the_place_of_the_first(
    typed: Typed, tmp_path: Path
) -> None:
    run, places = tmp_path / "run", [tmp_path / name for name in ("a", "b")]
    for place, before in zip(places, ("pass", "signal = 2 * signal")):
        place.mkdir()
        plug_in(place, "mine", before=before)
    mine, other = (place / "mine.py" for place in places)
    assert typed(run, "--models", str(mine)) == 0
    before = hashes(run)
    assert typed(run, "--models", str(other)) == 2
    assert hashes(run) == before
    mine.rename(other)  # moved, and as it was
    assert typed(run, "--models", str(other)) == 0
    assert hashes(run) == before


@pytest.mark.long
def test_the_key_changes_with_what_changes_the_number_and_with_nothing_else(
    copies: Path, typed: Typed, grid: Path, tmp_path: Path
) -> None:
    def key_of(name: str, *words: str) -> str:
        run = tmp_path / name
        assert typed(run, *words) == 0
        return next(k for i, k in keys(run).items() if "|tiny|" in i and "|12|" in i)

    usual, whole = key_of("usual"), tmp_path / "prepared"
    prepare("demo", None, whole)
    file = tmp_path / "one.safetensors"
    save_file(models.get(str(TINY)).build().state_dict(), file)
    other = {
        "epochs": ("--set", "training.epochs=4"),
        "lr": ("--set", "training.lr=0.01"),
        "batch": ("--set", "training.batch=8"),
        "fit seed": ("--set", "training.seeds=1"),
        "policy": ("--policy", "mean"),
        "weights": ("--weights", str(file)),
        "draw": ("--set", "scoring.draw=window"),
        "limit": ("--limit", "61"),
    }
    found = {name: key_of(name, *words) for name, words in other.items()}
    assert len({usual, *found.values()}) == 1 + len(found)
    moved = file.rename(tmp_path / "two.safetensors")
    assert key_of("moved", "--weights", str(moved)) == found["weights"]
    assert key_of("bootstrap", "--set", "scoring.bootstrap=multinomial") == usual
    pair = both(grid.parent)
    assert key_of("grid", *pair, "--leads", "12,II", "--seeds", "3") == usual
    # all of it, where `copies` holds 60 or 61 records
    turned = ",".join(reversed(pair[1].split(",")))
    assert key_of("turned", "--models", turned, "--prepared", str(whole)) == usual
    edited = plug_in(tmp_path, "tiny", before="signal = 2 * signal")
    assert key_of("edited", "--models", str(edited)) != usual


def test_other_settings_or_a_second_writer_need_another_folder(
    grid: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    was = (grid / "plan.toml").read_bytes()
    assert typed(grid, "--set", "training.epochs=9") == 2
    assert capsys.readouterr().err.endswith(f"--set training.epochs=9 --out {grid}-2\n")
    assert (grid / "plan.toml").read_bytes() == was


def test_a_model_that_was_edited_and_cannot_be_loaded_has_no_number(
    typed: Typed, tmp_path: Path
) -> None:
    own = plug_in(tmp_path, "own")
    assert typed(tmp_path / "run", "--models", str(own), "--leads", "12") == 0
    own.write_text(f"{own.read_text()}\nraise ValueError('mend me')\n")
    assert typed(tmp_path / "run", "--models", str(own), "--leads", "12") == 1
    assert states(read(tmp_path / "run")) == {"own 12 zero": "failed"}


def test_a_policy_that_fails_does_not_cost_the_others(typed: Typed, tmp_path: Path) -> None:
    policy = tmp_path / "clumsy.py"
    fit = "def fit(signals, leads):\n    raise ValueError('singular')\n"
    policy.write_text(f"{fit}\n\ndef fill(signal, measured, state=None):\n    return signal\n")
    assert typed(tmp_path / "run", "--policy", f"{policy},zero") == 1
    study = read(tmp_path / "run")
    assert states(study) == {"tiny 12 clumsy": "failed", "tiny 12 zero": "ok"}
    assert any("clumsy.py:2: ValueError" in reason for reason in study.cells["reason"])


def test_who_waits_for_another_command_says_so_and_whose_cells_they_are(
    typed: Typed,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, carry_out, events = tmp_path / "run", study_run.carry_out, list[tuple[str, ...]]()

    def second(jobs: list[Job], *more: object) -> None:
        """Another command claims the job, and computes it."""
        monkeypatch.undo()
        monkeypatch.setattr(work, "WAIT", 0.0)
        with ExitStack() as other:
            other.enter_context(Store(run).claim(jobs[0].name))

            def send(event: tuple[str, ...]) -> None:
                events.append(event)
                other.pop_all().close() if len(events) > 2 else None

            with work._alone(jobs[0], send):
                pass
        assert typed(run) == 0
        carry_out(jobs, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(study_run, "carry_out", second)
    assert typed(run) == 0
    waits = "tiny on demo: another command has it; waiting"
    assert events == [("note", waits), ("wait",), ("wait",)]
    ours = "0 cells computed, 0 were there already, 1 computed by another command meanwhile, 0 skip"
    assert ours in capsys.readouterr().out


def test_one_file_of_weights_is_the_same_by_whatever_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run, words = tmp_path / "run", {"models": "limb6_rhythm", "tasks": "demo"}
    for name in ("w.safetensors", "copy.safetensors"):
        Path(name).write_bytes(b"these")
    Path("other.safetensors").write_bytes(b"others")

    def asked(file: str) -> Request:
        return RunOptions.of(weights=file, out=str(run), **words).study

    first = asked("w.safetensors")
    assert Store(run).add_request(first).fits[0].weights == "w.safetensors"
    for path in (str(tmp_path / "w.safetensors"), "copy.safetensors"):
        assert plan_of(asked(path)).cells == plan_of(first).cells
    with pytest.raises(BadSetting, match="this command has --weights"):
        Store(run).add_request(asked("other.safetensors"))


def test_a_death_names_the_log_of_its_job_whatever_was_printed(
    typed: Typed,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = "its process was killed by SIGKILL"
    monkeypatch.setattr(study_run, "_run", lambda how, jobs, show: [(jobs.popleft(), Died(reason))])
    assert typed(tmp_path / "run") == 1
    log = tmp_path / "run" / "logs" / "tiny.log"
    assert f"tiny · 12 · zero: {reason} (log: {log})" in capsys.readouterr().err


def test_an_encoder_that_moves_is_disqualified_every_time(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    norm = {"made": "self.norm = nn.BatchNorm1d(CARD.dim)", "before": "self.norm.train()"}
    restless = plug_in(tmp_path, "restless", **norm)
    for _ in range(2):  # the second time nothing of the first may be found
        assert typed(tmp_path / "run", "--models", f"{restless},{TINY}") == 1
        assert "the frozen encoder changed" in capsys.readouterr().err
    assert [p.parts[-4] for p in (tmp_path / "run" / "cells").rglob("DONE")] == ["tiny"]
    assert states(read(tmp_path / "run")) == {"restless 12 zero": "failed", "tiny 12 zero": "ok"}


@pytest.mark.parametrize("draw", ["record", "window"])
def test_all_models_see_the_same_leads(draw: str, typed: Typed, tmp_path: Path) -> None:
    """Networks whose feature is which rows are not blank, stored as the mean over the windows of a
    record.
    """
    masks = "found = torch.nn.functional.pad(signal.any(-1).float(), (0, CARD.dim - 12))"
    pair = [plug_in(tmp_path, name, after=masks) for name in ("one", "two")]
    run = tmp_path / "run"
    words = ("--models", ",".join(map(str, pair)), "--leads", "3")
    assert typed(run, *words, "--set", f"scoring.draw={draw}") == 0
    cells = [next((run / "cells" / "demo" / name).rglob("cell.json")) for name in ("one", "two")]
    (records, one), (others, two) = (
        read_pooled(run, json.loads(cell.read_text())["features"], cell.parent) for cell in cells
    )
    assert records == others
    one, two = one[:, :12], two[:, :12]
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one.sum(1), 3, atol=1e-6)
    whole = np.isin(one, (0, 1)).all(1)
    assert whole.all() if draw == "record" else whole.sum() < 2
    assert len(np.unique(one, axis=0)) > 5


@pytest.mark.long
def test_records_that_are_too_short_are_left_out_and_counted(
    typed: Typed, copies: Path, tmp_path: Path, ptbxl_copy: object
) -> None:
    root = ptbxl_copy.make(tmp_path / "data")  # type: ignore[attr-defined]
    short = ptbxl_copy.signal({"NORM": 100.0}, np.random.default_rng(0))[:, :1000]  # type: ignore[attr-defined]
    for record in (1, 30):  # of train and test; 2 s are no window of 2.5 s
        ptbxl_copy.write_record(root / "records500" / "00000" / f"{record:05d}_hr", short)  # type: ignore[attr-defined]
    run = tmp_path / "run"
    words = ("--data", str(tmp_path / "data"), "--prepared", str(tmp_path / "prepared"))
    words += ("--limit", "30")
    brief = plug_in(tmp_path, "brief", seconds="1")
    tasks = "ptbxl_super,ptbxl_all,ptbxl_rhythm,ptbxl_form"
    assert (
        typed(run, *words, "--tasks", tasks, "--models", f"{TINY},{brief}", "--leads", "12,I") == 0
    )
    study = read(run)
    by_model = study.cells.groupby("model")
    assert by_model["n_records"].unique().map(list).to_dict() == {"brief": [7], "tiny": [6]}
    assert by_model["excluded"].unique().map(list).to_dict() == {"brief": [0], "tiny": [2]}
    fits = [p.parent.relative_to(run / "fits") for p in (run / "fits").rglob("DONE")]
    assert sorted(str(p.parent) for p in fits) == [
        f"{t}/{m}" for t in ("ptbxl_all", "ptbxl_super") for m in ("brief", "tiny")
    ]
    whole, part = (
        pd.read_parquet(next((run / "cells" / t / "tiny" / "I").rglob("predictions.parquet")))
        for t in ("ptbxl_all", "ptbxl_rhythm")
    )
    assert part.shape[1] == 3 + 3 * 12  # probability, target and wins of each label
    pd.testing.assert_frame_equal(part, whole[part.columns])


MIXED = '''"""Mixed: a native network that takes one lead, or one window, for another."""

import torch
from torch import nn

from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.leads import LEADS
from ecgbench.models import Features

CARD = ModelCard(
    title="Mixed", summary="", paper="none", origin="a test", licence="MIT", parameters=4, dim=2,
    contracts=(
        InputContract(name="paper", fs=100, seconds=2.5, leads=LEADS, unit="mV", filter=None,
                      normalisation="none", fill="before", policy="native", absent="not given"),
    ),
    native=True, groups={"early": (), "late": ("weight",)},
)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def embed_leads(self, signal):
        windows, leads, time = signal.shape
        signal = SLIP
        return signal.unfold(-1, 50, 50).mean(-1)

    def encode(self, tokens, measured):
        kept = torch.where(measured[:, :, None], tokens, 0.0)
        pooled = torch.stack([kept.mean((1, 2)), kept.amax((1, 2))], 1)
        return Features(pooled[:, None], pooled)

    def forward(self, signal, measured):
        return self.encode(self.embed_leads(signal), measured)


def build(weights=None):
    return Mixed()
'''


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ("signal", ""),
        ("signal.roll(1, 1)", "other features than forward at lead I"),
        ("signal.transpose(0, 1).reshape(windows, leads, time)", "of three windows in one batch"),
    ],
)
def test_an_embedding_that_mixes_windows_or_leads_fails_the_run(
    typed: Typed, tmp_path: Path, slip: str, said: str
) -> None:
    plugin = tmp_path / "mixed.py"
    plugin.write_text(MIXED.replace("SLIP", slip))
    words = ("--models", str(plugin), "--weights", "random", "--leads", "I")
    assert typed(tmp_path / "run", *words) == bool(said)
    (row,) = read(tmp_path / "run").cells.itertuples()
    assert row.status == ("failed" if said else "ok")
    assert said in row.reason


def test_a_gpu_that_is_not_there_is_one_line_before_anything_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(Path, "exists", lambda self: False)
    with pytest.raises(BadSetting, match="--device cuda:1: no NVIDIA GPU answers on this machine"):
        demand(choose("cuda:1"))
    demand(choose("auto"))
