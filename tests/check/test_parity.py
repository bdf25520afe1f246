"""`check parity`: a tiny network with packs made here by a second, plain implementation of the
rule; tests/models/test_laws.py has the authors' own packs.
"""

import json
import math
import subprocess
import types
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ecgbench import models
from ecgbench.check import parity
from ecgbench.errors import BadSetting
from ecgbench.layers.features import Features
from ecgbench.models import laef, stmem


class Tiny(nn.Module):
    """Reads any subset: the sum over measured leads of a normed embedding of each lead."""

    def __init__(self) -> None:
        super().__init__()
        self.lead = nn.Parameter(torch.zeros(12, 5))
        self.norm = nn.BatchNorm1d(5)
        self.table = nn.Parameter(torch.arange(5.0))

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        if signal.shape[2] > 100:
            raise ValueError("at most 100 samples")
        level = torch.where(measured[..., None], signal, 0).square().sum(2)
        x = level @ self.lead[: signal.shape[1]] + measured.sum(1, keepdim=True) * self.table
        return Features(x[:, None], self.norm(x))


def drawn(text: str, shape: list[int]) -> np.ndarray:
    generator = np.random.RandomState(zlib.crc32(text.encode()))
    return generator.standard_normal(shape).astype(np.float32)


def plain_rule(key: str, shape: list[int], seed: str) -> np.ndarray:
    z = drawn(f"{key}|{seed}", shape)
    if key.endswith("running_mean"):
        return 0.1 * z
    if key.endswith("running_var"):
        return 1 + 0.1 * abs(z)
    if len(shape) == 1:
        return 1 + 0.1 * z if key.endswith("weight") else 0.05 * z
    return z / np.float32(math.sqrt(np.prod(shape[1:])))


def entries() -> list[dict[str, Any]]:
    state = Tiny().state_dict()
    left = "table", "norm.num_batches_tracked"
    return [{"key": k, "shape": list(t.shape), "left": k in left} for k, t in state.items()]


def truth(
    seed: str,
    time: int,
    keep: slice | list[int] = slice(None),
    blank: float | None = 0.0,
    rows: int = 12,
) -> np.ndarray:
    """Tiny's features in numpy. blank None: the leads outside `keep` are absent."""
    v = {e["key"]: plain_rule(e["key"], e["shape"], seed) for e in entries()}
    x = np.float32(0.3) * drawn(f"input|ti-ny|{seed}", [2, 12, time])[:, :rows]
    there = np.zeros(rows, bool)
    there[keep] = True
    x[:, ~there] = blank or 0
    y = np.square(x).sum(2) @ v["lead"][:rows] + (
        there.sum() if blank is None else rows
    ) * np.arange(5)
    return (y - v["norm.running_mean"]) / np.sqrt(v["norm.running_var"] + 1e-5) * v[
        "norm.weight"
    ] + v["norm.bias"]


def golden(seed: str) -> dict[str, np.ndarray]:
    return {
        "feat": truth(seed, 30),
        "features_T40": truth(seed, 40),
        "feat_T40_zerofill_I_II": truth(seed, 40, [0, 1]),
        "feat_T40_subset_I_II": truth(seed, 40, [0, 1], None),
        "feat_subset_limb6_T40": truth(seed, 40, list(range(6)), None),
        "feat_absentminus1_V1": truth(seed, 30, [6], -1.0),
        "block0_T40": np.zeros(3),
    }


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("tinyparity")
    module.CARD, module.build = stmem.CARD, Tiny  # type: ignore[attr-defined]
    monkeypatch.setitem(models.ROOM._paths, "tinyparity", Path("tinyparity.py"))
    monkeypatch.setitem(models.ROOM._loaded, "tinyparity", module)
    return module


def verdict(
    tmp_path: Path, pack: dict[str, np.ndarray], seed: str, keys: dict[str, Any] | None = None
) -> list[parity.Row]:
    np.savez(tmp_path / "pack.npz", **pack)
    (tmp_path / "keys.json").write_text(
        json.dumps(keys or {"entries": entries(), "input": {"name": "ti-ny", "T": 30}})
    )
    return parity.check("tinyparity", tmp_path / "pack.npz", tmp_path / "keys.json", seed)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("seed", ["public-0", "zürich|9"])
def test_any_seed_passes_with_its_own_pack_only(seed: str, tmp_path: Path) -> None:
    report = verdict(tmp_path, golden(seed), seed)
    assert parity.passed(report), report
    assert [row.array for row in report] == list(golden(seed))[:-1]
    wrong = verdict(tmp_path, golden(seed), seed + "x")
    assert not parity.passed(wrong)
    assert {row.status for row in wrong} == {"differs"}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("array", ["feat_T40_squared", "feat_T40_subset_V7", "feat_T101"])
def test_an_array_that_cannot_be_computed_fails_the_check(array: str, tmp_path: Path) -> None:
    report = verdict(tmp_path, {"feat": truth("s", 30), array: truth("s", 30)}, "s")
    assert [row.status for row in report] == ["ok", "cannot compute"]
    assert report[1].reason
    assert not parity.passed(report)


@pytest.mark.usefixtures("tiny")
def test_keys_of_another_network_fail_the_check(tmp_path: Path) -> None:
    for change, told in [
        (entries()[1:], "1 only in the network (lead)"),
        ([*entries(), {"key": "head.weight", "shape": [2, 5]}], "1 only in the file (head.weight)"),
        ([{**entries()[0], "shape": [12, 4]}, *entries()[1:]], "1 of another shape (lead)"),
    ]:
        report = verdict(tmp_path, golden("s"), "s", {"entries": change, "input_name": "ti-ny"})
        assert told in report[0].reason
        assert not parity.passed(report)
    spare = {
        "checkpoint": [*entries(), {"key": "head", "shape": [2]}],
        "not_needed_for_features": ["head"],
    }
    keys = spare | {"input": {"name": "ti-ny", "T": 30}}
    assert parity.passed(verdict(tmp_path, golden("s"), "s", keys))


@pytest.mark.usefixtures("tiny")
def test_bad_arguments_are_told_apart_from_a_failed_check(tmp_path: Path) -> None:
    good = tmp_path / "good.npz", tmp_path / "good.json"
    np.savez(good[0], **golden("s"))
    good[1].write_text(json.dumps({"entries": entries(), "input_name": "ti-ny"}))
    np.savez(tmp_path / "objects.npz", feat=np.array([{}], dtype=object))
    (tmp_path / "cut.npz").write_bytes(good[0].read_bytes()[:300])
    for pack in ("absent.npz", "objects.npz", "cut.npz", "."):
        with pytest.raises(BadSetting, match="--pack"):
            parity.check("tinyparity", tmp_path / pack, good[1], "s")
    (tmp_path / "bad.json").write_text('{"entries": [{"key": 1}], "input_name": "x"}')
    for keys in ("absent.json", "bad.json"):
        with pytest.raises(BadSetting, match="--keys"):
            parity.check("tinyparity", good[0], tmp_path / keys, "s")


@pytest.mark.long
def test_laef_is_torch_geometrics_gatv2_layer_by_layer(
    here: Callable[..., "subprocess.CompletedProcess[str]"],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Every layer under every set of leads; one parameter that differs is found in its layer and in
    those after it.
    """
    pytest.importorskip("torch_geometric")
    done = here("check", "parity", "laef", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" ok ") == 16  # 4 layers, 4 sets of leads
    assert "pooled feature, 12 leads" in done.stdout
    plain = laef.reference

    def spoilt(network: laef.Laef) -> laef.Laef:
        other: Any = plain(network)
        conv = other.blocks[1].attention.conv
        conv.att = nn.Parameter(conv.att * 1.01)
        return other  # type: ignore[no-any-return]

    monkeypatch.setattr(laef, "reference", spoilt)
    done = here("check", "parity", "laef", "--json", cwd=tmp_path)
    wrong = {row["array"] for row in json.loads(done.stdout) if row["status"] != "ok"}
    assert done.returncode == 1
    assert {name.split(",")[0] for name in wrong} == {"blocks.1.attention", "pooled feature"}
