"""Beside the reference benchmark: our scores and those that it published at 12 leads, what differs
besides, and its claims recomputed from its own tables (ecgbench/published/).
"""

from ecgbench.published import FMB
from ecgbench.reports import ReportCard, Section, _against
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Beside the reference benchmark",
    summary="scores beside those of the reference benchmark at 12 leads, with `--against fmb`",
    reads="run",
    order=46,
    asked_by="--against fmb",
)


def sections(study: Study) -> list[Section]:
    """Rows, means, a scatter and the claims."""
    return _against.sections(study, FMB)
