"""Files of `ecgbench profile`: what is drawn is the CSV, medians over 1 to 12 leads, padded
networks in one line, signs escaped.
"""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from ecgbench import reports
from ecgbench.errors import BadSetting
from ecgbench.profile import cost
from ecgbench.profile import stored as profile
from ecgbench.profile.stored import Costs

pytestmark = pytest.mark.rendered
THROUGHPUT = {f"throughput.{kind}" for kind in ("png", "svg", "pdf")}


def row(model: str, leads: int, latency: float | None) -> dict[str, Any]:
    made: dict[str, Any] = {"model": model, "leads": leads, "samples": 500, "peak_mb": None}
    made |= {"device": "Some CPU, 2 threads", "batch": 4 if latency else None}
    made |= {"params_backbone_m": 7.104, "params_with_head_m": 7.107845}
    made |= {"gflop_forward": 0.6 * leads, "gflop_forward_paper": None}
    made |= {"gflop_backward": None if model == "odd_one" else 1.25}
    return made | {
        "throughput_samples_s": latency and 1000 / latency,
        "latency_ms_sample": latency,
    }


def costs(timed: bool = True) -> Costs:
    rows = [row("laef", n, 2.0 * n if timed else None) for n in range(1, 13)] + [
        row("odd_one", n, 8.0 if timed else None) for n in range(1, 13)
    ]
    titles = {"laef": "LAEF", "odd_one": "Odd_one & co"}
    about = {"device": "Some CPU, 2 threads", "torch": "2.9"}
    lost: Any = {"unknown": {"odd_one": {"aten::sort": 3}}, "failed": {"bad": "it | broke"}}
    return Costs(rows=rows, titles=titles, any_leads=["laef"], about=about, **lost)


def draw(measured: Costs, to: Path) -> dict[str, Path]:
    """What `ecgbench profile` leaves, by name."""
    measured.paper = cost.with_the_paper(measured.rows)
    kept = profile.save(measured, to)
    return {path.name: path for path in [kept, *reports.write(reports.read(to), to)]}


def test_tables_round_and_the_csv_does_not(tmp_path: Path) -> None:
    written = draw(costs(), tmp_path)
    tables = {f"cost.{kind}" for kind in ("csv", "md", "tex", "json")}
    assert set(written) == tables | {*THROUGHPUT, "index.html"}
    rows = list(csv.DictReader(io.StringIO(written["cost.csv"].read_text())))
    assert len(rows) == 25
    assert rows[24]["leads"] == "median"
    assert float(rows[24]["latency_ms_sample"]) == 13
    assert rows[0]["params_with_head_m"] == "7.107845"
    assert (rows[0]["gflop_forward_paper"], rows[12]["gflop_backward"]) == ("", "")
    md = written["cost.md"].read_text()
    assert "| LAEF | 2 | 500 | 7.1 | 7.1 | 1.200 | -- | 1.250 | -- | 250.0 | 4.000 |" in md
    assert md.count("Odd\\_one \\& co | 1–12 |") == 1
    assert "aten::sort (3 calls)" in md
    assert "it \\| broke" in md
    tex = written["cost.tex"].read_text()
    assert r"Odd\_one \& co & 1--12 & 500" in tex


def test_what_was_measured_is_read_back_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    profile.save(costs(), tmp_path)
    assert profile.read(tmp_path) == costs()
    file = tmp_path / "cost.json"
    written = file.read_text()
    for spoilt in ('{"rows": ', "[]", re.sub(r'("gflop_forward": )\d', r"\g<1>9", written)):
        file.write_text(spoilt)
        with pytest.raises(BadSetting, match=r"cost\.json .* ecgbench profile"):
            reports.read(tmp_path)
