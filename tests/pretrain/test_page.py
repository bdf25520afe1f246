"""The report of a pre-training: what is drawn is what was kept, t* is the selection's, and nothing
passes for more than it is.
"""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecgbench import reports
from ecgbench.errors import BadWeights, MissingData
from ecgbench.pretrain import stored as pretraining
from ecgbench.reports import records

pytestmark = pytest.mark.rendered

SCORES = ((0.90, 0.9505, 0.9508, 0.94), (0.95, 0.96))
"""Of both stages; in the first, the earliest within 0.001 of the best is not the best."""
STAGE = {
    "adamw": False,
    "batch": 64,
    "edge_drop": 0.0,
    "lr": 0.001,
    "micro": None,
    "probe_every": 100,
}


def kept(step: int, score: float) -> dict[str, Any]:
    layers = [
        {"block": b, "entropy": 0.5 - 0.1 * b, "intra": 0.3 + 0.1 * b + step / 1e4, "inter": 0.2}
        for b in range(3)
    ]
    parts = [0.00064 * (100 * i == step) for i in range(1, 9)]  # any two differ by 0.001
    known = {"step": step, "score": score, "parts": parts, "layers": layers}
    return known | {"encoder": "e" * 64, "seconds": 1.5}


def make(folder: Path, stages: int = 2, dataset: str = "ptbxl") -> Path:
    """A pre-training of 400 and 200 steps; pretraining.json only where both stages are there."""
    recipe = {
        "datasets": [dataset],
        "task": "ptbxl_super",
        "codes": [50],
        "refined": [100, 500],
        "seed": 0,
    }
    recipe |= {
        "stages": [
            STAGE | {"steps": 100 * len(scores), "seed": i} for i, scores in enumerate(SCORES)
        ]
    }
    told: dict[str, Any] = {
        "recipe": recipe | {"name": "small", "digest": "a" * 64},
        "stages": {},
        "made_with": {"version": "0.1.0"},
    }
    for number, scores in list(enumerate(SCORES, 1))[:stages]:
        place, sizes = folder / f"stage{number}", ([50], [100, 500])[number - 1]
        (place / "encoders").mkdir(parents=True)
        for i, score in enumerate(scores, 1):
            (place / f"encoders/{100 * i:06d}.json").write_text(json.dumps(kept(100 * i, score)))
        marks = ",".join(f"accuracy_{i + 1}" for i in range(len(sizes)))
        rows = [
            f"{i},{5 / i},{','.join('0.25' for _ in sizes)},500,0.1,0.0"
            for i in range(1, 100 * len(scores) + 1)
        ]
        (place / "curve.csv").write_text(
            "\n".join([f"step,loss,{marks},nodes,seconds,waiting", *rows, ""])
        )
        rows = [f"{c},{c - 1},{c / 2},8.5,{1 / c},4800" for c in sorted({30, *sizes})]
        (place / "elbow.csv").write_text(
            "\n".join(["codes,used,perplexity,sse,inertia,vectors", *rows, ""])
        )
        known = {"digest": "b" * 64, "entropy": 3.0, "used": 1}
        books = {str(c): known | {"perplexity": c / 2} for c in sizes}
        (place / "codebook.json").write_text(
            json.dumps({"codebooks": books, "description": {"name": "mfcc-paper"}})
        )
        told["stages"][f"stage {number}"] = {"steps": 100 * len(scores), "probing_seconds": 4.5}
    whole: dict[str, Any] = {
        "datasets": {dataset: "c" * 64},
        "corpus": "d" * 64,
        "left_out": {"patient": 3},
    }
    told |= {
        "data": whole | {"records": 17000, "too_short": 2},
        "development": {"task": "ptbxl_super", "train": 800, "validation": 2183},
    }
    told["phases"] = [
        {
            "phase": f"stage {n}: {what}",
            "seconds": 0.1 + 0.2,
            "records": 17000,
            "device": "GPU <b>&_1",
            "projected_records": 9200000,
            "projected_seconds": 7200.0,
            "paper_seconds": 2592000.0,
        }
        for n in (1, 2)
        for what in ("extraction", "clustering", "training")
    ]
    (folder / "recipe.json").write_text(json.dumps({"recipe": recipe} | whole))
    if stages == 2:
        (folder / "pretraining.json").write_text(json.dumps(told))
    return folder


def draw(folder: Path) -> list[Path]:
    """As `ecgbench pretrain` does."""
    return reports.write(reports.read(folder), folder / "report")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished pre-training with its report."""
    folder = make(tmp_path_factory.mktemp("drawn"))
    draw(folder)
    return folder


def figures(folder: Path) -> dict[str, reports.Figure]:
    """Figures of the report by name."""
    parts = (
        part
        for section in reports.sections("pretraining", reports.read(folder))
        for part in section.parts
    )
    return {part.name: part for part in parts if isinstance(part, reports.Figure)}


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def test_the_checkpoint_marked_is_the_one_that_is_selected(drawn: Path) -> None:
    assert [stage.selected["step"] for stage in pretraining.read(drawn).stages] == [200, 200]
    marked = {
        (row["stage"], row["step"])
        for row in rows(drawn / "report/dynamics.csv")
        if row["selected"] == "true"
    }
    assert marked == {("stage 1", "200"), ("stage 2", "200")}


def test_figures_show_the_numbers_of_the_tables(drawn: Path) -> None:
    shown = figures(drawn)
    with reports.drawing(shown["dynamics"]) as figure:
        spread, cosine, probe, _, second, _ = figure.axes
        mine = [row for row in records(shown["dynamics"].numbers) if row["stage"] == "stage 1"]
        for at, layer in enumerate(("embedder", "block 1", "block 2")):
            of = [row for row in mine if row["layer"] == layer]
            assert list(spread.lines[at].get_ydata()) == [row["entropy"] for row in of]
            assert list(cosine.lines[2 * at].get_ydata()) == [row["intra"] for row in of]
            assert list(cosine.lines[2 * at + 1].get_ydata()) == [row["inter"] for row in of]
        assert list(probe.lines[0].get_ydata()) == [100 * score for score in SCORES[0]]
        assert [text.get_text() for text in probe.texts] == ["t* = 200"]
        assert cosine.get_ylim() == second.get_ylim()
        assert cosine.get_ylim()[0] < 0.2
    with reports.drawing(shown["elbow"]) as figure:
        chosen = [[line.get_xdata()[0] for line in figure.axes[at].lines[1:]] for at in (0, 2)]
        assert chosen == [[50], [100, 500]]
    with reports.drawing(shown["curve"]) as figure:
        frequencies = figure.axes[1].lines[2].get_ydata()[0]
        # of both codebooks, whose losses are summed
        assert frequencies == 2 * 3.0  # nats, of two codebooks


def test_a_long_curve_is_thinned_without_hiding_a_peak(tmp_path: Path) -> None:
    folder = make(tmp_path, stages=1)
    peaks = {41_235: 9.0, 70_002: -9.0}
    losses = [peaks.get(step, float(np.sin(step / 900))) for step in range(1, 80_001)]
    lines = [f"{step},{loss},0.25,500,0.1,0.0" for step, loss in enumerate(losses, 1)]
    (folder / "stage1/curve.csv").write_text(
        "\n".join(["step,loss,accuracy_1,nodes,seconds,waiting", *lines, ""])
    )
    with reports.drawing(figures(folder)["curve"]) as figure:
        steps, drawn = figure.axes[0].lines[0].get_data()
    assert len(steps) <= 1000
    assert peaks.items() <= dict(zip(steps.tolist(), drawn.tolist())).items()


def test_times_are_exact_in_the_csv_and_stand_beside_what_they_rest_on(drawn: Path) -> None:
    assert rows(drawn / "report/phases.csv")[0]["seconds"] == "0.30000000000000004"
    told = (drawn / "report/phases.md").read_text()
    assert "| stage 1: extraction | 0.3 s | 17,000 | 2 h | 9,200,000 | 30 days |" in told
    assert "GPU \\<b\\>\\&\\_1" in told


@pytest.mark.long
def test_the_page_says_whose_weights_these_are_and_that_data_are_synthetic(
    drawn: Path, tmp_path: Path
) -> None:
    text = (drawn / "report/index.html").read_text()
    assert pretraining.OWN.replace("'", "&#39;") in text
    assert "Synthetic" not in text
    assert "Not finished" not in text
    draw(make(tmp_path / "b", dataset="demo"))
    assert "Synthetic" in (tmp_path / "b/report/index.html").read_text()
    assert pretraining.SYNTHETIC in (tmp_path / "b/report/phases.md").read_text()
    assert {row["data"] for row in rows(tmp_path / "b/report/elbow.csv")} == {"demo (synthetic)"}


def test_the_page_opens_with_the_outcome_of_the_selection(drawn: Path, tmp_path: Path) -> None:
    """t* of the first stage is the earliest within 0.001 of the best, 95.05 and not 95.08."""
    text = (drawn / "report/index.html").read_text()
    assert "macro AUROC 95.0 by stage 1, step 200" in text
    assert "macro AUROC 96.0 by stage 2" in text
    held = {row["stage"]: row for row in rows(drawn / "report/opening.csv")}
    assert (held["stage 1"]["step"], held["stage 1"]["probe"]) == ("200", "0.9505")
    source = reports.read(make(tmp_path, stages=1, dataset="demo"))
    shown = reports.sections("pretraining", source)[0].parts[0]
    ((head, rest),) = shown.lines
    assert "Not finished" in head
    assert "(synthetic)" in head
    assert "step 200" in rest


@pytest.mark.long
def test_one_that_is_not_finished_is_drawn_as_far_as_it_is(tmp_path: Path) -> None:
    folder = make(tmp_path, stages=1)
    with (folder / "stage1/curve.csv").open("a") as curve:
        curve.write("401,0.0")  # a kill in the middle of a line
    for one in sorted(folder.glob("stage1/encoders/*.json"))[1:]:
        one.unlink()
    written = {path.name for path in draw(folder)}
    assert {"dynamics.png", "curve.png", "elbow.png", "index.html"} <= written
    assert not {"phases.csv", "phases.md"} & written
    assert len(pretraining.read(folder).stages[0].curve) == 400
    assert "400 in stage 1" in (folder / "report/index.html").read_text()


def test_weights_of_before_are_not_passed_off_when_a_stage_went_on(tmp_path: Path) -> None:
    with (make(tmp_path) / "stage2/curve.csv").open("a") as curve:
        curve.write("201,1.0,0.3,0.3,500,0.1,0.0\n")
    assert "201 in stage 2" in pretraining.read(tmp_path).open


def test_nothing_to_draw_and_damaged_files_are_said(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="ecgbench pretrain"):
        pretraining.read(tmp_path)
    (make(tmp_path / "a") / "stage1/codebook.json").write_text("{")
    with pytest.raises(BadWeights, match=r"stage1/codebook.json cannot be read"):
        draw(tmp_path / "a")
    (make(tmp_path / "b") / "stage1/elbow.csv").write_text("codes,used\n30\n")
    with pytest.raises(BadWeights, match=r"stage1/elbow.csv cannot be read"):
        draw(tmp_path / "b")
