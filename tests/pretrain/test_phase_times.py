"""The table of times."""

import pandas as pd
import pytest

from ecgbench.pretrain.phase_times import ECGS, PAPER, Phase, table


def test_projection_scales_by_recordings_and_training_by_the_papers_steps() -> None:
    phases = [Phase(name, 60.0, 600, "a machine") for name in PAPER]
    rows = table(phases)
    found = pd.DataFrame(rows).set_index("phase")
    assert found.projected_seconds["stage 1: extraction"] == pytest.approx(ECGS / 10)
    assert found.projected_seconds["stage 1: training"] == pytest.approx(80_000 * 448 / 10)
    assert found.projected_seconds["stage 2: training"] == pytest.approx(75_000 * 448 / 10)
    assert list(found.paper_seconds / 3600) == [720, 1, 3, 720, 4.5, 3]
