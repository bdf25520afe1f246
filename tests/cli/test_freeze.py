"""`ecgbench freeze` as a person types it, and what a report says of a frozen plan."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecgbench import reports
from ecgbench.errors import BadSetting
from ecgbench.reports import records
from ecgbench.results.study import read
from ecgbench.stats.paired import holm
from ecgbench.study import frozen
from ecgbench.study.people import people
from ecgbench.study.store import Store
from tests.invented import Data, Made, write

PLAN = """
title = "Few leads"
models = ["laef", "stmem"]
tasks = ["ptbxl_super"]
leads = ["1", "12"]
seeds = 2
weights = "random"
policy = "zero"
[[hypothesis]]
name = "keeps"
kind = "non-inferiority"
model = "laef"
leads = "1"
against = "own 12 leads"
margin = 0.05
[[hypothesis]]
name = "better"
kind = "superiority"
model = "laef"
leads = "1"
against = "stmem"
"""


@pytest.fixture
def freeze(here: Callable[..., Any], tmp_path: Path) -> Callable[[str], tuple[int, str]]:
    """freeze(plan): exit code, and what was printed."""

    def typed(plan: str) -> tuple[int, str]:
        (tmp_path / "plan.toml").write_text(plan)
        done = here("freeze", "plan.toml", "--out", "run", cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    return typed


def test_a_plan_is_frozen_once_and_its_hash_covers_every_word(
    freeze: Callable[[str], tuple[int, str]], tmp_path: Path
) -> None:
    code, said = freeze(PLAN)
    kept = frozen.read(tmp_path / "run")
    assert code == 0
    assert kept is not None
    assert kept.intact
    assert kept.stated in said
    assert [h.against_leads for h in kept.plan.hypotheses] == ["12", "1"]
    before = (tmp_path / "run" / frozen.FILE).read_bytes()
    assert freeze(PLAN)[0] == 0
    code, said = freeze(PLAN.replace("0.05", "0.04"))
    assert code == 2
    assert "--out" in said
    assert (tmp_path / "run" / frozen.FILE).read_bytes() == before
    document = json.loads(before)
    document["frozen"]["hypotheses"][0]["margin"] = 0.2
    (tmp_path / "run" / frozen.FILE).write_text(json.dumps(document))
    kept = frozen.read(tmp_path / "run")
    assert kept is not None
    assert not kept.intact


def test_weights_that_the_run_would_lack_are_named(
    freeze: Callable[[str], tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, said = freeze(PLAN.replace('weights = "random"', 'weights = "laef=random"'))
    assert code == 0
    assert "weights that are not here yet: stmem; get them before the run" in said


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"laef", "stmem"]', '"laef", "stmen"]', "stmem"),
        ("seeds = 2", "sedes = 2", "seeds"),
        ('kind = "superiority"', 'kind = "superior"', "superiority"),
        ("margin = 0.05", "margin = 5", "fraction"),
        ('against = "own 12 leads"', 'against = "merl"', "laef, stmem"),
        ('leads = "1"\nagainst = "stmem"', 'leads = "2"\nagainst = "stmem"', "1, 12"),
        ('name = "better"', 'name = "keeps"', "keeps"),
        ('tasks = ["ptbxl_super"]', "", "tasks"),
        ('title = "Few leads"', "alpha = 1.5", "alpha"),
    ],
)
def test_a_wrong_word_is_named_in_one_line_and_nothing_is_written(
    freeze: Callable[[str], tuple[int, str]], tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert old in PLAN
    code, said = freeze(PLAN.replace(old, new))
    assert code == 2
    assert told in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "run" / frozen.FILE).exists()


def test_after_a_score_it_is_too_late(
    freeze: Callable[[str], tuple[int, str]], tmp_path: Path
) -> None:
    write(tmp_path / "run", Made(data={"a": Data(tasks={"a": 1})}))
    code, said = freeze(PLAN)
    assert code == 2
    assert "scored" in said
    assert not (tmp_path / "run" / frozen.FILE).exists()


def _hypothesis(name: str, leads: str, against: str, **more: object) -> frozen.Hypothesis:
    own = {"against_model": against, "against_leads": "12" if against == "good" else leads}
    usual = {"kind": "superiority", "family": "primary", "metric": "auroc", "tasks": ("a",)}
    return frozen.Hypothesis(
        **{**usual, "name": name, "model": "good", "leads": leads, **own, **more}
    )  # type: ignore[arg-type]


def test_every_hypothesis_stands_there_with_what_the_joint_contrast_says(tmp_path: Path) -> None:
    run, skill = tmp_path / "run", {("good", "12"): 2.0, ("good", "1"): 1.8}
    made = Made(
        data={"a": Data(tasks={"a": 3}, records=600)},
        skill=lambda model, leads: skill.get((model, leads), 0.7),
    )
    hypotheses = (
        _hypothesis("better", "1", "weak"),
        _hypothesis("kept", "1", "good", kind="non-inferiority", margin=0.07),
        _hypothesis("kept by little", "1", "good", kind="non-inferiority", margin=0.001),
        _hypothesis("worse", "1", "good", family="other"),
        _hypothesis("gone", "1", "merl", against_leads="1"),
    )
    code = {"date": "2026-01-31T12:00:00Z", "version": "1", "commit": None, "dirty": None}
    plan = frozen.Frozen(title="", alpha=0.05, plan="", hypotheses=hypotheses, **code)
    frozen.write(run, plan, scored=False)
    write(run, made)
    with pytest.raises(BadSetting, match="holds a frozen plan"):
        read(run, tasks=["a"])
    study = read(run)
    (section,) = reports.sections("confirmatory", study)
    (table,) = (p for p in section.parts if p.kind == "table")
    assert table.numbers is not None
    rows = {str(r["name"]): r for r in records(table.numbers)}
    assert [rows[h.name]["verdict"] for h in plan.hypotheses][:2] == ["shown", "shown"]
    assert rows["kept by little"]["verdict"] == "not shown"
    assert rows["worse"]["verdict"] == "the opposite was shown"
    assert "not tested" in rows["gone"]["verdict"]
    assert rows["gone"]["difference"] is None
    good, weak = (
        np.mean([r["value"] for _, r in study.cells.iterrows() if (r.model, r.leads) == (m, "1")])
        for m in ("good", "weak")
    )
    assert rows["better"]["difference"] == pytest.approx(good - weak, abs=1e-12)
    # the hypothesis without a test counts in its family
    own = [rows[name]["p"] for name in ("better", "kept", "kept by little")]
    adjusted = holm([*own, 1.0])
    assert [rows[n]["p_holm"] for n in ("better", "kept", "kept by little")] == pytest.approx(
        list(adjusted[:3])
    )
    # p below 0.05 says what the interval says
    for name, margin in (("kept", 0.07), ("kept by little", 0.001)):
        assert (rows[name]["p"] < 0.05) == (rows[name]["low"] > -margin)
    # a number with an untrained side has its mark
    random = study.main["weights"].mask(study.main["model"] == "weak", "random")
    (section,) = reports.sections(
        "confirmatory", replace(study, main=study.main.assign(weights=random))
    )
    (table,) = (p for p in section.parts if p.kind == "table")
    shown = {row["name"]: row for row in table.rows}
    assert "untrained" in shown["better"]["verdict"]
    assert shown["better"]["difference"].mark == "‡"
    assert shown["kept"]["difference"].mark == ""
    assert set(table.marks) == {"‡"}


def test_a_plan_that_was_changed_is_said_before_any_number(
    freeze: Callable[[str], tuple[int, str]], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert freeze(PLAN)[0] == 0
    write(run, Made(data={"a": Data(tasks={"a": 1})}))
    assert not any("PLAN" in note for note in map(str, read(run).notes))
    file = run / frozen.FILE
    file.write_text(file.read_text().replace('"alpha": 0.05', '"alpha": 0.2'))
    (section,) = reports.sections("confirmatory", read(run))
    assert section.parts[0].texts[0].startswith("FROZEN PLAN CHANGED: ")  # type: ignore[union-attr]
    file.unlink()
    assert read(run).notes[-1].text == frozen.NONE


def test_a_run_without_words_runs_what_is_frozen(here: Callable[..., Any], tmp_path: Path) -> None:
    tiny = Path(__file__).parents[1] / "tiny.py"
    plan = PLAN.replace('["laef", "stmem"]', f'["{tiny}"]').replace('"ptbxl_super"', '"demo"')
    plan = plan.replace("seeds = 2", "seeds = 1\nlimit = 60")
    plan = plan.replace('"laef"', '"tiny"').partition('[[hypothesis]]\nname = "better"')[0]
    (tmp_path / "plan.toml").write_text(
        plan.replace('["1", "12"]', '["I", "12"]').replace('"1"', '"I"')
    )
    assert here("freeze", "plan.toml", "--out", "run", cwd=tmp_path).returncode == 0
    out = ("run", "--out", "run", "--engine", "inline")
    other = here(*out, "--limit", 60, "--protocol", "linear", cwd=tmp_path)
    assert other.returncode == 2
    assert "training.protocol = linear" in other.stderr
    assert here(*out, cwd=tmp_path).returncode == 0
    run = tmp_path / "run"
    assert {c.setting.typed for c in Store(run).existing_plan().cells} == {"I", "12"}
    kept = frozen.read(run)
    assert kept is not None
    assert here(*out, cwd=tmp_path).returncode == 0
    assert len(people(run, "demo")) == 60
    (run / frozen.FILE).write_text((run / frozen.FILE).read_text().replace("0.05", "0.2"))
    changed = here(*out, cwd=tmp_path)
    assert changed.returncode == 2
    assert "changed after it was frozen" in changed.stderr
