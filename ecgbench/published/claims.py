"""What the sources say in words, recomputed from the numbers that they print themselves.

A claim that does not come out is no verdict on a study: it tells a reader which printed number to
take, and what to compare with. Differences are in points (AUROC x 100).
"""

from ecgbench.published._benchmark_claims import of_the_benchmark
from ecgbench.published._claim import Claim
from ecgbench.published._other_claims import of_ablations, of_costs
from ecgbench.published._score_claims import of_random_leads, of_single_leads
from ecgbench.published._scores import Scores
from ecgbench.published.tables import FMB, extended, lead_i_ii, source


def claims(name: str) -> list[Claim]:
    """The claims of a source that its own numbers can answer; UnknownName."""
    if source(name).name == FMB:
        return list(of_the_benchmark())
    scores, single = Scores(extended()), Scores(lead_i_ii())
    return [
        *of_random_leads(scores),
        *of_single_leads(scores, single),
        *of_costs(),
        *of_ablations(),
    ]
