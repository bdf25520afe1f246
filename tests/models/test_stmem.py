"""ST-MEM against arrays of the authors' code (tests/data/parity/stmem), and laws of the network."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.check import rule
from ecgbench.ecg.leads import LEADS, LeadSubset
from ecgbench.layers.features import Features
from ecgbench.layers.torchvision_operators import import_timm
from ecgbench.models import stmem

PACK = Path(__file__).parents[1] / "data" / "parity" / "stmem"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))
ALL = torch.ones(2, 12, dtype=torch.bool)


@pytest.fixture(scope="module")
def network() -> stmem.StMem:
    net = stmem.build()
    assert rule.fill(net, KEYS, "public-0") == ""
    return net.eval()


@pytest.fixture(scope="module")
def signal() -> torch.Tensor:
    return torch.from_numpy(rule.windows("st-mem", "public-0", 12, 600))


def run(network: stmem.StMem, signal: torch.Tensor, measured: torch.Tensor) -> Features:
    with torch.inference_mode():
        return network(signal, measured)


def masks(*subsets: str) -> torch.Tensor:
    return torch.from_numpy(np.stack([LeadSubset.parse(s).mask for s in subsets]))


def near(ours: torch.Tensor, golden: np.ndarray) -> None:
    assert ours.shape == golden.shape
    assert np.abs(ours.numpy() - golden).max() <= 1e-5 * max(1, np.abs(golden).max())


def test_entries_and_size_are_those_of_the_encoder_checkpoint(network: stmem.StMem) -> None:
    state = network.state_dict()
    assert {k: list(v.shape) for k, v in state.items()} == {
        e["key"]: e["shape"] for e in KEYS["encoder_checkpoint"]
    }
    assert (
        sum(p.numel() for p in network.parameters())
        == stmem.CARD.parameters
        == KEYS["n_params_encoder"]
        == 85_150_614
    )


def test_timm_reads_its_blocks_alike(network: stmem.StMem, signal: torch.Tensor) -> None:
    """timm's Block with the same weights: an implementation by others, bit for bit. Its own
    LayerNorm adds 1e-6, the authors' (and ours) 1e-5.
    """
    import_timm()
    from timm.models.vision_transformer import Block

    theirs = {
        "attn.norm": "norm1",
        "attn.fn.to_qkv": "attn.qkv",
        "attn.fn.to_out.0": "attn.proj",
        "ff.norm": "norm2",
        "ff.fn.net.0": "mlp.fc1",
        "ff.fn.net.3": "mlp.fc2",
    }
    with torch.inference_mode():
        x = network._tokens(signal, torch.stack(list(network.lead_embeddings))[None])
        block = Block(stmem.WIDTH, stmem.HEADS, qkv_bias=True, norm_layer=torch.nn.LayerNorm).eval()
        for i in range(stmem.DEPTH):
            own = network.get_submodule(f"block{i}").state_dict()
            block.load_state_dict(
                {
                    f"{theirs[k.rpartition('.')[0]]}.{k.rpartition('.')[2]}": v
                    for k, v in own.items()
                }
            )
            x = block(x)
        patches = x.view(2, 12, -1, stmem.WIDTH)[:, :, 1:-1].reshape(2, -1, stmem.WIDTH)
        pooled = network.norm(patches.mean(1))
    features = run(network, signal, ALL)
    assert torch.equal(patches, features.sequence)
    assert torch.equal(pooled, features.pooled)


def test_positions_are_the_published_table() -> None:
    row = stmem.position_table()[0, 2, [0, 1, 383, 384, 767]]
    assert row.tolist() == pytest.approx([0.841471, 0.828431, 1.0243e-4, 0.540302, 1.0], abs=1e-6)
    assert not stmem.position_table()[0, [0, -1]].any()


def test_tokens_after_each_stage_are_the_authors(
    network: stmem.StMem, signal: torch.Tensor
) -> None:
    seen: dict[str, torch.Tensor] = {}
    hooks = [
        network.block0.register_forward_pre_hook(lambda _, args: seen.update(tokens_in=args[0])),
        network.block0.register_forward_hook(lambda *args: seen.update(block0=args[2])),
        network.block11.register_forward_hook(lambda *args: seen.update(block11=args[2])),
    ]
    features = run(network, signal, ALL)
    for stage in ("tokens_in", "block0", "block11"):
        near(seen[stage][:, :, :16], GOLDEN[f"{stage}_T600"])
    near(features.pooled, GOLDEN["feat_T600"])
    # the sequence: SEP tokens removed, no final LayerNorm
    near(
        features.sequence[..., :16],
        GOLDEN["block11_T600"].reshape(2, 12, 10, 16)[:, :, 1:-1].reshape(2, 96, 16),
    )
    long = torch.from_numpy(rule.windows("st-mem", "public-0", 12, 2250))[:1]
    near(run(network, long, ALL[:1]).pooled, GOLDEN["feat_T2250"][:1])
    near(seen["block11"][:, ::8, :16], GOLDEN["block11_T2250_s0"])
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("blank", [float("nan"), 0.0, float("inf")])
def test_leads_that_were_not_measured_are_never_read(
    network: stmem.StMem, signal: torch.Tensor, blank: float
) -> None:
    batch = signal[[0, 1, 0]]
    measured = masks("II", "I+aVL+V6", "V1")
    noise = torch.where(measured[..., None], batch, torch.randn_like(batch))
    filled = torch.where(measured[..., None], batch, blank)
    for ours, theirs in zip(
        run(network, filled, measured), run(network, noise, measured), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_a_batch_of_mixed_subsets_equals_each_window_alone(
    network: stmem.StMem, signal: torch.Tensor
) -> None:
    subsets = ("I+II", "V2", "V1+V6", "+".join(LEADS[:4]))
    batch, measured = signal[[0, 1, 1, 0]], masks(*subsets)
    together = run(network, batch, measured)
    assert together.sequence.shape == (4, 4 * 8, 768)
    for i, subset in enumerate(subsets):
        alone = run(network, batch[i : i + 1], measured[i : i + 1])
        tokens = 8 * len(subset.split("+"))
        assert alone.sequence.shape == (1, tokens, 768)
        torch.testing.assert_close(together.pooled[i : i + 1], alone.pooled, atol=1e-5, rtol=0)
        torch.testing.assert_close(
            together.sequence[i, :tokens], alone.sequence[0], atol=1e-4, rtol=1e-5
        )
        assert not together.sequence[i, tokens:].any()


def test_an_absent_lead_is_not_a_lead_of_zeros(network: stmem.StMem, signal: torch.Tensor) -> None:
    one = masks("II", "II")
    absent = run(network, signal, one).pooled
    near(absent, GOLDEN["feat_T600_subset_II"])
    assert np.abs(absent.numpy() - GOLDEN["feat_T600_zerofill_II"]).max() > 0.01


@pytest.mark.parametrize(
    ("subset", "gflop"), [("+".join(LEADS), 20.926218), ("I", 1.703), ("I+II", 3.414)]
)
def test_operations_are_the_published_number(
    network: stmem.StMem, subset: str, gflop: float
) -> None:
    # the counter sees the attention's products only where they are spelled as products
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        run(network, torch.zeros(1, 12, 600), masks(subset))
    assert counter.get_total_flops() / 1e9 == pytest.approx(gflop, abs=5e-4)


def test_training_reaches_every_parameter_and_blanks_do_not_poison_it(
    network: stmem.StMem, signal: torch.Tensor
) -> None:
    measured = masks("II", "I+II")
    blank = torch.where(measured[..., None], signal, torch.nan)
    network(blank, measured).pooled.square().sum().backward()
    reached = {
        name for name, p in network.named_parameters() if p.grad is not None and bool(p.grad.any())
    }
    finite = all(bool(p.grad.isfinite().all()) for p in network.parameters() if p.grad is not None)
    network.zero_grad(set_to_none=True)
    assert finite
    absent = {f"lead_embeddings.{i}" for i in range(2, 12)}
    assert reached == {name for name, _ in network.named_parameters()} - absent


def test_every_parameter_is_in_one_group(network: stmem.StMem) -> None:
    def groups(name: str) -> list[str]:
        return [g for g, prefixes in stmem.CARD.groups.items() if name.startswith(prefixes)]

    assert all(len(groups(name)) == 1 for name, _ in network.named_parameters())
    assert groups("block1.ff.norm.bias") == ["early"]
    assert groups("block10.ff.norm.bias") == groups("norm.weight") == ["late"]


@pytest.mark.parametrize(
    "shape", [(1, 12, 599), (1, 12, 2325), (1, 12, 0), (1, 11, 600), (12, 600)]
)
def test_other_shapes_are_refused(network: stmem.StMem, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ST-MEM reads"):
        network(torch.zeros(shape), torch.ones(1, 12, dtype=torch.bool))


def test_a_window_without_a_measured_lead_is_refused(network: stmem.StMem) -> None:
    measured = ALL.clone()
    measured[1] = False
    with pytest.raises(ValueError, match=r"window 1 .* no measured lead"):
        network(torch.zeros(2, 12, 600), measured)
