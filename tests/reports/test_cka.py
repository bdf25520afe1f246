"""The report of CKA: its numbers again from what the run stored, one record a patient."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from ecgbench import reports
from ecgbench.reports import cka as report
from ecgbench.results.study import read
from ecgbench.stats.cka import cka

pytestmark = [pytest.mark.rendered, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def run(typed: Callable[..., int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cka") / "run"
    words = ("--leads", "1,12,II", "--seeds", "2", "--policy", "zero,copy,mean", "--limit", "180")
    assert typed(out, *words) == 0
    return out


def test_every_number_again_from_the_stored_features(run: Path) -> None:
    study = read(run)
    (section,) = reports.sections("cka", study)
    tables = {part.name: part for part in section.parts if part.kind == "table"}
    stays = {(r["first"], r["leads"]): r for r in tables["cka_stability"].rows}
    assert len(stays) == 3 * 2
    for policy in ("zero", "copy", "mean"):
        whole = study.result("demo", "tiny", "12", policy)
        values = []
        for setting in ("1@seed0", "1@seed1"):
            part = study.result("demo", "tiny", setting, policy)
            (names, x), (again, y) = whole.features(), part.features()
            assert names == again
            patients = whole.predictions().set_index("record")["patient"]
            first = pd.Series(names).groupby(patients[names].to_numpy()).min()
            rows = [names.index(r) for r in sorted(first)]
            assert len(rows) < len(names), "some patients have two records"
            values.append(cka(x[rows], y[rows]))
        row = stays[f"Tiny {policy} (random weights)", "1"]
        assert row["cka"] == pytest.approx(np.mean(values), abs=1e-9)
        assert row["sd"] == pytest.approx(np.std(values, ddof=1), abs=1e-9)
        assert (row["draws"], row["patients"]) == (2, len(rows))
        assert row["low"] < values[0] < row["high"]
        assert 1 / 201 <= row["p"] <= 1
        assert row["within"] is None
    pairs = {(r["first"], r["second"], r["leads"]): r for r in tables["cka_pairs"].rows}
    assert len(pairs) == 3 * 3
    # with all leads nothing is filled, so all policies give the same features
    assert pairs["Tiny zero (random weights)", "Tiny copy (random weights)", "12"][
        "cka"
    ] == pytest.approx(1, abs=1e-9)
    assert pairs["Tiny zero (random weights)", "Tiny mean (random weights)", "1"]["cka"] < 0.999
    figures = {part.name for part in section.parts if part.kind == "figure"}
    assert figures == {"cka"}


def test_records_that_show_a_model_nothing_are_left_out_beside(tmp_path: Path) -> None:
    """Half of the records give one side the same features: they look alike, and are not seen."""
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 6))
    y = random.normal(size=(200, 6))
    y[::2] = y[0]
    names = [f"r{i}" for i in range(200)]
    table = pd.DataFrame({"record": names, "patient": names})

    def side(features: np.ndarray, blind: float) -> SimpleNamespace:
        return SimpleNamespace(
            features=lambda: (names, features.astype(np.float32)),
            predictions=lambda: table,
            document={"blind": blind},
            content=f"{blind} {features[0, 0]}",
            cell=SimpleNamespace(identity=str(blind)),
        )

    found = report.alike(side(x, 0.0), side(y, 0.5))  # type: ignore[arg-type]
    assert found["patients_seen"] == 100
    x32, y32 = x.astype(np.float32), y.astype(np.float32)
    assert found["seen"] == pytest.approx(cka(x32[1::2], y32[1::2]), abs=1e-9)
    assert found["cka"] == pytest.approx(cka(x32, y32), abs=1e-9)
    sighted = report.alike(side(x, 0.0), side(random.normal(size=(200, 6)), 0.0))  # type: ignore[arg-type]
    assert np.isnan(sighted["seen"])
