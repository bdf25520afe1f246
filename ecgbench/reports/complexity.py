"""Complexity: LAEF's graph by leads and segments, its counted and its measured cost beside the
paper's formula.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ecgbench.reports import (
    Column,
    Figure,
    Numbers,
    ReportCard,
    Row,
    Section,
    Table,
    handle,
    lead_axis,
    look,
)
from ecgbench.results.profile import COMPLEXITY, Complexity, Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

CARD = ReportCard(
    title="Complexity",
    summary="LAEF's graph by leads and segments, counted and measured, beside the paper's formula",
    reads="profile",
    order=20,
)
_SHOWN = (
    ("nodes", "Nodes LS", 1, 0),
    ("edges_intra", "Intra", 1, 0),
    ("edges_inter", "Inter", 1, 0),
    ("edges_directed", "Directed, loops", 1, 0),
    ("cost_paper", "LS² + SL²", 1, 0),
    ("cost_complete_graph", "(LS)²", 1, 0),
    ("flop_message_passing", "Passing (MFLOP)", 1e6, 2),
    ("flop_per_edge_channel", "FLOP/(edge × channel)", 1, 1),
    ("flop_maps", "Maps (MFLOP)", 1e6, 1),
    ("ms_message_passing", "Passing (ms)", 1, 3),
    ("ms_layers", "Both layers (ms)", 1, 3),
)
"""Columns for readers: name in complexity.csv, heading, unit, decimals."""
_PANELS = (
    ("Counted", "flop_message_passing", 1e6, "MFLOP"),
    ("Measured", "ms_message_passing", 1.0, "ms"),
)


def sections(profile: Profile) -> list[Section]:
    """The table and its figure."""
    complexity = profile.complexity
    if complexity is None:
        return []
    shown = [
        Column(key, head, "number", partial(_number, unit, digits))
        for key, head, unit, digits in _SHOWN
    ]
    table = Table(
        name="complexity",
        caption="LAEF's two graph layers (GATv2) by measured leads L and segments S; one window.",
        columns=[Column("segments", "S", "number"), Column("leads", "L", "number"), *shown],
        rows=complexity.rows,
        notes=list(_about(complexity)),
        numbers=Numbers(
            columns=COMPLEXITY,
            rows=complexity.rows,
            summary="one row per number of leads and window",
        ),
    )
    timed = any(row["ms_layers"] is not None for row in complexity.rows)
    figure = Figure(
        name="complexity",
        draw=partial(_draw, complexity, timed),
        caption=_caption(complexity),
        size=(9.6, 4.4) if timed else (7.4, 4.6),
    )
    return [
        Section(
            name="complexity",
            title="Cost of LAEF's graph layers",
            short=CARD.title,
            parts=[figure, table],
        )
    ]


def _number(unit: float, digits: int, value: float) -> str:
    return f"{value / unit:,.{digits}f}"


def _about(complexity: Complexity) -> Iterator[str]:
    counts = sorted({row["leads"] for row in complexity.rows})
    intra = sum(counts) / len(counts) / 12
    inter = sum(n * (n - 1) for n in counts) / len(counts) / (12 * 11)
    yield (
        "Edges as the paper counts them, undirected: within leads L S(S-1)/2, between leads at "
        "the same time step S L(L-1)/2. The "
        "network's graph is directed and has self-loops: L S² + S L(L-1)."
    )
    yield (
        f"With L uniform on 1 to 12 the expected edges are E[L]/12 = {intra:.3f} of those at 12 "
        f"leads within leads, and E[L(L-1)]/(12·11) = {inter:.3f} of those between leads."
    )
    yield (
        "The complete graph of a transformer has (LS)² pairs. The paper's formula, (LS² + "
        "SL²)/(LS)² = 1/L + 1/S, counts self-loops twice and exceeds 1 at L = 1; the share of "
        "directed edges with loops in the network's graph is 1/L + 1/S - 1/(LS)."
    )
    yield (
        f"Passing: scores, softmax and sums over neighbours of both layers ({complexity.channels} "
        "channels), without their linear maps, as our network executes them. FLOP for each edge "
        "and channel hardly depend on L or S where the paper's formula holds; 16 of them are one "
        "product with a block-diagonal matrix that serves all eight heads."
    )
    batch = next((row["batch"] for row in complexity.rows if row["batch"] is not None), None)
    timed = (
        f"time per window, median of repeated passes of a batch of {batch}, inference mode, not "
        "compiled"
    )
    yield (
        f"Device: {Profile(complexity=complexity).device}; {timed if batch else 'not timed'}. "
        "Random weights."
    )


def _caption(complexity: Complexity) -> str:
    most = max(row["segments"] for row in complexity.rows)
    return (
        "Both graph layers of LAEF, one window. Solid: message passing without the linear maps. "
        f"Dashed: the paper's L S² + S L², scaled to meet it at 12 leads and S = {most}. Dotted: a "
        f"complete graph, (L S)², by the same scale. {complexity.about['device']}."
    )


def _draw(complexity: Complexity, timed: bool, sheet: "Sheet") -> list[Any]:
    axes = sheet.subplots(1, 2 if timed else 1, squeeze=False).ravel().tolist()
    segments = sorted({row["segments"] for row in complexity.rows})
    for ax, (title, key, unit, name) in zip(axes, _PANELS):
        _panel(ax, complexity.rows, segments, key, unit)
        ax.set(ylabel=f"message passing, {name}", title=title)
    return [handle(f"S = {s} segments", at) for at, s in enumerate(segments)]


def _panel(ax: Any, rows: Sequence[Row], segments: Sequence[int], key: str, unit: float) -> None:
    from matplotlib.ticker import FormatStrFormatter, NullFormatter

    last = max(rows, key=lambda row: (row["segments"], row["leads"]))
    scale = last[key] / unit / last["cost_paper"]
    for at, s in enumerate(segments):
        mine = [row for row in rows if row["segments"] == s]
        leads, style = [row["leads"] for row in mine], look(at)
        ax.plot(
            leads, [row[key] / unit for row in mine], linewidth=1.6, markersize=5, zorder=3, **style
        )
        thin = {"linewidth": 1.1, "color": style["color"], "alpha": 0.8}
        ax.plot(leads, [scale * row["cost_paper"] for row in mine], linestyle="--", **thin)
        ax.plot(leads, [scale * row["cost_complete_graph"] for row in mine], linestyle=":", **thin)
    lead_axis(ax, [row["leads"] for row in rows])
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("measured leads L")
