"""Beside the paper: our scores and what the paper prints, what differs besides, and its
claims recomputed from its own tables (ecgbench/published/).
"""

from ecgbench.published import PAPER
from ecgbench.reports import ReportCard, Section, _against
from ecgbench.results.study import Study

CARD = ReportCard(
    title="Beside the paper",
    summary="scores beside those of the paper that introduced LAEF, with `--against paper`",
    reads="run",
    order=45,
    asked_by="--against paper",
)


def sections(study: Study) -> list[Section]:
    """Rows, means, a scatter and the claims."""
    return _against.sections(study, PAPER)
