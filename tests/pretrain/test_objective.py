import copy
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ecgbench.models import laef
from ecgbench.pretrain import masking
from ecgbench.pretrain.objective import MaskedNodes, node_features

CODEBOOKS = (50, 7)
Batch = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""signal, measured, masked, targets, dropped"""


@pytest.fixture(scope="module")
def made() -> MaskedNodes:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MaskedNodes(laef.build(), CODEBOOKS)


@pytest.fixture
def module(made: MaskedNodes) -> Iterator[MaskedNodes]:
    """In training mode, so that edges are dropped, but without dropout, which no two computations
    share.
    """
    module = copy.deepcopy(made).train()
    for block in module.encoder.blocks:
        block.dropout = block.attention.dropout = 0.0  # type: ignore[assignment, union-attr]
    return module


def batch(records: int, seed: int = 0, double: bool = False) -> Batch:
    """Records of all numbers of leads; rows that are not measured hold NaN and targets that no
    codebook has.
    """
    drawn = masking.draw(seed, 0, range(records), edge_drop=0.2)
    assert drawn.dropped is not None
    generator = torch.Generator().manual_seed(seed)
    measured, masked, dropped = map(torch.from_numpy, (drawn.measured, drawn.masked, drawn.dropped))
    signal = (torch.rand(records, 12, 500, generator=generator) * 2 - 1).masked_fill(
        ~measured.unsqueeze(-1), float("nan")
    )
    targets = torch.stack(
        [torch.randint(size, masked.shape, generator=generator) for size in CODEBOOKS]
    ).masked_fill(~masked, -1)
    return signal.double() if double else signal, measured, masked, targets.to(torch.int16), dropped


def one_lead(records: int) -> Batch:
    signal, _, _, targets, dropped = batch(records)
    measured = torch.zeros(records, 12, dtype=torch.bool)
    measured[:, 4] = True
    masked = torch.zeros(records, 12, 20, dtype=torch.bool)
    masked[:, 4, [0, 7, 8, 19]] = True
    return (
        torch.linspace(-1, 1, records * 6000).sin().view(signal.shape),
        measured,
        masked,
        targets.clamp(min=0),
        dropped,
    )


def gradients(module: MaskedNodes, loss: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().abs().max())


def parts(data: Batch, *rows: int) -> Batch:
    signal, measured, masked, targets, dropped = data
    index = list(rows)
    return signal[index], measured[index], masked[index], targets[:, index], dropped[index]


def test_the_encoder_is_the_released_network_and_nothing_more(made: MaskedNodes) -> None:
    assert made.encoder.state_dict().keys() == laef.build().state_dict().keys()
    own = {
        name: tuple(p.shape)
        for name, p in made.named_parameters()
        if not name.startswith("encoder.")
    }
    heads = {
        f"heads.{i}.{kind}": shape
        for i, c in enumerate(CODEBOOKS)
        for kind, shape in (("weight", (c, 768)), ("bias", (c,)))
    }
    assert own == {"mask": (768,), **heads}
    assert made.encoder.embed_leads(torch.zeros(500)).shape[0] == masking.NODES


@pytest.mark.long
def test_a_batch_of_mixed_lead_counts_equals_its_records_one_by_one(module: MaskedNodes) -> None:
    data = batch(9)
    assert len(set(data[1].sum(1).tolist())) > 4
    whole = module(*data)
    ours = gradients(module, whole.loss)
    assert ours.keys() == dict(module.named_parameters()).keys()
    alone = [module(*parts(data, row)) for row in range(9)]
    assert whole.nodes == sum(a.nodes for a in alone) == 8 * int(data[1].sum())
    assert torch.equal(whole.correct, torch.stack([a.correct for a in alone]).sum(0))
    theirs = torch.stack([a.entropy for a in alone]).sum() / whole.nodes
    assert difference(whole.loss, theirs) <= 1e-5
    for name, grad in gradients(module, theirs).items():
        assert difference(ours[name], grad) <= 1e-5 * max(1.0, float(grad.abs().max())), name


@pytest.mark.long
def test_loss_and_gradients_are_those_of_the_edge_list(module: MaskedNodes) -> None:
    """GATv2Conv on the edges that are left, torch's convolutions, and the loss spelled out record
    by record, in double precision.
    """
    pytest.importorskip("torch_geometric")
    module.double()
    data = batch(4, seed=2, double=True)
    signal, measured, masked, targets, dropped = data
    found = module(*data)
    ours = gradients(module, found.loss)
    network = laef.reference(module.encoder)
    total, right = [torch.zeros((), dtype=torch.float64) for _ in CODEBOOKS], [0 for _ in CODEBOOKS]
    for x, leads, hidden, codes, gone in zip(
        signal, measured, masked, targets.transpose(0, 1), dropped
    ):
        tokens = network.embed_leads(x[leads])
        tokens = torch.where(hidden[leads].unsqueeze(-1), module.mask, tokens).unsqueeze(0)
        for block in network.blocks:
            tokens = block(tokens, dropped=gone[leads].unsqueeze(0))
        for i, head in enumerate(module.heads):
            for lead, node in hidden[leads].nonzero().tolist():
                chance = head(tokens[0, lead, node]).log_softmax(0)
                code = int(codes[i, leads][lead, node])
                total[i] = total[i] - chance[code]
                right[i] += int(chance.argmax()) == code
    assert found.correct.tolist() == right
    assert difference(found.entropy, torch.stack(total)) <= 1e-10
    for name, grad in gradients(module, torch.stack(total).sum() / found.nodes).items():
        assert difference(ours[name], grad) <= 1e-11 * max(1.0, float(grad.abs().max())), name


def test_masked_nodes_are_not_seen(module: MaskedNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens of masked nodes get no gradient, those of all others do; samples that only masked
    nodes see change no bit.
    """
    data = signal, _, masked, *_ = one_lead(2)
    seen: list[Tensor] = []
    embed = module.encoder.embed_leads
    with monkeypatch.context() as patch:
        patch.setattr(
            module.encoder,
            "embed_leads",
            lambda x: seen.append(embed(x).detach().requires_grad_()) or seen[-1],
        )
        expected = module(*data)
        expected.loss.backward()
    assert seen[0].grad is not None
    reached = seen[0].grad.abs().amax(-1) > 0
    assert torch.equal(reached, ~masked[:, 4])
    changed = signal.clone()
    # nodes 7 and 8 alone; 6 ends before, 9 begins behind
    changed[:, 4, 24 * 7 + 16 : 24 * 8 + 24] += 1
    assert torch.equal(module(changed, *data[1:]).entropy, expected.entropy)
    changed[:, 4, 24 * 7 + 15] += 1
    assert not torch.equal(module(changed, *data[1:]).entropy, expected.entropy)


def test_dropped_edges_carry_nothing_and_edges_across_leads_stay(module: MaskedNodes) -> None:
    tokens = torch.rand(3, 20, 768, generator=torch.Generator().manual_seed(0)).requires_grad_()
    dropped = torch.zeros(3, 20, 20, dtype=torch.bool)
    dropped[1, 5, 6] = True
    dropped[2] = ~torch.eye(20, dtype=torch.bool)

    def heard(lead: int, node: int) -> Tensor:
        (nodes,) = module.encoder.outputs(tokens, torch.ones(1, 3, dtype=torch.bool), (1,), dropped)
        (grad,) = torch.autograd.grad(nodes[lead, node].sum(), tokens)
        return grad.abs().amax(-1) > 0

    expected = torch.zeros(3, 20, dtype=torch.bool)
    expected[:, 5], expected[1] = True, True
    expected[1, 6] = False
    assert torch.equal(heard(1, 5), expected)
    expected = torch.zeros(3, 20, dtype=torch.bool)
    expected[:, 6], expected[1] = True, True
    assert torch.equal(heard(1, 6), expected), "the other direction is an edge of its own"
    expected = torch.zeros(3, 20, dtype=torch.bool)
    expected[:, 9] = True
    assert torch.equal(heard(2, 9), expected)


def test_edges_are_dropped_in_training_only(module: MaskedNodes) -> None:
    data = batch(3)
    with torch.no_grad():
        dropping, whole = module(*data), module(*data[:4])
        module.eval()
        assert not torch.equal(dropping.entropy, whole.entropy)
        assert torch.equal(module(*data).entropy, whole.entropy)


@torch.no_grad()
def test_rows_that_are_not_measured_change_no_bit(module: MaskedNodes) -> None:
    signal, measured, masked, targets, dropped = batch(4)
    expected = module(signal, measured, masked, targets, dropped)
    everything = masked | ~measured.unsqueeze(-1)
    found = module(
        signal.masked_fill(~measured.unsqueeze(-1), 1e30), measured, everything, targets, dropped
    )
    assert torch.equal(found.entropy, expected.entropy)
    assert found.nodes == expected.nodes


@torch.no_grad()
def test_node_features_are_the_blocks_of_the_network_in_evaluation(module: MaskedNodes) -> None:
    net, signal = module.encoder, one_lead(2)[0]
    tokens, first, second = node_features(net, signal, (0, 1, 2))
    assert net.training
    net.eval()
    assert first.shape == (2, 12, 20, 768)
    assert difference(tokens, net.embed_leads(signal)) <= 1e-5
    assert difference(first, net.blocks[0](tokens)) <= 1e-5
    assert (
        difference(second.flatten(1, 2), net(signal, torch.ones(2, 12, dtype=torch.bool)).sequence)
        <= 1e-5
    )
    x, attention = tokens[:1], net.blocks[0].attention
    by_hand = F.gelu(
        F.layer_norm(x + attention(x), (768,), net.blocks[0].norm.weight, net.blocks[0].norm.bias)
    )  # type: ignore[operator, union-attr]
    assert difference(node_features(net, signal)[0][:1], by_hand) <= 1e-5
