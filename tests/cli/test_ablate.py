"""`ecgbench ablate` as a person types it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecgbench.pretrain import estimate
from ecgbench.pretrain.estimate import Rates

pytestmark = pytest.mark.usefixtures("one_thread")
Typed = Callable[..., tuple[int, str, str]]
_TYPED = "--set recipe=smoke --set steps=2 --set batch=2 --set probe_epochs=3 --set records=10"
SMALL = (*_TYPED.split(), "--device", "cpu")


@pytest.fixture
def ablate(here: Callable[..., Any], tmp_path: Path) -> Typed:
    """ablate(*words): exit code, output, errors."""

    def run(*words: object) -> tuple[int, str, str]:
        done = here("ablate", *words, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.long
def test_a_study_in_small_ends_with_a_report_that_goes_on(
    tmp_path: Path, ablate: Typed, copies: Path
) -> None:
    out = tmp_path / "study"
    words = ("encoders", *SMALL, "--seeds", "1", "--prepared", copies, "--out", out)
    words += ("--set", "micro_batch=1", "--set", "precision=bf16")
    code, told, said = ablate(*words, "--only", "MLP/none")
    assert code == 0, said
    budget = json.loads((out / "ablation.json").read_text())["budget"]
    for stage in budget["stages"]:
        assert (stage["batch"], stage["micro"], stage["precision"]) == (2, 1, "bf16")
    assert "10 recordings of demo to train on" in said
    assert str(out / "report" / "index.html") in told
    page = (out / "report" / "index.html").read_text()
    assert "At this budget the order is not evidence." in page
    assert "10 cells of 11 not trained yet" in page
    assert "Recordings of the demo are computed" in page
    code, _, said = ablate(*words, "--only", "mlp/none,gin/spatiotemporal")
    assert code == 0, said
    assert "mlp/none seed 0" not in said
    rows = (out / "report" / "ablation.csv").read_text().splitlines()
    scored = [row.split(",")[0] for row in rows[1:] if row.split(",")[2]]
    assert scored == ["gin/spatiotemporal", "mlp/none"]
    code, _, said = ablate(*words, "--only", "mlp/none", "--set", "steps=3")
    assert (code, "it differs in budget; choose another --out" in said) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("encoder",), "unknown study 'encoder'; did you mean encoders"),
        (("encoders", "--only", "gat"), "unknown cell of encoders 'gat'"),
        (("encoders", "--set", "recipe=smal"), "unknown recipe 'smal'; did you mean small"),
        (("layers", "--set", "lr=1e-4,x"), "--set lr=1e-4,x: numbers"),
        (("layers", "--set", "lr=0"), "lr=0.0"),
        (("layers", "--set", "probe_records=-5"), "learns from -5 recordings"),
        (("layers", "--set", "steps=0"), "--set steps=0: 1 or more"),
        (("layers", "--data", "/nowhere"), "/nowhere"),
    ],
)
def test_bad_words_give_one_line(
    tmp_path: Path, ablate: Typed, words: tuple[str, ...], said: str
) -> None:
    code, _, told = ablate(*words, "--out", tmp_path / "out")
    assert code == 2, told
    assert said in told.splitlines()[-1]
    assert not list(tmp_path.glob("out/*"))


def test_a_dry_run_tells_cells_hours_and_what_is_not_reproduced(
    tmp_path: Path, ablate: Typed, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each training costs 2 steps of 2 recordings at 900 s, each of the three seeds once."""
    some = Rates(training=900, probe=0, network=1)
    monkeypatch.setattr(estimate, "rates", lambda *_: some)
    words = ("--seeds", "3", "--prepared", copies, "--out", tmp_path / "out", "--dry-run")
    code, told, said = ablate("encoders", *SMALL, *words)
    assert code == 0, said
    cells = [line for line in told.splitlines() if line.startswith("  ")]
    assert len(cells) == 11
    assert f"time        about {11 * 3 * 2 * 2 * 900 / 3600:.2f} h on cpu" in told
    assert "not reproduced: sheaf_attention_v2/spatiotemporal" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("study", "trainings"), [("encodings", 4), ("stage2", 10 + 1)])
def test_a_dry_run_counts_a_training_once_that_cells_share(
    study: str,
    trainings: int,
    tmp_path: Path,
    ablate: Typed,
    copies: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cells that differ in their probe alone, and those that go on from one stage 1; of several
    rates each is tried once more.
    """
    some = Rates(training=900, probe=0, network=1)
    monkeypatch.setattr(estimate, "rates", lambda *_: some)
    words = ("--prepared", copies, "--out", tmp_path / "out", "--dry-run", "--set")
    for rates, seeds in (("1e-4", 3), ("1e-4,1e-3", 3 + 2)):
        code, told, said = ablate(study, *SMALL, *words, f"lr={rates}")
        assert code == 0, said
        hours = trainings * seeds * 2 * 2 * 900 / 3600
        assert f"time        about {hours:.2f} h on cpu" in told
