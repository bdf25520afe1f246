"""Rows of cost.csv: which process measures what, the paper's figures and ours, plug-ins that
fail, LAEF's graph.
"""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from ecgbench import models
from ecgbench.profile import cost, model

TINY = Path(__file__).parents[1] / "tiny.py"


class Silent:
    def note(self, text: str) -> None: ...

    def stage(self, text: str, total: int, unit: str) -> AbstractContextManager[Any]:
        return nullcontext(lambda n: None)


@pytest.fixture(autouse=True)
def _leave_no_plug_in():
    yield
    models.ROOM.forget()


@pytest.mark.long
def test_a_plug_in_is_measured_and_one_that_fails_costs_itself_only(tmp_path: Path) -> None:
    broken, raises = tmp_path / "broken.py", "raise RuntimeError('no kernel')\n        x = F.gelu"
    broken.write_text(TINY.read_text().replace("x = F.gelu", raises))
    names = [models.resolve(str(broken)), models.resolve(str(TINY))]
    found = cost.measure(names, [2, 12], "cpu", 2, True, Silent())
    assert list(found.failed) == ["broken"]
    assert "no kernel" in found.failed["broken"]
    assert [(r["model"], r["leads"], r["samples"], r["batch"]) for r in found.rows] == [
        ("tiny", 2, 250, 2),
        ("tiny", 12, 250, 2),
    ]
    first = found.rows[0]
    steps = (61, 19)
    linear = 2 * (steps[0] * 24 * 12 * 9 + steps[1] * 48 * 24 * 5 + 96 * 5)
    assert first["gflop_forward_paper"] is None
    assert linear / 1e9 < first["gflop_forward"] < 1.1 * linear / 1e9
    assert linear < 1e9 * first["gflop_backward"] < 2 * linear  # the signal has no gradient
    assert (first["params_backbone_m"], first["params_with_head_m"]) == pytest.approx(
        (0.008616, 0.009101)
    )
    assert first["throughput_samples_s"] * first["latency_ms_sample"] == pytest.approx(1000)
    assert first["latency_ms_sample"] > 0
    assert "thread" in first["device"]
    assert first["peak_mb"] is None or 0 < first["peak_mb"] < 500


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [n for n in models.names() if models.ROOM.built_in(n) and models.get(n).CARD.parameters]
)
def test_no_operator_of_an_own_model_is_without_a_rule(name: str) -> None:
    """Forward and backward; and what runs is near what the paper's rule counts, since our networks
    do nothing essential twice.
    """
    found = model.measure(name, "", [12], "cpu", 1, timed=False)
    assert found["unknown"] == {}
    (got,) = found["rows"]
    assert 0.9 < got["gflop_forward"] / got["gflop_forward_paper"] < 1.1
    assert 1.8 < got["gflop_backward"] / got["gflop_forward"] < 2.3
