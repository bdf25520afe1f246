import functools
import os
import shutil
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from ecgbench.layers import compiled
from ecgbench.layers.cached import CachedTensors
from ecgbench.models import laef

compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="no C++ compiler"
)
SHAPES = [(1, 1), (1, 2), (1, 12), (2, 1), (2, 2), (2, 12), (12, 1), (3, 5)]


def network() -> laef.Laef:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return laef.build().eval().requires_grad_(False)


def example(batch: int, leads: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 * batch + leads)
    return torch.rand(batch, leads, 500, generator=generator) * 2 - 1, torch.ones(
        batch, leads, dtype=torch.bool
    )


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> Iterator[tuple[laef.Laef, laef.Laef]]:
    """Eager and compiled, with the same weights; compiled once for the whole file. The compiler's
    output stays in pytest's cache: it is found again by a hash of the code and of torch.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(request.config.cache.mkdir("inductor")))
        eager, compiled = network(), network()
        assert laef.choose_path(eager, laef.REPAID - 1) == "eager"
        assert laef.choose_path(compiled, laef.REPAID) == "compiled"
        yield eager, compiled


@pytest.mark.long
@compiler
def test_one_compilation_serves_every_batch_and_number_of_leads(
    both: tuple[laef.Laef, laef.Laef],
) -> None:
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    differs = []
    with torch.inference_mode():
        for shape in SHAPES:
            signal, measured = example(*shape)
            eager, compiled, again = (n(signal, measured).sequence for n in (*both, both[1]))
            assert torch.equal(compiled, again)
            assert float((eager - compiled).abs().max()) <= 1e-5
            differs.append(not torch.equal(eager, compiled))
    assert any(differs), "nothing ran compiled"
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs


@compiler
def test_with_gradients_it_stays_eager(both: tuple[laef.Laef, laef.Laef]) -> None:
    signal, measured = example(2, 2)
    with torch.no_grad():
        assert torch.equal(*(n(signal, measured).sequence for n in both))


def test_without_a_compiler_it_stays_eager_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    def fails(*args: object, **options: object) -> None:
        raise RuntimeError("no compiler\nand a page of text")

    monkeypatch.setattr(torch, "compile", fails)
    monkeypatch.setattr(compiled, "kernel", functools.cache(compiled.kernel.__wrapped__))
    assert [laef.choose_path(network(), laef.REPAID) for _ in range(2)] == ["eager", "eager"]
    assert [str(w.message) for w in recwarn] == [
        "LAEF runs uncompiled, about a tenth slower: RuntimeError: no compiler"
    ]
    assert laef.choose_path(nn.Linear(1, 1), laef.REPAID) == "eager"


@torch.no_grad()
@pytest.mark.parametrize(
    "change", ["optimiser", "load_state_dict", "in place", "pointed elsewhere", "another type"]
)
def test_what_is_derived_from_parameters_follows_them(change: str) -> None:
    """A stale copy of the weights would give features of a network that is no more."""
    layer, cached = nn.Linear(3, 2), CachedTensors()

    def found() -> Tensor:
        return cached([layer.weight], lambda: [layer.weight.T.contiguous()])[0]

    layer.requires_grad_(False)
    assert found() is found()
    kept = found()
    if change == "optimiser":
        layer.requires_grad_(True)
        layer.weight.grad = torch.ones_like(layer.weight)
        torch.optim.AdamW(layer.parameters()).step()
        layer.requires_grad_(False)
    elif change == "load_state_dict":
        layer.load_state_dict(nn.Linear(3, 2).state_dict())
    elif change == "in place":
        with torch.inference_mode():
            layer.weight.mul_(2)
    elif change == "pointed elsewhere":
        layer.weight.data = layer.weight.data + 1
    else:
        layer.double()
    assert found() is not kept
    assert torch.equal(found(), layer.weight.T)


def test_parameters_in_training_are_read_anew() -> None:
    layer, cached = nn.Linear(3, 2), CachedTensors()
    first, second = (cached([layer.weight], lambda: [layer.weight * 2])[0] for _ in range(2))
    assert first is not second
    assert first.requires_grad


@pytest.mark.long
@compiler
def test_compiled_training_has_the_gradients_of_the_eager_one() -> None:
    """And compiles once more at most for all batches and numbers of leads, with edges dropped."""
    eager, ours = network().requires_grad_(), network().requires_grad_()
    assert ours.compile_training()
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    moved = []
    for batch, leads in SHAPES[2:]:
        signal, measured = example(batch, leads)
        dropped = (
            torch.rand(batch * leads, 20, 20, generator=torch.Generator().manual_seed(1)) < 0.2
        )
        dropped.diagonal(dim1=1, dim2=2).fill_(False)
        gradients = []
        for net in (eager, ours):
            net.zero_grad()
            nodes = net.outputs(net.embed_leads(signal[measured]), measured, [2], dropped)[0]
            nodes.square().sum().backward()
            gradients.append([p.grad.clone() for p in net.parameters()])
        for theirs, mine in zip(*gradients):
            # a pair that is equal but for the last bits may pass its gradient to the other node
            assert float((theirs - mine).norm()) <= 1e-3 * float(theirs.norm()) + 1e-6
            moved.append(not torch.equal(theirs, mine))
    assert any(moved), "nothing ran compiled"
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= graphs + 1
