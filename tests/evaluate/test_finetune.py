import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from ecgbench.cards.cell import Fit, Training
from ecgbench.cards.model import ModelCard, reference_feeding
from ecgbench.core.seeds import rng
from ecgbench.ecg.draw import training_leads
from ecgbench.ecg.leads import ALL, LEADS
from ecgbench.evaluate import gates, loop, tuning
from ecgbench.evaluate.evaluation import Evaluation
from ecgbench.evaluate.rows import Record
from ecgbench.models import Features
from ecgbench.policies.hide import Policy
from ecgbench.policies.zero import fill

SAMPLES = 40
ZERO, NATIVE = Policy("zero", fill), Policy("native", None)
CONTRACT = reference_feeding(fs=10, seconds=4, leads=LEADS)
GROUPS = {"early": ("first.", "spare."), "late": ("second.", "norm.")}
FACTS: Any = {"title": "Small", **dict.fromkeys(("summary", "paper", "origin", "licence"), "")}
CARD = ModelCard(**FACTS, parameters=0, dim=8, contracts=(CONTRACT,), native=True, groups=GROUPS)


class Small(nn.Module):
    """A convolution over the measured leads and a linear map; `spare` is never used. It remembers
    what it was fed.
    """

    def __init__(self, dropout: float = 0.0, norm: bool = False) -> None:
        super().__init__()
        self.first = nn.Conv1d(len(LEADS), 6, 5, stride=5)
        self.spare = nn.Linear(2, 3)
        self.second = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8) if norm else nn.Identity()
        self.dropout = dropout
        self.seen: list[tuple[bool, Tensor, Tensor]] = []

    def __deepcopy__(self, memo: Any) -> "Small":
        return self  # what is trained is asked what it was fed

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        self.seen.append((self.training, signal.detach().clone(), measured.clone()))
        x = F.gelu(self.first(signal.where(measured[..., None], 0))).transpose(1, 2)
        tokens = F.dropout(self.second(x), self.dropout, self.training)
        return Features(tokens, self.norm(tokens.mean(1)))


def small(**options: Any) -> Small:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Small(**options)


class Half(NamedTuple):
    """Records of one split, with their recordings and what is true of them."""

    records: list[Record]
    target: np.ndarray
    views: dict[str, np.ndarray]


def split(n: int, seed: int) -> Half:
    """Records of 40 to 119 samples; label k is whether lead k lies above zero."""
    draw = np.random.default_rng(seed)
    hearts, lengths = draw.normal(size=(n, 2)), draw.integers(SAMPLES, 3 * SAMPLES, n)
    views, records = {}, []
    for i in range(n):
        name = f"r{seed}.{i}"
        views[name] = draw.normal(0, 0.3, (12, lengths[i])).astype(np.float32)
        views[name][:2] += hearts[i, :, None]
        records.append(Record(i, name, int(lengths[i]) // SAMPLES, ALL.bits))
    return Half(records, (hearts > 0).astype(np.int8), views)


def nowhere(n: int, seed: int) -> Half:
    """A split of which no label is defined: the last epoch is kept."""
    data = split(n, seed)
    return data._replace(target=np.zeros_like(data.target))


class Of(Evaluation):
    """An evaluation of records that lie in memory."""

    def __init__(
        self, network: nn.Module, training: Training, data: tuple[Half, Half], **how: Any
    ) -> None:
        """how: policy, card, device."""
        self.network: Any = SimpleNamespace(
            module=network, card=how.get("card", CARD), device=how.get("device", "cpu")
        )
        self.contract, self.training = CONTRACT, training
        self.data = dict(zip(("train", "val"), data))
        self._policies: Any = {"zero": how.get("policy", ZERO)}
        views = data[0].views | data[1].views
        self.__dict__["view"] = SimpleNamespace(get=views.__getitem__)
        self.__dict__["records"] = {name: half.records for name, half in self.data.items()}

    def task(self, fit: Fit) -> Any:
        return SimpleNamespace(columns=[])

    def target(self, split: str, columns: list[str]) -> np.ndarray:
        return self.data[split].target


def fit_of(seed: int) -> Fit:
    return Fit(task="", model="", contract="", weights="", seed=seed)


class Tuned(NamedTuple):
    """A fit, for tests."""

    encoder: dict[str, Tensor]
    head: dict[str, Tensor]
    best: int
    log: list[loop.Epoch]
    note: Any


def tune(
    folder: Path,
    training: Training,
    network: nn.Module | None = None,
    data: tuple[Half, Half] | None = None,
    **how: Any,
) -> Tuned:
    """`tuning.tune` with small defaults; how: seed, policy, card, advance, device."""
    of = Of(network or small(), training, data or (split(20, 1), split(12, 2)), **how)
    advance = how.get("advance", lambda n: None)
    made = tuning.tune(of, fit_of(how.get("seed", 0)), folder / "checkpoint.pt", advance)
    assert made.encoder is not None
    head = dict(zip(("weight", "bias"), map(torch.from_numpy, made.head)))
    lines = csv.DictReader(io.StringIO(str(made.files["log.csv"])))
    log = [loop.Epoch(int(e["epoch"]), float(e["loss"]), float(e["validation"])) for e in lines]
    return Tuned(made.encoder, head, made.note["best_epoch"], log, SimpleNamespace(**made.note))


def same(a: Tuned, b: Tuned) -> bool:
    """Weights and log, bit for bit."""
    states = all(
        torch.equal(x[k], y[k]) for x, y in ((a.encoder, b.encoder), (a.head, b.head)) for k in x
    )
    return states and repr(a.log) == repr(b.log)


def short(**settings: Any) -> Training:
    return Training(**{"protocol": "finetune", "epochs": 3, "batch": 8, "lr": 0.02, **settings})


def test_it_learns_and_every_group_moves_at_its_rate(tmp_path: Path) -> None:
    start, check = small(), split(30, 2)
    tuned = tune(tmp_path, short(epochs=25), data=(split(60, 1), check))
    assert tuned.log[-1].loss < 0.6 * tuned.log[0].loss
    assert tuned.log[tuned.best].validation > 0.95
    assert {g: v["lr"] for g, v in tuned.note.groups.items()} == pytest.approx(
        {"early": 0.0002, "late": 0.002, "head": 0.02}
    )
    assert all(v["before"] != v["after"] for v in tuned.note.groups.values())
    assert tuned.note.frozen == ["spare.weight", "spare.bias"]
    assert torch.equal(tuned.encoder["spare.weight"], start.spare.weight)
    assert not torch.equal(tuned.encoder["first.weight"], start.first.weight)
    one = tune(tmp_path / "one", short(lr_groups=False))
    assert {v["lr"] for v in one.note.groups.values()} == {0.02}

    start.load_state_dict(tuned.encoder)
    found = []
    for record in check.records:
        view, n = torch.from_numpy(check.views[record.name]), record.windows
        cut = view[:, : n * SAMPLES].unfold(1, SAMPLES, SAMPLES).transpose(0, 1)
        with torch.no_grad():
            pooled = start.eval()(cut, torch.ones(n, 12, dtype=torch.bool)).pooled
        logits = F.linear(pooled, tuned.head["weight"], tuned.head["bias"])
        found.append(torch.sigmoid(logits).mean(0).numpy())
    by_hand = np.mean([roc_auc_score(t, p) for t, p in zip(check.target.T, np.array(found).T)])
    assert tuned.log[tuned.best].validation == pytest.approx(by_hand)


@pytest.mark.parametrize(("micro", "unknown"), [(None, 0), (3, 0), (1, 0), (3, 0.4), (1, 0.7)])
def test_equals_a_plain_torch_loop(micro: int | None, unknown: float, tmp_path: Path) -> None:
    """21 records in batches of 8: two steps an epoch, the last 5 records are dropped. The loss is
    the mean over the labels that are known.
    """
    data, training = split(21, 1), short(micro_batch=micro, weight_decay=0.1)
    hidden = np.random.default_rng(8).random(data.target.shape) < unknown
    data = data._replace(target=np.where(hidden, -1, data.target).astype(np.int8))
    tuned = tune(tmp_path, training, data=(data, nowhere(4, 2)), seed=5)
    network, head = small(), loop.head(8, 2, 5)
    groups = [(network.first, 0.0002), (network.second, 0.002), (head, 0.02)]
    optimiser = torch.optim.AdamW(
        [{"params": m.parameters(), "lr": lr} for m, lr in groups], weight_decay=0.1
    )
    losses = []
    for epoch in range(3):
        order, lost = rng("order", 5, epoch).permutation(21), []
        for rows in (order[:8], order[8:16]):
            cut = []
            for record in (data.records[i].name for i in rows):
                view = data.views[record]
                start = rng("crop", 5, epoch, record).integers(view.shape[1] - SAMPLES + 1)
                cut.append(torch.from_numpy(view[:, start : start + SAMPLES]))
            logits = head(network(torch.stack(cut), torch.ones(8, 12, dtype=torch.bool)).pooled)
            target = torch.from_numpy(data.target[rows]).float()
            loss = F.binary_cross_entropy_with_logits(logits[target >= 0], target[target >= 0])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            lost.append(loss.item())
        losses.append(np.mean(lost))
    assert tuned.best == 2
    np.testing.assert_allclose([e.loss for e in tuned.log], losses, atol=1e-6)
    for name, value in (
        network.state_dict() | {f"head.{k}": v for k, v in head.state_dict().items()}
    ).items():
        found = tuned.head[name[5:]] if name.startswith("head.") else tuned.encoder[name]
        np.testing.assert_allclose(found.numpy(), value.numpy(), atol=1e-6)


def test_a_batch_that_knows_no_label_takes_no_step(tmp_path: Path) -> None:
    """Two batches of eight, of which one knows no label, are one batch of the other eight."""
    data, order = split(16, 1), rng("order", 0, 0).permutation(16)
    target = data.target.copy()
    target[order[8:]] = -1
    known, check = data._replace(target=target), nowhere(4, 2)
    half = tune(tmp_path / "half", short(epochs=1), data=(known, check))
    alone = tune(tmp_path / "alone", short(epochs=1, batch=16), data=(known, check))
    assert half.log[0].loss == pytest.approx(alone.log[0].loss)
    for name in half.head:
        torch.testing.assert_close(half.head[name], alone.head[name], rtol=0, atol=1e-6)
    unknown = data._replace(target=np.full_like(target, -1))
    with pytest.raises(gates.GateError):
        tune(tmp_path / "none", short(epochs=1), data=(unknown, check))


@pytest.mark.long
def test_random_leads(tmp_path: Path) -> None:
    """Drawn per record and epoch, the number of leads uniform; of validation the same in every
    epoch and seed; padding fills them.
    """
    data, validated = (split(24, 1), split(6, 2)), []
    for seed, policy in ((0, NATIVE), (1, ZERO)):
        network = small()
        drawn = short(leads="random", epochs=30)
        tune(tmp_path / str(seed), drawn, network, data, policy=policy, seed=seed)
        trained = [(s, m) for training, s, m in network.seen if training]
        hidden = torch.cat([s for s, _ in trained])[:, :, 0]
        absent = hidden.isnan() if policy is NATIVE else hidden == 0
        if policy is NATIVE:
            assert all(torch.equal(m, ~s[:, :, 0].isnan()) for s, m in trained)
            assert any(len(m.sum(1).unique()) > 3 for _, m in trained)
            validated.append([m for training, _, m in network.seen if not training][1:])
        else:
            assert all(m.all() for _, m in trained)
        counts = torch.bincount(12 - absent.sum(1), minlength=13)
        assert counts[0] == 0
        assert counts[1:].min() > 30
        assert counts[1:].max() < 95
        assert len({tuple(row) for row in absent.tolist()}) > 400
    masks = [sum(1 << i for i in np.flatnonzero(m[0])) for m in validated[0]]
    assert masks == [training_leads(LEADS, "validation leads", r) for r in data[1].views] * 30


class Detached(Small):
    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        with torch.no_grad():
            return super().forward(signal, measured)


class Dead(Small):
    """Its late part is reached by a gradient that is zero; weight decay moves it all the same."""

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        x = F.gelu(self.first(signal)).mean(2)
        pooled = F.pad(x, (0, 2)) + 0 * self.second(x)
        return Features(pooled[:, None], pooled)


@pytest.mark.parametrize(
    ("groups", "network", "settings", "told"),
    [
        ({"early": ("first.",), "late": ("first.", "second.")}, Small, {}, r"first\.weight"),
        (CARD.groups, Detached, {}, "no gradient reaches .* 'early'"),
        (CARD.groups, Small, {"lr": 0.0}, "left group 'early' as it was"),
        (CARD.groups, Dead, {"weight_decay": 0.5}, "left group 'late' as it was"),
        (CARD.groups, Small, {"lr": 1e30}, "nan|inf|not finite"),
    ],
)
def test_what_is_no_finetuning_is_refused(
    groups: Any, network: type[Small], settings: Any, told: str, tmp_path: Path
) -> None:
    with pytest.raises(gates.GateError, match=told):
        tune(tmp_path, short(**settings), network(), card=replace(CARD, groups=groups))


class Stop(Exception):
    pass


def stopping(at: int) -> Callable[[int], None]:
    told = iter(range(at))

    def advance(records: int) -> None:
        if next(told, None) is None:
            raise Stop

    return advance


def test_an_interrupted_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    """Dropout, batch normalisation, random leads; stopped in training and in validation of every
    epoch, more than once.
    """
    training, data = short(leads="random", epochs=4, micro_batch=3), (split(20, 1), split(5, 2))

    def tuned(name: str, advance: Callable[[int], None] = lambda n: None) -> Tuned:
        network = small(dropout=0.3, norm=True)
        return tune(tmp_path / name, training, network, data, policy=NATIVE, advance=advance)

    counted: list[int] = []
    whole = tuned("whole", counted.append)
    assert sum(counted) == 4 * (16 + 5)
    calls = len(counted) // 4
    for at in ([0], [3], [calls - 1], [calls, calls // 2], [2 * calls, calls + 2, 3]):
        name = "-".join(map(str, at))
        for stop in at:
            with pytest.raises(Stop):
                tuned(name, stopping(stop))
        again = tuned(name)
        assert same(again, whole)
        assert again.note.groups == whole.note.groups
        assert again.note.notes == []
    told: list[int] = []
    assert same(tuned(name, told.append), whole)
    assert told == [4 * (16 + 5)]


def test_a_damaged_checkpoint_is_set_aside(tmp_path: Path) -> None:
    training, data = short(), (split(20, 1), nowhere(5, 2))
    whole = tune(tmp_path, training, data=data)
    path = tmp_path / "checkpoint.pt"
    flipped = bytearray(path.read_bytes())
    flipped[-200] ^= 1
    for bad in (bytes(flipped), bytes(flipped[:-9]), b""):
        path.write_bytes(bad)
        assert same(tune(tmp_path, training, data=data), whole)
        assert path.with_name("checkpoint.pt.damaged").read_bytes() == bad


def test_the_seed_decides_and_nothing_else(tmp_path: Path) -> None:
    tuned = []
    for i, (global_seed, seed) in enumerate(((0, 5), (99, 5), (0, 6))):
        torch.manual_seed(global_seed)
        before = torch.get_rng_state()
        tuned.append(tune(tmp_path / str(i), short(), small(dropout=0.5), seed=seed))
        assert torch.equal(before, torch.get_rng_state())
    assert same(tuned[0], tuned[1])
    assert not torch.equal(tuned[0].encoder["second.weight"], tuned[2].encoder["second.weight"])


class Hungry(Small):
    """Has memory for `most` records with gradients; says so as a GPU or as the CPU's allocator
    does.
    """

    most, error = 2, torch.OutOfMemoryError("CUDA out of memory")

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        found = super().forward(signal, measured)
        if self.training and len(signal) > self.most:
            raise self.error
        return found


def test_passes_are_halved_where_memory_does_not_suffice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, counted = tune(tmp_path / "whole", short()), list[int]()
    network = Hungry()
    network.load_state_dict(small().state_dict())
    halved = tune(tmp_path / "halved", short(), network, advance=counted.append)
    assert halved.note.micro_batch == 2
    assert halved.note.notes == [
        f"out of memory with {n} records per pass; goes on with {n // 2}" for n in (8, 4)
    ]
    assert sum(counted) == 3 * (16 + 12)
    for name, value in whole.encoder.items():
        np.testing.assert_allclose(halved.encoder[name].numpy(), value.numpy(), atol=1e-6)
    monkeypatch.setattr(Hungry, "most", 0)
    for words in ("DefaultCPUAllocator: can't allocate memory", "shapes differ"):
        monkeypatch.setattr(Hungry, "error", RuntimeError(words))
        with pytest.raises(RuntimeError, match=words):
            tune(tmp_path / "none", short(), Hungry())


def test_bf16_stays_near_float32(tmp_path: Path) -> None:
    """The step is computed in bf16, the weights are kept in float32."""
    exact, rough = (tune(tmp_path / p, short(precision=p)) for p in ("float32", "bf16"))
    assert not same(exact, rough)
    assert all(v.dtype == torch.float32 for v in rough.encoder.values())
    np.testing.assert_allclose([e.loss for e in rough.log], [e.loss for e in exact.log], atol=0.01)
