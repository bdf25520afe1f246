"""Studies of narrow networks on a few waves: paired, interrupted, extended, swept."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from ecgbench import reports
from ecgbench.core.files import read_proved
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate.gates import GateError
from ecgbench.layers.encodings import LeadEncoding
from ecgbench.models import laef
from ecgbench.pretrain import ablate, ablation, probes, studies
from ecgbench.pretrain import recipe as recipes
from ecgbench.pretrain.ablate import Budget
from ecgbench.pretrain.lead_sampling import READINGS
from ecgbench.pretrain.objective import MaskedNodes, new_network
from ecgbench.pretrain.probes import TRAINING, head
from ecgbench.pretrain.run import Session
from ecgbench.pretrain.studies import Cell, Study
from tests.waves import Follower, Stop, data

pytestmark = pytest.mark.usefixtures("one_thread")
NARROW = (("blocks", 1), ("width", 32))


def cell(name: str, model: str = "laef", probe: probes.Kind = "frozen", **more: Any) -> Cell:
    changes: dict[str, Any] = {"model": model, "shape": NARROW}
    return Cell(name=name, changes=changes | more, probe=probe)


def study(*cells: Cell, **more: Any) -> Study:
    usual = {"name": "mine", "title": "Mine", "summary": "mine", "published": "mask_ratio"}
    return Study(**{**usual, "reference": cells[0].name, "cells": cells, **more})


TWO = study(cell("gat"), cell("gin", "laef_gin"))
ENCODED = (("blocks", 1), ("encodings", ("lead",)), ("width", 32))
SECOND = study(
    cell("3/0", refined=(3,), edge_drop=0.0), cell("4/0.2", refined=(4,), edge_drop=0.2), stage=2
)


def budget(**changes: Any) -> Budget:
    recipe = recipes.get("smoke").changed({"batch": 2, "codes": (3,), "refined": (4,)})
    usual = {"recipe": recipe, "steps": 4, "rates": (1e-3,), "seeds": 2}
    return Budget(**{**usual, "records": None, "epochs": 3, **changes})


def made(
    out: Path,
    of: Study = TWO,
    at: str = "",
    only: tuple[Cell, ...] = (),
    **changes: Any,
) -> Follower:
    found = data()
    follower = Follower(at)
    session = Session(
        out=out, device="cpu", name="here", progress=follower, listener=follower.listener
    )
    ablate.run(of, budget(**changes), (found, ("odd", "even")), session, only)
    return follower


def tables(out: Path, to: Path) -> dict[str, bytes]:
    """Every table of the report."""
    reports.write(reports.read(out), to)
    found = {p.name: p.read_bytes() for p in sorted(to.iterdir()) if p.suffix in (".csv", ".md")}
    assert {"ablation.csv", "cells.md"} <= {*found}
    assert ("ablation_differences.csv" in found) != ("ablation_lead_sampling.csv" in found)
    return found


@pytest.fixture(scope="module", autouse=True)
def _frequent() -> Iterator[None]:
    """A checkpoint after every other step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ecgbench.pretrain.ablate.CHECKPOINT", 2)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "study"
    made(out)
    return out


@pytest.mark.parametrize(
    "at",
    [
        "gat seed 0 lr 0.001, step 4",
        *(
            pytest.param(at, marks=pytest.mark.long)
            for at in ("stage 1, codebook", "gat seed 0 lr 0.001, frozen")
        ),
    ],
)
def test_an_interruption_anywhere_changes_no_byte_of_a_table(
    tmp_path: Path, whole: Path, at: str
) -> None:
    with pytest.raises(Stop):
        made(tmp_path / "cut", at=at)
    made(tmp_path / "cut")
    assert tables(tmp_path / "cut", tmp_path / "a") == tables(whole, tmp_path / "b")


def test_some_cells_then_all_and_more_seeds_are_all_at_once(tmp_path: Path, whole: Path) -> None:
    out = tmp_path / "study"
    made(out, only=TWO.cells[1:], seeds=1)
    assert "1 cell of 2 not trained yet" in reports.read(out).open
    told = made(out)
    assert not [line for line in told.said if line.startswith("gin seed 0")]
    assert tables(out, tmp_path / "a") == tables(whole, tmp_path / "b")


@pytest.mark.long
def test_trainings_of_another_study_are_not_taken_over(tmp_path: Path, whole: Path) -> None:
    """Copied from a folder whose networks were probed otherwise: other names."""
    here, there = tmp_path / "here", tmp_path / "there"
    made(there, epochs=2)
    for name in ("codebooks", "trainings"):
        shutil.copytree(there / name, here / name)
    made(here)
    assert tables(here, tmp_path / "a") == tables(whole, tmp_path / "b")


def test_a_cell_that_fails_does_not_stop_the_others(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tests.waves.Stop", GateError)
        with pytest.raises(GateError):
            made(tmp_path / "study", at="gat seed 0 lr 0.001, step 3")
    cells = ablation.read(tmp_path / "study").cells
    assert {name: [*cell.scores] for name, cell in cells.items()} == {"gat": [1], "gin": [0, 1]}
    made(tmp_path / "study")
    assert tables(tmp_path / "study", tmp_path / "a") == tables(whole, tmp_path / "b")


def test_a_learning_rate_at_which_training_fails_is_not_chosen(tmp_path: Path) -> None:
    made(tmp_path, rates=(1e30, 1e-3), seeds=1)
    found = ablation.read(tmp_path)
    assert {*map(tuple, found.rates.values())} == {("0.001",)}
    assert {cell.name: [*cell.scores] for cell in found.cells.values()} == {"gat": [0], "gin": [0]}
    with pytest.raises(GateError):
        made(tmp_path / "none", rates=(1e30, 1e31), seeds=1)
    assert not (tmp_path / "none" / ablation.CELLS).exists()


def test_cells_that_differ_in_the_probe_share_a_training(tmp_path: Path) -> None:
    both = study(cell("lead*", shape=ENCODED), cell("lead", probe="lead", shape=ENCODED))
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    made(whole, both, seeds=1)
    made(cut, both, only=both.cells[:1], seeds=1)
    assert not [line for line in made(cut, both, seeds=1).said if ", step" in line]
    assert tables(cut, tmp_path / "a") == tables(whole, tmp_path / "b")


def test_cells_of_a_seed_meet_the_same_windows_masks_codes_and_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: dict[str, list[Tensor]] = {}
    forward = MaskedNodes.forward

    def listen(self: MaskedNodes, *given: Tensor) -> Any:
        name = type(self.encoder.blocks[0].attention).__name__  # type: ignore[union-attr, index]
        met.setdefault(name, []).extend(t.clone() for t in given if t is not None)
        return forward(self, *given)

    monkeypatch.setattr(MaskedNodes, "forward", listen)
    made(tmp_path)
    ours, theirs = met["GATv2"], met["Gin"]
    assert len(ours) == len(theirs) == 2 * 4 * 4
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs))
    assert not torch.equal(ours[0], ours[len(ours) // 2])


def test_cells_of_stage_2_share_one_stage_1_and_begin_with_it(tmp_path: Path) -> None:
    told = made(tmp_path, SECOND)
    trained = [line for line in told.said if line.endswith("step 4")]
    assert len([line for line in trained if line.startswith("stage 1")]) == 2
    assert len(trained) == 2 + 2 * 2
    found = ablation.read(tmp_path)
    first, second = found.cells.values()
    assert {s: v[0] for s, v in first.scores.items()} == {s: v[0] for s, v in second.scores.items()}


def test_another_budget_needs_another_folder(tmp_path: Path, whole: Path) -> None:
    for changes in ({"steps": 5}, {"epochs": 2}, {"rates": (1e-3, 1e-4)}):
        with pytest.raises(BadSetting, match="it differs in budget; choose another --out"):
            made(whole, **changes)
    with pytest.raises(BadSetting, match="a codebook of 9999 codes from 5 recordings"):
        made(tmp_path / "x", study(cell("many", codes=(9999,)), cell("few")))
    assert not (tmp_path / "x" / "ablation.json").exists()


def test_of_several_rates_each_cell_takes_the_best_at_a_seed_of_its_own(tmp_path: Path) -> None:
    told = made(tmp_path, rates=(1e-3, 1e-1), seeds=1)
    found = ablation.read(tmp_path)
    assert {*found.rates} == {"gat", "gin"}
    for name, scores in found.rates.items():
        assert {*scores} == {"0.001", "0.1"}
        assert found.cells[name].lr == float(max(scores, key=lambda rate: scores[rate]))
        assert [*found.cells[name].scores] == [0]
    swept = [line for line in told.said if "seed 1000" in line and line.endswith("step 4")]
    assert len(swept) == 4


def test_what_was_altered_is_found_out_and_made_again(tmp_path: Path, whole: Path) -> None:
    out = tmp_path / "study"
    made(out)
    row = ablation.read(out).cells["gat"].scores
    damaged = next(out.glob("trainings/*/frozen_000004.npy"))
    array = np.load(damaged)
    np.save(damaged, array[:, ::-1])
    with pytest.raises(BadWeights, match=r"frozen_000004\.npy is not what was written"):
        ablation.read(out)
    made(out)
    assert ablation.read(out).cells["gat"].scores == row
    assert tables(out, tmp_path / "a") == tables(whole, tmp_path / "b")


def test_labels_that_were_altered_or_are_gone_are_found_out_and_written_again(
    tmp_path: Path, whole: Path
) -> None:
    out = tmp_path / "study"
    shutil.copytree(whole, out)
    path = out / ablation.RECORDS
    table = pd.read_parquet(path)
    table.assign(odd=table["even"], even=table["odd"]).to_parquet(path)
    with pytest.raises(BadWeights, match=r"records\.parquet is not what was written"):
        ablation.read(out)
    for damage in (lambda: None, lambda: path.write_bytes(b"PAR1"), path.unlink):
        damage()
        made(out)
        assert tables(out, tmp_path / "a") == tables(whole, tmp_path / "b")


def test_files_of_another_training_are_found_out_and_made_again(
    tmp_path: Path, whole: Path
) -> None:
    """Two folders of trainings that were exchanged, as a copy by hand may do."""
    out = tmp_path / "study"
    shutil.copytree(whole, out)
    one, other = sorted((out / "trainings").iterdir())[:2]
    one.rename(aside := out / "aside")
    other.rename(one)
    aside.rename(other)
    with pytest.raises(BadWeights, match="has files of another training or study"):
        ablation.read(out)
    made(out)
    assert tables(out, tmp_path / "a") == tables(whole, tmp_path / "b")


@pytest.mark.long
def test_what_a_probe_wrote_before_its_training_ended_is_made_again(
    tmp_path: Path, whole: Path
) -> None:
    """In place of the probabilities after half of the steps those of before the first one."""
    with pytest.raises(Stop):
        made(tmp_path / "cut", at="gat seed 0 lr 0.001, step 3")
    (half,) = (tmp_path / "cut").glob("trainings/*/frozen_000002.npy")
    half.write_bytes(half.with_name("frozen_000000.npy").read_bytes())
    made(tmp_path / "cut")
    assert tables(tmp_path / "cut", tmp_path / "a") == tables(whole, tmp_path / "b")


def encoded() -> Any:
    torch.manual_seed(3)
    return new_network("laef", ENCODED).eval()


def test_a_probe_that_may_not_move_the_leads_is_the_frozen_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it learns their vectors, those alone, and leaves the network that it was given."""
    net, task = encoded(), data(8).development
    before = {k: v.clone() for k, v in net.state_dict().items()}
    frozen = probes.measured("frozen", net, task, 5)
    moved: list[str] = []
    train = probes.train

    def look(module: Any, *rest: Any) -> Any:
        start = {k: v.clone() for k, v in module.state_dict().items()}
        done = train(module, *rest)
        moved.extend(k for k, v in module.state_dict().items() if not torch.equal(v, start[k]))
        return done

    monkeypatch.setattr(probes, "train", look)
    learned = probes.measured("lead", net, task, 5)
    assert sorted(moved) == ["encoder.encodings.0.table.weight", "head.bias", "head.weight"]
    assert abs(learned.probability - frozen.probability).max() > 1e-4
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())

    def still(self: LeadEncoding, wanted: bool = True) -> LeadEncoding:
        return torch.nn.Module.requires_grad_(self, False)

    monkeypatch.setattr(LeadEncoding, "requires_grad_", still)
    alone = probes.measured("lead", net, task, 5)
    np.testing.assert_allclose(alone.probability, frozen.probability, atol=1e-5)


def test_single_leads_are_read_alone_and_among_absent_ones() -> None:
    """Against the network's own forward pass, with the head of the frozen probe."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = laef.Laef(laef.LaefConfig(**dict(NARROW))).eval()  # type: ignore[arg-type]
    task = data(8).development
    found = probes.measured("readings", net, task, 5)
    frozen = probes.measured("frozen", net, task, 5)
    assert (found.score, found.probability.shape) == (frozen.score, (25, 4, 2))
    assert (found.probability[0] == frozen.probability).all()
    weight, bias, _ = head(net, task, 0, replace(TRAINING, epochs=5))
    signal = torch.from_numpy(task.check.signal)
    for lead in range(12):
        alone = torch.zeros(len(signal), 12, dtype=torch.bool)
        alone[:, lead] = True
        flat = torch.where(alone[..., None], signal, -1.0)
        for place, given in ((1, (signal, alone)), (13, (flat, torch.ones_like(alone)))):
            with torch.no_grad():
                logits = net(*given).pooled.numpy() @ weight.T + bias
            own = found.probability[place + lead]
            np.testing.assert_allclose(own, 1 / (1 + np.exp(-logits)), rtol=1e-4)


@pytest.mark.long
def test_the_study_of_lead_sampling_shows_all_leads_or_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells begin alike and see the same recordings, windows and hidden nodes."""
    of = studies.get("lead-sampling")
    cells = [replace(c, changes={**c.changes, "shape": NARROW}) for c in of.cells]
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    forward = MaskedNodes.forward

    def listen(self: MaskedNodes, *given: Tensor) -> Any:
        seen.append(given[:3])  # type: ignore[arg-type]
        return forward(self, *given)

    monkeypatch.setattr(MaskedNodes, "forward", listen)
    made(tmp_path, of=replace(of, cells=tuple(cells)), seeds=1, steps=7, parts=of.parts)
    some, every = seen[:7], seen[7:]
    for (x, shown, hidden), (y, all_shown, all_hidden) in zip(some, every, strict=True):
        assert torch.equal(x, y)
        assert all_shown.all()
        assert not shown.all()
        assert torch.equal(hidden, all_hidden & shown[..., None])
    found = reports.read(tmp_path)
    steps = {key.step for key in found.readings}
    # none, half, 13 of 24 parts (as many leads shown as the other cell by then), all
    assert steps == {0, 3, 4, 7}
    before = [
        found.readings[cell, 0, reading].by_seed for cell in ("some", "all") for reading in READINGS
    ]
    assert before[:3] == before[3:]
    tables(tmp_path, tmp_path / "report")
    table = pd.read_csv(tmp_path / "report" / "ablation_lead_sampling.csv")
    assert len(table) == len(found.contrasts) == 10
    for row, contrast in zip(table.to_dict("records"), found.contrasts, strict=True):
        assert (row["contrast"], row["evidence"]) == (contrast.name, contrast.evidence)
        assert row["difference"] == pytest.approx(contrast.value, abs=1e-12)


def test_a_killed_study_ends_with_the_same_tables(
    tmp_path: Path, whole: Path, kill_when: Callable[..., None]
) -> None:
    """SIGKILL between the steps of a training, after its first checkpoint."""
    out = tmp_path / "study"
    kill_when(lambda *places: made(places[0]), out, _second_training(whole, out))
    made(out)
    assert tables(out, tmp_path / "a") == tables(whole, tmp_path / "b")


def _second_training(whole: Path, out: Path) -> Path:
    """A file of the second training of TWO: its folder follows from what decides it."""
    listed = read_proved(whole / ablation.CELLS) or {}
    return out / "trainings" / listed["gin"]["0"]["training"][:24] / "stage1" / "curve.csv"
