"""What flagging is worth at stated threshold probabilities, label by label."""

from ecgbench.results.by_label import Answer, Own, Question
from ecgbench.stats.clustered import mean
from ecgbench.stats.operating import net_benefit

CHANCES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Threshold probabilities."""


class NetBenefit(Question):
    """Keys are the threshold probabilities as printed."""

    name = "net benefit"
    keys = tuple(map(str, CHANCES))

    def answers(self, own: Own, key: str) -> dict[str, Answer]:
        """Mean over lead draws and fits."""
        chance = float(key)
        made = [net_benefit(b.target, b.probability >= chance, b.patients, chance) for b in own]
        return {"net_benefit": mean(made)}
