import csv
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate.gates import GateError
from ecgbench.models import laef
from ecgbench.pretrain import batches, checkpoint, collapse, masking
from ecgbench.pretrain.collapse import Collapse, nodes_alike, nothing_learnt
from ecgbench.pretrain.corpus import Corpus
from ecgbench.pretrain.curve import Point, Report, at_intervals
from ecgbench.pretrain.exclusion import LeakCheck, Name
from ecgbench.pretrain.objective import MaskedLoss, MaskedNodes
from ecgbench.pretrain.stage import Execution, Stage, run
from tests.waves import Stop, waves

pytestmark = pytest.mark.usefixtures("one_thread")
SEED = 568
"""Under which records show few leads."""
CODES = (5, 3)


class Levels:
    """Codes by the mean of each segment."""

    digest = "levels"

    def __call__(self, signal: Tensor) -> Tensor:
        level = (signal.unflatten(-1, (20, 25)).mean(-1) + 1) / 2
        return torch.stack([(level * size).long().clamp(0, size - 1) for size in CODES])


def model(dropout: bool = True) -> MaskedNodes:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = MaskedNodes(laef.Laef(laef.LaefConfig(width=64)), CODES)
    if not dropout:
        for block in made.encoder.blocks:
            block.dropout = block.attention.dropout = 0.0  # type: ignore[assignment, union-attr]
    return made


def corpus(records: int = 7) -> Corpus:
    names = [Name("demo", f"r{i}") for i in range(records)]
    return Corpus(
        LeakCheck({"demo": [n.record for n in names]}, {200: 10}),
        dict.fromkeys(names, 600),
        waves,
        contract=laef.CARD.contracts[0],
    )


def short(**changes: Any) -> Stage:
    """Five steps of three records in float32."""
    usual = {
        "steps": 5,
        "batch": 3,
        "precision": "float32",
        "edge_drop": 0.2,
        "seed": SEED,
        "checkpoint_every": 2,
        "probe_every": 3,
    }
    return Stage(**usual | changes)


def results(curve: list[Point]) -> list[Any]:
    return [(p.step, p.loss, p.accuracy, p.nodes) for p in curve]


def table(folder: Path) -> list[Any]:
    """The curve as the CSV has it."""
    with (folder / "curve.csv").open() as file:
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    return [
        (int(r["step"]), r["loss"], (r["accuracy_1"], r["accuracy_2"]), int(r["nodes"]))
        for r in rows
    ]


def same(a: MaskedNodes, b: MaskedNodes) -> bool:
    return all(
        torch.equal(x, y)
        for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def stopping(at: int) -> Callable[[Report], None]:
    def listen(report: Report) -> None:
        if report.step == at:
            raise Stop

    return listen


def by_hand(net: MaskedNodes, data: Corpus) -> Iterator[tuple[masking.Draw, MaskedLoss]]:
    """What each step shows and its loss, whose gradient is in the network's parameters."""
    made = batches.Batches(corpus=data, seed=SEED, batch=3, micro=3, ratio=0.4, edge_drop=0.2)
    for step in itertools.count():
        drawn = masking.draw(SEED, step, range(3), 0.4, 0.2)
        signal = torch.from_numpy(data.cut(made.rows(step), made.starts(step)))
        assert drawn.dropped is not None
        tensors = [torch.from_numpy(a) for a in (drawn.measured, drawn.masked, drawn.dropped)]
        found = net(signal, *tensors[:2], Levels()(signal), tensors[2])
        net.zero_grad()
        found.loss.backward()
        yield drawn, found


@pytest.mark.parametrize("adamw", [False, True])
def test_equals_a_plain_torch_loop(adamw: bool, tmp_path: Path) -> None:
    """In passes of two records and one; the weight decay is coupled unless it is AdamW's."""
    data, trained = corpus(), model(dropout=False)
    stage = short(steps=3, micro=2, adamw=adamw, weight_decay=0.1, lr=1e-3)
    curve = run(stage, trained, data, Levels(), Execution(folder=tmp_path))
    plain = model(dropout=False).train()
    kind = torch.optim.AdamW if adamw else torch.optim.Adam
    optimiser = kind(plain.parameters(), lr=1e-3, weight_decay=0.1)
    for point, (drawn, found) in zip(curve, by_hand(plain, data), strict=False):
        optimiser.step()
        assert point.loss == pytest.approx(found.loss.item(), abs=1e-5)
        assert point.accuracy == pytest.approx((found.correct / found.nodes).tolist())
        assert point.nodes == 8 * drawn.measured.sum()
    for (name, a), b in zip(trained.state_dict().items(), plain.state_dict().values()):
        # Adam moves a weight by the sign of its gradient: where that is rounding alone, so is the
        # sign
        assert (a - b).abs().gt(1e-4).double().mean() < 1e-3, name


def test_warm_up_falling_rate_and_clipping_are_those_of_torch(tmp_path: Path) -> None:
    data, trained = corpus(), model(dropout=False)
    stage = short(steps=6, lr=3e-3, warmup=2, decay="cosine", clip=0.05)
    curve = run(stage, trained, data, Levels(), Execution(folder=tmp_path))
    plain = model(dropout=False).train()
    optimiser = torch.optim.Adam(plain.parameters(), lr=3e-3, weight_decay=1e-3)
    rising = torch.optim.lr_scheduler.LinearLR(optimiser, 0.5, 1.0, 1)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 4)
    clipped = 0
    for step, (point, (_, found)) in enumerate(zip(curve, by_hand(plain, data), strict=False)):
        clipped += float(torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.05)) > 0.05
        optimiser.step()
        (rising if step < 1 else falling).step()
        assert point.loss == pytest.approx(found.loss.item(), abs=1e-5)
    assert clipped
    assert stage.rate(6) == 0


def test_a_falling_rate_has_one_last_step(tmp_path: Path) -> None:
    """Such a stage cannot be prolonged; one of a constant rate can."""
    place = Execution(folder=tmp_path)
    run(short(steps=3, decay="cosine"), model(), corpus(), Levels(), place)
    with pytest.raises(BadSetting, match="differs in steps"):
        run(short(steps=5, decay="cosine"), model(), corpus(), Levels(), place)


def test_a_collapse_ends_a_stage_and_the_checkpoint_is_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a rate that makes all nodes equal within ten steps; the same again says the same, and the
    alarm can be put off. It waits some steps until it looks.
    """
    stage = short(lr=1e-2, steps=12, checkpoint_every=2, probe_every=100)
    run(stage, model(), corpus(), Levels(), Execution(folder=tmp_path / "short"))
    monkeypatch.setattr(collapse, "EVERY", 2)
    place = Execution(folder=tmp_path)
    with pytest.raises(
        Collapse, match=r"collapses at step \d+: the mean cosine of nodes"
    ) as raised:
        run(stage, model(), corpus(), Levels(), place)
    step = int(re.search(r"at step (\d+)", str(raised.value))[1])  # type: ignore[index]
    assert step <= 12
    assert f"the checkpoint of step {step - 2} is in {tmp_path}" in str(raised.value)
    header = checkpoint.header_of((tmp_path / checkpoint.FILE).read_bytes(), tmp_path)
    assert header["step"] == step - 2
    trained = model()
    held = run(replace(stage, steps=step - 2), trained, corpus(), Levels(), place)
    assert (len(held), nodes_alike(trained, signals())) == (step - 2, "")
    with pytest.raises(Collapse, match=f"collapses at step {step}"):
        run(stage, model(), corpus(), Levels(), place)
    collapsed = model()
    run(stage, collapsed, corpus(), Levels(), replace(place, alarm=False))
    assert "nodes behind" in nodes_alike(collapsed, signals())


def signals() -> Tensor:
    data = corpus()
    return torch.from_numpy(data.cut(np.arange(7), np.zeros(7, int)))


def test_a_loss_at_the_entropy_of_the_codes_is_nothing_learnt() -> None:
    """Late enough after the warm-up; the network of a stage is asked for both signs."""

    def curve(*losses: tuple[int, float]) -> list[Point]:
        values = [loss for count, loss in losses for _ in range(count)]
        return [Point(i, loss, (0.1,), 8, 0.1, 0.0) for i, loss in enumerate(values, 1)]

    assert "3.880, and 3.884 is the entropy" in nothing_learnt(curve((200, 3.88)), 3.884, 0)
    assert nothing_learnt(curve((199, 3.88)), 3.884, 0) == ""
    assert nothing_learnt(curve((200, 3.88)), 3.884, 1) == ""
    assert nothing_learnt(curve((200, 3.88), (100, 3.7)), 3.884, 0) == ""
    assert nothing_learnt(curve((200, 3.88)), None, 0) == ""
    assert "entropy of the codes" in collapse.warning(model(), signals(), curve((200, 1.0)), 1.0, 0)
    assert collapse.warning(model(), signals(), curve((200, 0.9)), 1.0, 0) == ""


def test_an_interrupted_stage_resumes_to_the_same_curve_and_weights(tmp_path: Path) -> None:
    """With dropout and dropped edges; stopped before the first checkpoint, between two and just
    before the last.
    """
    whole, heard = model(), list[tuple[int, bool]]()
    place = Execution(
        folder=tmp_path / "whole", probe=lambda step, m: heard.append((step, m.training))
    )
    curve = run(short(), whole, corpus(), Levels(), place)
    assert [p.step for p in curve] == [1, 2, 3, 4, 5]
    assert heard == [(3, False), (5, False)]
    assert not whole.training
    assert table(place.folder) == results(curve)
    broken = replace(place, folder=tmp_path / "broken")
    for at in (1, 3, 5):
        torch.manual_seed(at)
        before = torch.get_rng_state()
        with pytest.raises(Stop):
            run(short(), model(), corpus(), Levels(), replace(broken, listener=stopping(at)))
        assert torch.equal(before, torch.get_rng_state())
    again = model()
    resumed = run(short(), again, corpus(), Levels(), broken)
    assert results(resumed) == results(curve) == table(broken.folder)
    assert same(again, whole)
    assert list(broken.folder.glob(".*")) == []

    shorter, prolonged = model(), model()
    run(short(steps=3), shorter, corpus(), Levels(), Execution(folder=tmp_path / "shorter"))
    assert not same(shorter, whole)
    assert results(
        run(short(), prolonged, corpus(), Levels(), Execution(folder=tmp_path / "shorter"))
    ) == results(curve)
    assert same(prolonged, whole)


def test_a_checkpoint_is_never_overwritten_by_another_stage(tmp_path: Path) -> None:
    place, short_ = Execution(folder=tmp_path), short(steps=1)
    curve = run(short_, model(), corpus(), Levels(), place)
    path = tmp_path / "checkpoint.safetensors"
    content = path.read_bytes()
    finished = model()
    assert run(short_, finished, corpus(), Levels(), place) == curve
    other = Levels()
    other.digest = "others"
    changed = model()
    torch.nn.init.zeros_(changed.mask)
    for told, stage, network, data, labeller in (
        ("seed", replace(short_, seed=1), model(), corpus(), Levels()),
        ("batch, micro", replace(short_, batch=2), model(), corpus(), Levels()),
        ("edge_drop", replace(short_, edge_drop=0), model(), corpus(), Levels()),
        ("weights", short_, changed, corpus(), Levels()),
        ("corpus", short_, model(), corpus(8), Levels()),
        ("labels", short_, model(), corpus(), other),
    ):
        with pytest.raises(BadSetting, match=f"differs in {told};"):
            run(stage, network, data, labeller, place)
    path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    with pytest.raises(BadWeights, match="has changed since it was written"):
        run(short_, model(), corpus(), Levels(), place)
    path.write_bytes(content[:-9])
    with pytest.raises(BadWeights, match="cannot be read as a checkpoint"):
        run(short_, model(), corpus(), Levels(), place)
    assert len(path.read_bytes()) == len(content) - 9


def test_progress_says_what_a_person_wants_to_know() -> None:
    """The first report, the last one, and one every so many seconds between."""
    noted = list[str]()
    listen = at_intervals(noted.append)
    for step in range(1, 6):
        listen(Report(step, 5, 2.5, (0.25, 0.5), 5230.4, 0.014, 11_400))
    assert len(noted) == 2
    assert noted[0] == (
        "step 1/5: loss 2.5000, masked accuracy 0.250/0.500, 5230 records/s, 1% of the time "
        "waiting for data, 3 h 10 min left"
    )


def test_bf16_stays_near_float32(tmp_path: Path) -> None:
    exact, rough, network = *(short(steps=2, precision=p) for p in ("float32", "bf16")), model()
    curves = [
        run(stage, m, corpus(), Levels(), Execution(folder=tmp_path / stage.precision))
        for stage, m in ((exact, model()), (rough, network))
    ]
    losses = np.array([[p.loss for p in curve] for curve in curves])
    assert not np.array_equal(*losses)
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.05)
    assert all(v.dtype == torch.float32 for v in network.state_dict().values())


def test_what_cannot_go_on_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GateError, match="loss is nan in step 2"):
        run(
            short(lr=1e30, checkpoint_every=5),
            model(),
            corpus(),
            Levels(),
            Execution(folder=tmp_path),
        )
    assert not (tmp_path / "checkpoint.safetensors").exists()
    for wrong in ({"ratio": 0.0}, {"batch": 0}, {"micro": 0}, {"lr": -1.0}, {"edge_drop": 1.0}):
        with pytest.raises(BadSetting):
            short(**wrong)

    def hungry(self: MaskedNodes, *words: Tensor) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(MaskedNodes, "forward", hungry)
    with pytest.raises(BadSetting, match="3 records per pass; set micro=1"):
        run(short(batch=448), model(), corpus(3), Levels(), Execution(folder=tmp_path))


def several(folder: Path) -> None:
    """What each process of the next test runs: with dropout, three passes of one record over two
    processes, resumed after two steps.
    """
    rank = os.environ.get("RANK", "alone")
    place = Execution(folder=folder / ("shared" if rank != "alone" else "alone"))
    stage = short(steps=4, micro=1, checkpoint_every=1, probe_every=1)

    def stop(step: int, network: MaskedNodes) -> None:
        if step == 2:
            raise Stop

    with pytest.raises(Stop):
        run(stage, model(), corpus(), Levels(), replace(place, probe=stop))
    network = model()
    if rank == "1":
        torch.nn.init.zeros_(network.mask)  # the first process's weights count
    curve = run(stage, network, corpus(), Levels(), place)
    sums = {k: v.double().square().sum().item() for k, v in network.state_dict().items()}
    (folder / f"rank{rank}.json").write_text(json.dumps({"curve": results(curve), "weights": sums}))


@pytest.mark.long
def test_two_processes_train_as_one(tmp_path: Path, two_processes: Callable[[str], None]) -> None:
    several(tmp_path)
    two_processes(__file__)
    alone, first, second = (
        json.loads((tmp_path / f"rank{r}.json").read_text()) for r in ("alone", "0", "1")
    )
    assert first == second
    assert [p[3] for p in first["curve"]] == [p[3] for p in alone["curve"]]
    np.testing.assert_allclose(
        [p[1] for p in first["curve"]], [p[1] for p in alone["curve"]], atol=1e-5
    )
    np.testing.assert_allclose(
        [p[2] for p in first["curve"]], [p[2] for p in alone["curve"]], atol=0.01
    )
    for name, value in alone["weights"].items():
        assert first["weights"][name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
    shared = [p.name for p in (tmp_path / "shared").iterdir()]
    assert sorted(shared) == ["checkpoint.safetensors", "curve.csv"]
