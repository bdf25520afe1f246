"""Counted FLOP beside what can be worked out by hand, and beside torch's own counter where the two
must agree.
"""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ecgbench.profile.flop import FlopCounter, plain_kernels


def counted(run: Callable[[], object]) -> FlopCounter:
    with plain_kernels(), FlopCounter() as counter:
        run()
    return counter


def theirs(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def gradients(module: nn.Module, x: Tensor) -> Callable[[], object]:
    out = module(x)
    wanted = [*module.parameters(), *([x] if x.requires_grad else [])]
    return lambda: torch.autograd.grad(out, wanted, torch.ones_like(out), retain_graph=True)


@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("into", [True, False])
def test_gradients_of_convolutions_whatever_their_groups(
    groups: int, stride: int, into: bool
) -> None:
    conv = nn.Conv1d(16, 32, 5, stride, padding=2, groups=groups)
    x = torch.randn(2, 16, 61, requires_grad=into)
    steps = 61 if stride == 1 else 21
    once = 2 * 2 * steps * 32 * (16 // groups) * 5
    assert counted(lambda: conv(x)).products == once == theirs(lambda: conv(x))
    assert counted(lambda: conv(x)).rest == 2 * 32 * steps  # the bias
    backward = gradients(conv, x)
    assert counted(backward).products == (2 if into else 1) * once
    # torch's counter takes the weight gradient for one of a single group: the reason for a rule of
    # our own
    assert theirs(backward) == (into + groups) * once


def test_products_agree_with_torchs_counter() -> None:
    a, b, v = torch.randn(3, 5, 7), torch.randn(3, 7, 2), torch.randn(7)
    network = nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 4))
    for run in (
        lambda: a @ b,
        lambda: torch.einsum("bij,bjk->bik", a, b),
        lambda: torch.baddbmm(torch.zeros(1), a, b),
        lambda: network(a),
        gradients(network, a.clone().requires_grad_(True)),
    ):
        assert counted(run).products == theirs(run) > 0
    # a product with a vector, which torch's counter leaves out
    assert counted(lambda: a[0] @ v).products == 2 * 5 * 7
    assert counted(lambda: v @ v).products == 2 * 7


def test_fused_attention_forward_and_backward() -> None:
    q, k, v = (torch.randn(2, 3, n, 8, requires_grad=True) for n in (10, 6, 6))
    once = 2 * (2 * 3) * 10 * 6 * 8
    out = F.scaled_dot_product_attention(q, k, v)
    assert "Flash" in type(out.grad_fn).__name__, "the fused operator is what this test is about"
    assert counted(lambda: F.scaled_dot_product_attention(q, k, v)).products == 2 * once
    backward = counted(lambda: torch.autograd.grad(out, (q, k, v), torch.ones_like(out)))
    assert backward.products == 5 * once


@pytest.mark.parametrize(
    ("name", "more"), [("flash", ()), ("efficient", (None, True)), ("cudnn", (None, True))]
)
def test_fused_attention_of_gpus(name: str, more: tuple[object, ...]) -> None:
    q = torch.empty(2, 3, 64, 32, device="meta", dtype=torch.float16)
    fused = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")
    found = counted(lambda: fused(q, q, q, *more))
    assert (found.products, not found.unknown) == (4 * 6 * 64 * 64 * 32, True)


def test_fourier_transforms_and_complex_numbers() -> None:
    x, n = torch.randn(3, 600), 600
    assert counted(lambda: torch.fft.rfft(x)).total == pytest.approx(3 * 2.5 * n * math.log2(n))
    spectrum = torch.fft.rfft(x)
    assert counted(lambda: torch.fft.irfft(spectrum, n=n)).total == pytest.approx(
        3 * 2.5 * n * math.log2(n), rel=0.01
    )
    whole = spectrum[:, :256].contiguous()
    assert counted(lambda: torch.fft.fft(whole)).total == 3 * 5 * 256 * 8
    assert counted(lambda: whole * whole).total == 6 * 3 * 256
    assert counted(lambda: whole + whole).total == 2 * 3 * 256
    assert counted(lambda: whole @ whole.T).products == 4 * 2 * 3 * 3 * 256


def test_everything_else_by_the_element_and_moves_for_nothing() -> None:
    x, n = torch.randn(4, 10), 40
    for run, rate in (
        (lambda: F.gelu(x), 1),
        (lambda: torch.ops.aten.gelu_(x.clone()), 1),
        (lambda: x.mean(), 1),
        (lambda: x > 0, 1),
        (lambda: x.softmax(-1), 5),
        (lambda: F.layer_norm(x, (10,)), 7),
        (lambda: x.var(), 4),
        (lambda: x.abs_().add_(1), 2),
        (lambda: torch.cat([x.T.clone().T, x])[:3].reshape(-1), 0),
        (lambda: torch.where(torch.ones(4, 1, dtype=torch.bool), x, 0.0), 0),
    ):
        assert counted(run).total == rate * n
    assert counted(lambda: F.max_pool1d(x[None], 3, 2, 1)).total == 3 * 4 * 5


def test_inference_mode_counts_the_same() -> None:
    """There composite operators reach the counter whole."""
    first = nn.Sequential(nn.Conv1d(2, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU())
    network = nn.Sequential(first, nn.MaxPool1d(2), nn.Flatten(), nn.Linear(40, 3)).eval()
    x = torch.randn(1, 2, 10)
    with torch.no_grad():
        plain = counted(lambda: network(x))
    with torch.inference_mode():
        inside = counted(lambda: network(x))
    assert (plain.products, plain.rest) == (inside.products, inside.rest)
    assert plain.total
    assert plain.total > plain.products > 0


def test_an_operator_without_a_rule_is_listed_and_spoils_the_total() -> None:
    x = torch.randn(3, 3)
    found = counted(lambda: torch.linalg.inv(x @ x.T + 3 * torch.eye(3)))
    assert found.products > 0
    assert list(found.unknown) == ["aten::linalg_inv_ex"]
    assert found.total is None


@torch.library.custom_op("ecgbench_tests::product", mutates_args={"out"})
def product(x: Tensor, out: Tensor) -> None:
    out.copy_(torch.from_numpy(x.numpy() @ x.numpy()))


def test_fused_modules_are_counted_as_the_operators_they_are_made_of() -> None:
    """Recurrent networks by MKL-DNN, attention and encoder layers by the fast path: whole, and in
    inference mode too.
    """
    x = torch.randn(2, 10, 12)
    lstm, gru = (kind(12, 8, batch_first=True) for kind in (nn.LSTM, nn.GRU))
    attention = nn.MultiheadAttention(12, 2, batch_first=True)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(12, 2, 16, batch_first=True), 2, enable_nested_tensor=False
    )
    maps, scores = 2 * 20 * 4 * 12 * 12, 2 * 2 * 2 * 10 * 10 * 12
    for module, run, products in (
        (lstm, lambda: lstm(x)[0], 2 * 20 * 32 * (12 + 8)),
        (gru, lambda: gru(x)[0], 2 * 20 * 24 * (12 + 8)),
        (attention, lambda: attention(x, x, x)[0], maps + scores),
        (encoder, lambda: encoder(x), 2 * (maps + scores + 2 * 20 * 2 * 12 * 16)),
    ):
        module.eval()
        with torch.no_grad():
            fused = counted(run)
        assert fused.total is not None, fused.unknown
        # some versions pay for the scores' scale as a product
        assert fused.products == pytest.approx(products, rel=0.03)
        with plain_kernels():
            out = run()
        backward = counted(
            lambda out=out, module=module: torch.autograd.grad(out.sum(), list(module.parameters()))
        )
        assert backward.total is not None, backward.unknown
