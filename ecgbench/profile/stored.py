"""What `ecgbench profile` measured, as a report reads it: cost.json in the folder it wrote."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ecgbench.core.files import facts_of, proved, put
from ecgbench.core.text import quoted
from ecgbench.errors import BadSetting

COSTS = (
    *("model", "leads", "samples", "device", "batch", "params_backbone_m", "params_with_head_m"),
    *("gflop_forward", "gflop_forward_paper", "gflop_backward", "peak_mb", "throughput_samples_s"),
    "latency_ms_sample",
)
"""Columns of cost.csv. GFLOP of one window; MB of 10^6 bytes for one batch; throughput and latency
of that batch.
"""
PAPER = (
    *("model", "leads", "samples", "params_printed_m", "params_backbone_m", "params_with_head_m"),
    *("params_with_both_heads_m", "gflop_forward_printed", "gflop_forward_paper", "forward_agrees"),
    *("gflop_backward_printed", "gflop_backward_alone", "gflop_forward_and_backward"),
    *("gflop_forward_and_backward_one_group", "backward_rule", "gflop_backward_by_rule"),
    *("peak_mb_printed", "throughput_samples_s_printed", "latency_ms_sample_printed"),
)
"""Columns of cost_paper.csv; what ends in `_printed` is spelled as the paper prints it.
`params_with_both_heads_m`: with the reference benchmark's attention-pooling and linear heads.
"""
CLASSES = 5
"""Outputs of the linear head that is part of every count: ECGFM-KED rounds to the paper's 5.423
GFLOP with three or more.
"""
Row = dict[str, Any]
MEDIAN = "median"
"""In place of a number of leads: the median over 1 to 12 of each."""


def medians(rows: list[Row]) -> list[Row]:
    """A row for each model with rows at all of 1 to 12 leads, of the same keys: medians of what
    differs between them.
    """
    made = []
    for name in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == name]
        if [row["leads"] for row in mine] == list(range(1, 13)):
            of = {k: [row[k] for row in mine] for k, v in mine[0].items() if k != "leads"}
            whole = {k: v[0] if v.count(v[0]) == 12 else median(v) for k, v in of.items()}
            made.append({**mine[0], **whole, "leads": MEDIAN})
    return made


@dataclass(kw_only=True)
class Costs:
    """What models cost."""

    rows: list[Row] = field(default_factory=list)
    """COSTS, and `backward_layers`, `backward_layers_dense` for the comparison with the paper."""
    titles: dict[str, str] = field(default_factory=dict)
    any_leads: list[str] = field(default_factory=list)
    """Models that are measured at each number of leads."""
    about: dict[str, Any] = field(default_factory=dict)
    """device (its name, with the threads of a CPU), torch (its version)."""
    unknown: dict[str, dict[str, int]] = field(default_factory=dict)
    """Model -> operators without a rule and their calls: its counts are empty."""
    uncounted: dict[str, str] = field(default_factory=dict)
    """Model -> why the paper's rule does not apply: its gflop_forward_paper is empty."""
    most: dict[str, int] = field(default_factory=dict)
    """Model that reads any leads, but fewer than the largest number of the command -> how
    many: its rows end there."""
    failed: dict[str, str] = field(default_factory=dict)
    """Model -> why there are no rows."""
    paper: list[Row] = field(default_factory=list)
    """PAPER, for the models and numbers of leads that the paper's cost table has."""

    @property
    def device(self) -> str:
        """Where it was measured, and with which torch."""
        return f"{self.about.get('device', 'none')}, torch {self.about.get('torch', '--')}"


FILE = "cost.json"
"""A folder that holds this is a profile."""


def save(measured: Costs, folder: Path) -> Path:
    """Keep what was measured, for `read`; WriteError."""
    whole = proved(asdict(measured))
    return put(folder / FILE, json.dumps(whole, indent=1, allow_nan=False) + "\n")


def read(folder: Path) -> Costs:
    """A profile; BadSetting where its file is damaged, or is not as it was written."""
    path = folder / FILE
    try:
        return Costs(**facts_of(json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise BadSetting(
            f"{path} cannot be read, or is not as it was written; remove it and run: ecgbench "
            f"profile --to {quoted(folder)}"
        ) from error
