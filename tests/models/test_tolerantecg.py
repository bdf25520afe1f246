"""What TolerantECG has met before."""

from ecgbench.models import tolerantecg


def test_it_has_met_the_noise_of_the_noise_database() -> None:
    assert "NSTDB" in tolerantecg.CARD.corpora
    assert "commercial" in tolerantecg.CARD.weights[0].terms
