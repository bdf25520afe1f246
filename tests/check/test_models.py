"""Every model keeps the promises, the plug-in tiny included; and a model that does not is
caught.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from ecgbench import models
from ecgbench.check.models import check, properties
from ecgbench.evaluate.network import Network
from ecgbench.layers.features import Features

TINY = str(Path(__file__).parents[1] / "tiny.py")


@pytest.mark.parametrize(
    "name", [TINY, *(pytest.param(name, marks=pytest.mark.long) for name in models.names())]
)
def test_keeps_every_promise(name):
    broken = [f"{row['name']}: {row['detail']}" for row in check(name) if not row["ok"]]
    assert not broken


class Leaky(nn.Module):
    """Reads what it is given, fault by fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.weight, self.fault, self.calls = nn.Parameter(torch.ones(4)), fault, 0
        self.norm = nn.BatchNorm1d(4, affine=False, track_running_stats=False)

    def forward(self, signal: torch.Tensor, measured: torch.Tensor) -> Features:
        self.calls += 1
        kept = torch.where(measured[:, :, None], signal, 0.0)
        if self.fault == "reads hidden rows":
            kept = torch.nan_to_num(signal)
        pooled = torch.stack(
            [kept.mean((1, 2)), kept.std((1, 2)), kept.amax((1, 2)), kept.amin((1, 2))], 1
        )
        if self.fault == "looks at its neighbours":
            pooled = pooled - pooled.mean(0)
        if self.fault == "has a norm without statistics":
            pooled = self.norm(pooled.repeat(2, 1))[: len(signal)]
        if self.fault == "says nothing":
            pooled = torch.ones_like(pooled)
        if self.fault == "leaves dropout on":
            pooled = torch.nn.functional.dropout(pooled, training=True)
        if self.fault == "remembers":
            pooled = pooled + self.calls
        if self.fault == "guesses what was not measured" and not measured.all():
            pooled = pooled + torch.rand(())
        return Features(pooled[:, None], pooled)


class Mixing(nn.Module):
    """A native network whose embedding takes windows for leads by an honest slip: with one window
    it is right.
    """

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.weight, self.slip = nn.Parameter(torch.ones(4)), bool(fault)

    def embed_leads(self, signal: torch.Tensor) -> torch.Tensor:
        windows, leads, time = signal.shape
        if self.slip:
            signal = signal.transpose(0, 1).reshape(windows, leads, time)
        return signal.unfold(-1, 50, 50).mean(-1)

    def encode(self, tokens: torch.Tensor, measured: torch.Tensor) -> Features:
        kept = torch.where(measured[:, :, None], tokens, 0.0)
        pooled = torch.stack([kept.mean((1, 2)), kept.amax((1, 2))], 1)
        return Features(pooled[:, None], pooled)

    def forward(self, signal: torch.Tensor, measured: torch.Tensor) -> Features:
        return self.encode(self.embed_leads(signal), measured)


def lacking(network: nn.Module, row: str = "") -> dict[str, str]:
    """Property -> what is said of it, of those that the network lacks and that begin so."""
    frozen = network.eval().requires_grad_(False)
    found = {}
    for name, attempt in properties(
        Network("invented", models.get("laef").CARD, frozen, "random", "0" * 64)
    ):
        if name.startswith(row):
            try:
                attempt()
            except Exception as error:
                found[name] = str(error)
    return found


@pytest.mark.parametrize("kind", [Leaky, Mixing])
def test_a_network_without_a_fault_lacks_nothing_but_the_parameters_of_its_card(kind):
    assert lacking(kind("")).keys() == {"card"}


@pytest.mark.parametrize(
    ("kind", "fault", "row", "word"),
    [
        (Leaky, "reads hidden rows", "rows not measured are not read", "was read"),
        (Leaky, "looks at its neighbours", "a batch of one equals a batch of n", "differ by"),
        (Leaky, "has a norm without statistics", "a batch of one", "statistics: norm"),
        (Leaky, "remembers", "the same twice", "chance"),
        (Leaky, "guesses what was not measured", "the same twice", "chance"),
        (Leaky, "leaves dropout on", "the same twice", "chance"),
        (Leaky, "leaves dropout on", "rows not measured", "no leak"),
        (Leaky, "says nothing", "features depend on the recording", "do not depend"),
        (Mixing, "mixes windows and leads", "embed_leads and encode", ""),
        (Mixing, "mixes windows and leads", "hidden leads do not matter", "moves a feature"),
    ],
)
def test_a_fault_fails_its_row_with_its_word(kind, fault, row, word):
    told = lacking(kind(fault), row)
    assert told
    assert all(word in text for text in told.values())


@pytest.mark.long
def test_a_network_that_hangs_is_stopped_with_a_line(tmp_path):
    hangs = "        while True: pass\n        x = F.gelu"
    (tmp_path / "hangs.py").write_text(Path(TINY).read_text().replace("        x = F.gelu", hangs))
    words = ["check", "model", str(tmp_path / "hangs.py"), "--seconds", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "ecgbench", *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "hangs.py gave no answer in 2 s" in done.stdout.splitlines()[-1]
