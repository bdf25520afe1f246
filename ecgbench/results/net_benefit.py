"""What flagging is worth at stated threshold probabilities, label by label."""

from ecgbench.results.by_label import Own, Question
from ecgbench.stats.clustered import Estimate, mean
from ecgbench.stats.operating import net_benefit

CHANCES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Threshold probabilities."""


class NetBenefit(Question):
    """Keys are the threshold probabilities as printed."""

    name = "net benefit"
    keys = tuple(map(str, CHANCES))

    def answers(self, own: Own, key: str) -> dict[str, Estimate | float]:
        """Mean over lead draws and fits."""
        chance = float(key)
        made = [net_benefit(o.target, o.probability >= chance, o.patients, chance) for o in own]
        return {"net_benefit": mean(made)}
