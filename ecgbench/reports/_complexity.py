"""LAEF's graph by leads and segments: complexity.csv, complexity.md, and the counted and the measured cost beside the paper's formula."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgbench.files import put
from ecgbench.profiling.complexity import COLUMNS
from ecgbench.reports import _form, lead_curve
from ecgbench.reports._cost import lead_axis
from ecgbench.reports._form import Fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = (
    ("nodes", "Nodes LS", 1, 0), ("edges_intra", "Intra", 1, 0), ("edges_inter", "Inter", 1, 0),
    ("edges_directed", "Directed, loops", 1, 0), ("cost_paper", "LS² + SL²", 1, 0), ("cost_complete_graph", "(LS)²", 1, 0),
    ("flop_message_passing", "Passing (MFLOP)", 1e6, 2), ("flop_per_edge_channel", "FLOP/(edge × channel)", 1, 1),
    ("flop_maps", "Maps (MFLOP)", 1e6, 1), ("ms_message_passing", "Passing (ms)", 1, 3), ("ms_layers", "Both layers (ms)", 1, 3),
)  # fmt: skip


def draw(found: Fact, folder: Path) -> list[Path]:
    """Write complexity.csv, .md, .png and .svg from what `profiling.complexity.measure` gives."""
    with _figure(found) as figure:
        pictures = {kind: lead_curve._bytes(figure, kind) for kind in ("png", "svg")}
    made: dict[str, str | bytes] = {"csv": _form.table_text(COLUMNS, found["rows"]), "md": markdown_text(found), **pictures}
    return [put(folder / f"complexity.{kind}", content) for kind, content in made.items()]


def markdown_text(found: Fact) -> str:
    """complexity.md."""
    heads = ["S", "L", *(head for _, head, _, _ in _SHOWN)]
    lines = [heads, ["--:"] * len(heads)]
    for row in found["rows"]:
        cells = ["--" if row[key] is None else f"{row[key] / unit:,.{digits}f}" for key, _, unit, digits in _SHOWN]
        lines.append([str(row["segments"]), str(row["leads"]), *cells])
    title = "LAEF's two graph layers (GATv2) by measured leads L and segments S; one window."
    parts = [title, "", *(f"| {' | '.join(line)} |" for line in lines), ""]
    return "\n".join([*parts, *(f"- {_form.markdown(words)}" for words in _about(found)), ""])


def _about(found: Fact) -> Iterator[str]:
    counts = sorted({row["leads"] for row in found["rows"]})
    intra = sum(counts) / len(counts) / 12
    inter = sum(n * (n - 1) for n in counts) / len(counts) / (12 * 11)
    yield (
        "Edges as the paper counts them, undirected: within leads L S(S-1)/2, between leads at the same time step S L(L-1)/2. The "
        "network's graph is directed and has self-loops: L S² + S L(L-1)."
    )
    yield (
        f"With L uniform on 1 to 12 the expected edges are E[L]/12 = {intra:.3f} of those at 12 leads within leads, and "
        f"E[L(L-1)]/(12·11) = {inter:.3f} of those between leads."
    )
    yield (
        "The complete graph of a transformer has (LS)² pairs. The paper's formula, (LS² + SL²)/(LS)² = 1/L + 1/S, counts self-loops twice "
        "and exceeds 1 at L = 1; the share of directed edges with loops in the network's graph is 1/L + 1/S - 1/(LS)."
    )
    yield (
        f"Passing: scores, softmax and sums over neighbours of both layers ({found['channels']} channels), without their linear maps, as "
        "our network executes them. FLOP for each edge and channel hardly depend on L or S where the paper's formula holds; 16 of them are "
        "one product with a block-diagonal matrix that serves all eight heads."
    )
    batch = next((row["batch"] for row in found["rows"] if row["batch"] is not None), None)
    timed = f"; time per window, median of repeated passes of a batch of {batch}, inference mode, not compiled" if batch else "; not timed"
    yield f"Device: {found['about']['device']}, torch {found['about']['torch']}{timed}. Random weights."


@contextmanager
def _figure(found: Fact) -> "Iterator[Figure]":
    import textwrap

    import matplotlib
    from matplotlib.figure import Figure

    timed = any(row["ms_layers"] is not None for row in found["rows"])
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change a published figure
        matplotlib.rcParams.update(lead_curve._STYLE)
        figure = Figure(figsize=(9.6, 4.4) if timed else (7.4, 4.6), layout="constrained", facecolor="white")
        axes = figure.subplots(1, 2 if timed else 1, squeeze=False).ravel().tolist()
        segments = sorted({row["segments"] for row in found["rows"]})
        _panel(axes[0], found["rows"], segments, "flop_message_passing", 1e6)
        axes[0].set(ylabel="message passing, MFLOP", title="Counted")
        if timed:
            _panel(axes[1], found["rows"], segments, "ms_message_passing", 1)
            axes[1].set(ylabel="message passing, ms", title="Measured")
        words = "Both graph layers of LAEF, one window. Solid: message passing without the linear maps. Dashed: the paper's L S² + S L², "
        words += f"scaled to meet it at 12 leads and S = {segments[-1]}. Dotted: a complete graph, (L S)², by the same scale. "
        words += f"{found['about']['device']}."
        figure.supxlabel(textwrap.fill(words, 140 if timed else 108), fontsize=7.5, color="#444444", x=0.01, ha="left")
        handles = [lead_curve._handle(at, {"label": f"S = {s} segments", "random": False}) for at, s in enumerate(segments)]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=2.4)
        yield figure


def _panel(ax: Any, rows: Sequence[Fact], segments: Sequence[int], key: str, unit: float) -> None:
    from matplotlib.ticker import FormatStrFormatter, NullFormatter

    last = max(rows, key=lambda row: (row["segments"], row["leads"]))
    scale = last[key] / unit / last["cost_paper"]
    for at, s in enumerate(segments):
        mine = [row for row in rows if row["segments"] == s]
        leads, look = [row["leads"] for row in mine], lead_curve._look(at)
        ax.plot(leads, [row[key] / unit for row in mine], linewidth=1.6, markersize=5, zorder=3, **look)
        thin = {"linewidth": 1.1, "color": look["color"], "alpha": 0.8}
        ax.plot(leads, [scale * row["cost_paper"] for row in mine], linestyle="--", **thin)
        ax.plot(leads, [scale * row["cost_complete_graph"] for row in mine], linestyle=":", **thin)
    lead_axis(ax, [row["leads"] for row in rows])
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("measured leads L")
