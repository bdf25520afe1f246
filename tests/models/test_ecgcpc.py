"""ECG-CPC against arrays of the authors' code (tests/data/parity/ecgcpc), its kernel against the
state space, and laws of the network.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.check import parity, rule
from ecgbench.layers.features import Features
from ecgbench.models import ecgcpc

PACK = Path(__file__).parents[1] / "data" / "parity" / "ecgcpc"
KEYS = json.loads((PACK / "keys.json").read_text())
GOLDEN = dict(np.load(PACK / "golden_seed0.npz"))
ALL = torch.ones(2, 12, dtype=torch.bool)
FIRST = "predictor.predictor.s4_layers.0"


@pytest.fixture(scope="module")
def network() -> ecgcpc.Cpc:
    net = ecgcpc.build()
    assert rule.fill(net, KEYS, "public-0", ecgcpc.CARD.weights) == ""
    return net.eval().requires_grad_(False)


def signal(time: int) -> Tensor:
    return torch.from_numpy(rule.windows("ecg-cpc", "public-0", 12, time))


def run(network: ecgcpc.Cpc, x: Tensor) -> Features:
    with torch.inference_mode():
        return network(x, torch.ones(len(x), 12, dtype=torch.bool))


def near(ours: Tensor, golden: np.ndarray) -> None:
    assert ours.shape == golden.shape
    assert np.abs(ours.detach().numpy() - golden).max() <= 1e-5 * max(1, np.abs(golden).max())


def kernel_of(network: ecgcpc.Cpc) -> ecgcpc.Kernel:
    kernel = network.get_submodule(f"{FIRST}.kernel.kernel")
    assert isinstance(kernel, ecgcpc.Kernel)
    return kernel


def test_features_are_the_authors() -> None:
    report = parity.check("ecgcpc", PACK / "golden_seed0.npz", PACK / "keys.json", "public-0")
    assert [(row.array, row.status) for row in report] == [
        ("features_T600", "ok"),
        ("features_T2400", "ok"),
    ]


def test_entries_are_those_of_the_checkpoint_and_constants_are_buffers(network: ecgcpc.Cpc) -> None:
    state = network.state_dict()
    published = {
        e["key"].removeprefix("ts_encoder."): e["shape"]
        for e in KEYS["entries"]
        if "head_ssl" not in e["key"]
    }
    assert {k: list(t.shape) for k, t in state.items()} == published
    assert len(state) == 76
    assert sum(p.numel() for p in network.parameters()) == ecgcpc.CARD.parameters == 2_932_736
    assert sum(b.numel() for b in network.buffers()) == 81_300
    assert all(t.is_contiguous() for t in state.values())


def test_the_authors_file_is_taken_and_its_head_left(network: ecgcpc.Cpc, tmp_path: Path) -> None:
    state = {f"ts_encoder.{name}": tensor for name, tensor in network.state_dict().items()}
    path = tmp_path / "last_11597276.ckpt"
    torch.save(
        {
            "epoch": 1,
            "state_dict": state | {"ts_encoder.head_ssl.proj.0.weight": torch.ones(512, 512)},
        },
        path,
    )
    loaded = ecgcpc.build(path).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize("time", [600, 2400])
def test_stages_are_the_authors(network: ecgcpc.Cpc, time: int) -> None:
    seen: dict[str, Tensor] = {}
    hooks = [
        network.get_submodule("encoder.layers").register_forward_hook(
            lambda *args: seen.update(enc=args[2].transpose(1, 2))
        ),
        network.get_submodule(FIRST).register_forward_hook(
            lambda *args: seen.update(s4_0_out=args[2])
        ),
    ]
    x = signal(time)
    tokens = network(x, ALL).sequence  # with gradients enabled a CPU too reads the batch at once
    for hook in hooks:
        hook.remove()
    layer = network.get_submodule(FIRST)
    assert isinstance(layer, ecgcpc.S4)
    seen["s4_0_conv"] = layer.convolve(seen["enc"]) - layer.D * seen["enc"]
    for stage, out in seen.items():
        near(out.mean((0, 1)), GOLDEN[f"{stage}_mean_T{time}"])
        near(out.std((0, 1), correction=0), GOLDEN[f"{stage}_std_T{time}"])
    length = tokens.shape[1]
    near(tokens[:, [0, length // 2, length - 1], :16], GOLDEN[f"tokens_T{time}"])
    taps = kernel_of(network)(length)
    near(taps[:4, :64], GOLDEN[f"kernel0_h0_3_T{time}"])
    near(taps.square().mean(1).sqrt(), GOLDEN[f"kernel0_rms_T{time}"])
    head = torch.from_numpy(
        rule.weight("ts_encoder.head_ssl.proj.0.weight", (512, 512), "public-0")
    )
    near((tokens[:, 0] @ head.T)[:, :16], GOLDEN[f"ssl_t0_T{time}"])


def system(kernel: ecgcpc.Kernel) -> tuple[Tensor, Tensor, Tensor]:
    """A_d (512, 8, 8), B_d (512, 8, 1) and the stored C (512, 1, 8) of a kernel in complex128, from
    the definition.
    """
    state = {name: t.double() for name, t in kernel.state_dict().items()}
    b, p, q, c, w = (
        torch.view_as_complex(state[name].reshape(512, 4, 2)) for name in ("B", "P", "Q", "C", "w")
    )
    b, p, q, c, w = (torch.cat([v, v.conj()], 1) for v in (b, p, q, c, w))
    a = torch.diag_embed(w) - p[:, :, None] * q[:, None, :]
    half, one = state["log_dt"].exp()[:, None, None] / 2, torch.eye(8)
    return (
        torch.linalg.solve(one - half * a, one + half * a),
        torch.linalg.solve(one - half * a, 2 * half * b[:, :, None]),
        c[:, None],
    )


def test_kernel_is_the_impulse_response_of_the_state_space(network: ecgcpc.Cpc) -> None:
    kernel = kernel_of(network)
    step, state, stored = system(kernel)
    read = torch.linalg.solve(
        torch.eye(8) - torch.linalg.matrix_power(step, 1200), stored, left=False
    )
    taps = []
    for _ in range(1200):
        taps.append((read @ state)[:, 0, 0].real)
        state = step @ state
    exact = torch.stack(taps, 1)
    torch.testing.assert_close(kernel(1200).double(), exact, atol=2e-6, rtol=0)
    precise = ecgcpc.Kernel().double()
    precise.load_state_dict(kernel.state_dict())
    torch.testing.assert_close(precise(300), exact[:, :300], atol=1e-12, rtol=0)


def test_nodes_are_the_authors_but_for_the_rounding_of_the_last(network: ecgcpc.Cpc) -> None:
    kernel = kernel_of(network)
    assert kernel.longest == 1200
    np.testing.assert_allclose(kernel.omega, GOLDEN["omega_L1200"], atol=1e-6)
    distance = np.linalg.norm(kernel.z.numpy() - GOLDEN["z_L1200"], axis=1)
    assert (distance <= 1e-3 * np.linalg.norm(kernel.z, axis=1))[:-1].all()


def test_fourier_product_is_the_causal_sum(network: ecgcpc.Cpc) -> None:
    layer = network.get_submodule(FIRST)
    assert isinstance(layer, ecgcpc.S4)
    x = torch.randn(2, 7, 512)
    taps = kernel_of(network)(7)
    sums = F.conv1d(F.pad(x.transpose(1, 2), (6, 0)), taps.flip(1)[:, None], groups=512).transpose(
        1, 2
    )
    torch.testing.assert_close(layer.convolve(x), sums + layer.D * x, atol=1e-5, rtol=0)


def test_lead_order_matters_and_earlier_tokens_do_not_see_later_ones(network: ecgcpc.Cpc) -> None:
    x = signal(600)
    features = run(network, x)
    swapped = run(network, x[:, [0, 1, 2, 3, 5, 4, *range(6, 12)]])
    assert float((swapped.pooled - features.pooled).abs().max()) == pytest.approx(0.016, abs=6e-4)
    changed = x.clone()
    changed[:, :, 400:] = 0
    torch.testing.assert_close(
        run(network, changed).sequence[:, :199], features.sequence[:, :199], atol=2e-5, rtol=0
    )
    torch.testing.assert_close(features.pooled, features.sequence.mean(1))


def test_a_batch_is_its_windows_and_the_kernel_follows_written_weights(network: ecgcpc.Cpc) -> None:
    x = torch.cat([signal(600)] * 3)
    whole = run(network, x).pooled
    torch.testing.assert_close(whole[4:], run(network, signal(600)).pooled, atol=1e-5, rtol=0)
    for name in ("kernel.kernel.C", "kernel.kernel.log_dt", "D"):
        tensor = network.state_dict()[f"{FIRST}.{name}"]
        kept = tensor.clone()
        tensor.mul_(0.5)
        assert float((run(network, x[:1]).pooled - whole[:1]).abs().max()) > 1e-3
        tensor.copy_(kept)
    assert torch.equal(run(network, x).pooled, whole)


def test_start_values_are_hippo_legs() -> None:
    w, b, p = ecgcpc.legs()
    assert w.imag.tolist() == pytest.approx([19.857, 5.354, 1.958, 0.428], abs=1e-3)
    assert w.real.tolist() == pytest.approx([-0.5] * 4)
    # the published matrix, in the basis where it is a diagonal less P P^H, has the same spectrum
    # and the same impulse response
    n = torch.arange(8.0, dtype=torch.float64)
    legs = -torch.outer(2 * n + 1, 2 * n + 1).sqrt().tril(-1) - torch.diag(n + 1)
    v, u = torch.cat([w, w.conj()]), torch.cat([p, p.conj()])
    ours = torch.diag(v) - torch.outer(u, u.conj())
    torch.testing.assert_close(
        torch.linalg.eigvals(ours).real.sort()[0],
        -torch.arange(8.0, 0, -1, dtype=torch.float64),
        atol=1e-6,
        rtol=0,
    )
    start, low = torch.cat([b, b.conj()]), (n + 0.5).sqrt()
    ours_seen = u.conj() @ torch.linalg.matrix_exp(0.3 * ours) @ start
    torch.testing.assert_close(
        ours_seen.real, low @ torch.linalg.matrix_exp(0.3 * legs) @ (2 * n + 1).sqrt()
    )
    torch.testing.assert_close(float(b.abs().square().sum() * 2), float((2 * n + 1).sum()))


def test_random_weights_give_the_kernel_of_the_drawn_c() -> None:
    torch.manual_seed(5)
    kernel = ecgcpc.Kernel()
    step, _, stored = system(kernel)
    drawn = torch.linalg.solve(
        torch.eye(8) - torch.linalg.matrix_power(step, 1200), stored.detach(), left=False
    )[:, 0, :4]
    assert float(drawn.abs().square().mean()) == pytest.approx(1, abs=0.1)
    assert float(kernel.log_dt.exp().min()) >= 0.001
    assert float(kernel.log_dt.exp().max()) <= 0.1


def test_operations_are_the_published_number(network: ecgcpc.Cpc) -> None:
    for time, flop in ((600, 1_741_209_600), (2400, 6_964_838_400)):
        x = torch.zeros(1, 12, time)
        run(network, x)  # the kernels, which are counted nowhere, are made once
        with FlopCounterMode(display=False) as counter:
            run(network, x)
        assert counter.get_total_flops() == flop


def test_training_reaches_every_parameter_and_leaves_out_whole_channels() -> None:
    network = ecgcpc.build()
    assert rule.fill(network, KEYS, "public-0", ecgcpc.CARD.weights) == ""
    x = signal(120)
    seen: list[Tensor] = []
    hook = network.get_submodule(f"{FIRST}.output_linear.0").register_forward_pre_hook(
        lambda _, args: seen.append(args[0])
    )
    network(x, ALL).pooled.square().sum().backward()
    hook.remove()
    assert all(p.grad is not None and bool(p.grad.any()) for p in network.parameters())
    zero = seen[0] == 0  # GELU gives a few zeros of its own
    left_out = float(zero.all(1).float().mean())
    assert left_out == pytest.approx(0.2, abs=0.05)
    assert left_out == pytest.approx(float(zero.float().mean()), abs=0.01)
    # the gradient of C, through the cached responses, is that of the kernel
    kernel = kernel_of(network)
    with torch.no_grad():
        moved = kernel.C.clone()
        moved[0, 3, 1, 0] += 1
        change = torch.func.functional_call(kernel, {"C": moved}, (50,)).sum() - kernel(50).sum()
    kernel.C.grad = None
    kernel(50).sum().backward()
    assert float(kernel.C.grad[0, 3, 1, 0]) == pytest.approx(float(change), abs=1e-3)  # type: ignore[index]


def test_half_precision_stays_near(network: ecgcpc.Cpc) -> None:
    x = signal(600)
    with torch.autocast("cpu", torch.bfloat16):
        half = run(network, x).pooled
    torch.testing.assert_close(half.float(), run(network, x).pooled, atol=0.1, rtol=0)


def test_every_parameter_is_in_one_group(network: ecgcpc.Cpc) -> None:
    groups = ecgcpc.CARD.groups
    assert all(
        sum(n.startswith(prefixes) for prefixes in groups.values()) == 1
        for n, _ in network.named_parameters()
    )


@pytest.mark.parametrize("shape", [(1, 11, 600), (1, 12, 0), (12, 600), (1, 12, 2401)])
def test_other_shapes_and_longer_windows_are_refused(
    network: ecgcpc.Cpc, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="ECG-CPC reads"):
        network(torch.zeros(shape), torch.ones(1, 12, dtype=torch.bool))


def test_an_absent_lead_is_refused(network: ecgcpc.Cpc) -> None:
    measured = ALL.clone()
    measured[1, 3] = False
    with pytest.raises(ValueError, match="has no mask"):
        network(signal(600), measured)
