"""ECG-CPC's kernel against the state space and the authors' arrays, and what its network does in
training and in time.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ecgbench.models import ecgcpc
from tests.models.packs import filled, golden, near, signal

GOLDEN = golden("ecgcpc")
ALL = torch.ones(2, 12, dtype=torch.bool)
FIRST = "predictor.predictor.s4_layers.0"


@pytest.fixture(scope="module")
def network() -> ecgcpc.Cpc:
    made: ecgcpc.Cpc = filled("ecgcpc")
    return made


def kernel_of(network: ecgcpc.Cpc) -> ecgcpc.Kernel:
    kernel = network.get_submodule(f"{FIRST}.kernel.kernel")
    assert isinstance(kernel, ecgcpc.Kernel)
    return kernel


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


def test_constants_are_buffers(network: ecgcpc.Cpc) -> None:
    assert sum(b.numel() for b in network.buffers()) == 81_300
    assert all(t.is_contiguous() for t in network.state_dict().values())


@torch.inference_mode()
def test_earlier_tokens_do_not_see_later_ones_and_the_kernel_follows_its_weights(
    network: ecgcpc.Cpc,
) -> None:
    x = signal("ecg-cpc", 600)
    whole, changed = network(x, ALL), x.clone()
    changed[:, :, 400:] = 0
    near(network(changed, ALL).sequence[:, :199], whole.sequence[:, :199], 2e-5)
    for name in ("kernel.kernel.C", "kernel.kernel.log_dt", "D"):
        tensor = network.state_dict()[f"{FIRST}.{name}"]
        kept = tensor.clone()
        tensor.mul_(0.5)
        assert float((network(x, ALL).pooled - whole.pooled).abs().max()) > 1e-3
        tensor.copy_(kept)
    assert torch.equal(network(x, ALL).pooled, whole.pooled)


def test_training_leaves_out_whole_channels() -> None:
    network, seen = filled("ecgcpc").train(), []
    hook = network.get_submodule(f"{FIRST}.output_linear.0").register_forward_pre_hook(
        lambda _, args: seen.append(args[0])
    )
    network(signal("ecg-cpc", 120), ALL)
    hook.remove()
    zero = seen[0] == 0  # GELU gives a few zeros of its own
    left_out = float(zero.all(1).float().mean())
    assert left_out == pytest.approx(0.2, abs=0.05)
    assert left_out == pytest.approx(float(zero.float().mean()), abs=0.01)


def test_the_gradient_of_c_through_kept_responses_is_that_of_the_kernel() -> None:
    kernel = kernel_of(filled("ecgcpc")).requires_grad_(True)
    with torch.no_grad():
        moved = kernel.C.clone()
        moved[0, 3, 1, 0] += 1
        change = torch.func.functional_call(kernel, {"C": moved}, (50,)).sum() - kernel(50).sum()
    kernel(50).sum().backward()
    assert float(kernel.C.grad[0, 3, 1, 0]) == pytest.approx(float(change), abs=1e-3)  # type: ignore[index]
