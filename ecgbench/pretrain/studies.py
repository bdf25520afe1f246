"""The studies that the paper prints, cell by cell; a cell is named as in `published.ablations`.

Cells that the paper leaves empty are none here, and those that cannot be made from what it says are
named with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from ecgbench.core.registry import plain
from ecgbench.errors import UnknownName
from ecgbench.pretrain.lead_sampling import EQUAL
from ecgbench.pretrain.probes import Kind


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One row of a study."""

    name: str
    changes: Mapping[str, Any]
    """Of the recipe, see `Recipe.changed`."""
    probe: Kind = "frozen"


@dataclass(frozen=True, kw_only=True)
class Study:
    """Cells that are compared with one another."""

    name: str
    title: str
    summary: str
    published: str
    """Name of the table among those that the paper prints; "" where it prints none."""
    reference: str
    """The cell with which all others are compared: what the paper went on with."""
    cells: tuple[Cell, ...]
    stage: Literal[1, 2] = 1
    """After which stage its cells are probed; those of stage 2 share one stage 1."""
    not_reproduced: Mapping[str, str] = field(default_factory=dict)
    """Cells that the paper prints and that are not made here -> why."""
    parts: tuple[Fraction, ...] = ()
    """Of the steps, after which its networks are probed besides."""

    def cell(self, name: str) -> Cell:
        """A cell by its name; UnknownName."""
        for cell in self.cells:
            if plain(cell.name) == plain(name):
                return cell
        raise UnknownName(f"cell of {self.name}", name, [c.name for c in self.cells])

    def sizes(self, choice: Literal["codes", "refined"], others: tuple[int, ...]) -> list[int]:
        """Sizes of all codebooks that its cells use; `others`: of cells that choose none."""
        return sorted({c for cell in self.cells for c in cell.changes.get(choice, others)})


def _shaped(name: str, model: str, **shape: Any) -> Cell:
    return Cell(name=name, changes={"model": model, "shape": tuple(sorted(shape.items()))})


_ENCODERS = {
    "gat": "laef_gat",
    "gin": "laef_gin",
    "graph_transformer": "laef_graph_transformer",
    "snn": "laef_sheaf_diffusion",
    "sheaf_attention_v1": "laef_sheaf_attention",
}
_GRAPHS = {"spatiotemporal": "spatiotemporal", "fully_connected": "full"}
_V2 = (
    "the paper prints a second version of sheaf attention and does not say how it differs from "
    "the first"
)
_BOOKS = ((50,), (70,), (100,), (50, 70), (100, 50), (100, 70), (100, 70, 50))
_SECOND = [(codes, drop) for codes in (500, 1000, 1500) for drop in (0.0, 0.1, 0.2)] + [(500, 0.3)]


def _encoded(name: str, encodings: tuple[str, ...], probe: Kind = "frozen") -> Cell:
    shape = (("encodings", encodings),) if encodings else ()
    return Cell(name=name, changes={"shape": shape}, probe=probe)


STUDIES = {
    study.name: study
    for study in (
        Study(
            name="encoders",
            title="Encoders and topologies",
            summary="six encoders of one budget, each on the spatiotemporal and the full graph",
            published="encoder_x_topology",
            reference="gat/spatiotemporal",
            cells=(
                *(
                    _shaped(f"{encoder}/{graph}", model, topology=topology)
                    for encoder, model in _ENCODERS.items()
                    for graph, topology in _GRAPHS.items()
                ),
                _shaped("mlp/none", "laef_mlp", topology="none"),
            ),
            not_reproduced={f"sheaf_attention_v2/{graph}": _V2 for graph in _GRAPHS},
        ),
        Study(
            name="layers",
            title="Layers and channels",
            summary="2, 3 and 4 blocks of 256, 512 and 768 channels",
            published="layers_x_channels",
            reference="2/768",
            cells=tuple(
                _shaped(f"{blocks}/{width}", "laef", blocks=blocks, width=width)
                for blocks in (2, 3, 4)
                for width in (256, 512, 768)
            ),
        ),
        Study(
            name="masking",
            title="Masking ratio",
            summary="0.15 to 0.50 of the nodes of each lead hidden",
            published="mask_ratio",
            reference="0.40",
            cells=tuple(
                Cell(name=f"{percent / 100:.2f}", changes={"ratio": percent / 100})
                for percent in range(15, 55, 5)
            ),
        ),
        Study(
            name="codebooks",
            title="Codebooks of stage 1",
            summary="50, 70 and 100 codes of signal descriptors, alone and together",
            published="codebook_stage1",
            reference="50",
            cells=tuple(
                Cell(name="+".join(map(str, sizes)), changes={"codes": sizes}) for sizes in _BOOKS
            ),
        ),
        Study(
            name="stage2",
            title="Codebooks and edge drop of stage 2",
            summary="500, 1,000 and 1,500 codes of nodes, 0 to 0.3 of the edges left out",
            published="codebook_stage2_x_pdrop",
            reference="500/0.2",
            stage=2,
            cells=tuple(
                Cell(name=f"{codes}/{drop}", changes={"refined": (codes,), "edge_drop": drop})
                for codes, drop in _SECOND
            ),
        ),
        Study(
            name="encodings",
            title="Encodings of lead and time",
            summary="vectors of the leads, frozen in the probe or not, and sines of the time",
            published="encodings",
            reference="none",
            cells=(
                _encoded("none", ()),
                _encoded("lead_frozen_downstream", ("lead",)),
                _encoded("lead", ("lead",), "lead"),
                _encoded("temporal", ("position",)),
                _encoded("lead_frozen_downstream+temporal", ("lead", "position")),
                _encoded("lead+temporal", ("lead", "position"), "lead"),
            ),
        ),
        Study(
            name="lead_sampling",
            title="Lead sampling",
            summary="the same network shown some leads of each recording, or always all twelve",
            published="",
            reference="some",
            cells=(
                Cell(name="some", changes={"shown": "some"}, probe="readings"),
                Cell(name="all", changes={"shown": "all"}, probe="readings"),
            ),
            parts=(EQUAL,),
        ),
    )
}


def get(name: str) -> Study:
    """A study by name; UnknownName."""
    for study in STUDIES.values():
        if plain(study.name) == plain(name):
            return study
    raise UnknownName("study", name, list(STUDIES), "See: ecgbench ablate --help")
