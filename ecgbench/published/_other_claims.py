"""Claims of the paper about its cost table and its ablations."""

from collections.abc import Iterator

from ecgbench.published._claim import Claim, signed
from ecgbench.published._scores import OURS
from ecgbench.published.tables import MODELS, ablations, cost


def of_costs() -> Iterator[Claim]:
    """Those on parameters, FLOP and speed."""
    rows = cost()
    ours = {row["leads"]: row for row in rows if row["model"] == OURS}
    others = [row for row in rows if row["model"] != OURS]
    small = float(ours["12"]["params_m"])
    larger = sorted((float(row["params_m"]) / small, MODELS[row["model"]]) for row in others)[-3:]
    yield Claim(
        where="abstract, introduction, results",
        says="on a par with models over 12 times larger",
        found=", ".join(f"{name} {times:.1f} times" for times, name in larger),
        agrees="yes" if larger[0][0] > 12 else "in part",
    )
    fastest = max(others, key=lambda row: float(row["throughput_samples_s"]))
    yield Claim(
        where="supplement, computational efficiency",
        says="best throughput and latency at L ≤ 2",
        found=(
            f"at 1 lead {ours['1']['throughput_samples_s']} samples/s against "
            f"{fastest['throughput_samples_s']} of {MODELS[fastest['model']]}; 2 leads are not "
            f"printed"
        ),
        agrees="in part",
    )
    ratios = [
        f"{MODELS[row['model']]} {float(row['gflop_backward']) / float(row['gflop_forward']):.2f}"
        + (f" (L = {row['leads']})" if row["model"] == OURS else "")
        for row in rows
    ]
    yield Claim(
        where="cost table, column B",
        says="GFLOP of the backward pass",
        found=(
            f"as a multiple of the forward pass: {', '.join(ratios)}; 3 is forward and backward "
            f"together, 2 backward alone"
        ),
        agrees="no",
    )


def of_ablations() -> Iterator[Claim]:
    """Those on topology, size, codebook and dropout."""
    found = ablations()
    names = {"gat": "GAT", "gin": "GIN", "graph_transformer": "Graph Transformer"}
    names |= {"snn": "SNN", "sheaf_attention_v1": "SA V1", "sheaf_attention_v2": "SA V2"}
    own = {name: found["encoder_x_topology", f"{name}/spatiotemporal"] for name in names}
    gaps = {
        name: own[name] - found["encoder_x_topology", f"{name}/fully_connected"] for name in names
    }
    yield Claim(
        where="ablation study",
        says="the topology gains up to 8.3 points for GAT and 8.0 for GIN",
        found=", ".join(f"{names[name]} {signed(gap)}" for name, gap in gaps.items()),
        agrees="in part",
    )
    yield Claim(
        where="ablation study",
        says="GAT is 3.0 points above GIN and 3.7 above Graph Transformer",
        found=f"{signed(own['gat'] - own['gin'])} and "
        f"{signed(own['gat'] - own['graph_transformer'])}",
        agrees="yes",
    )
    for study, said, words in (
        ("layers_x_channels", "2/768", "2 layers of 768 channels are best, 0.951"),
        ("codebook_stage2_x_pdrop", "500/0.2", "C' = 500 with dropout 0.2 is best, 0.964"),
    ):
        own = {setting: value for (name, setting), value in found.items() if name == study}
        best = max(own, key=lambda setting: own[setting])
        yield Claim(
            where="supplement, ablations",
            says=words,
            found=f"{best}: {own[best]:.3f}",
            agrees="yes" if best == said else "no",
        )
