"""`import ecgbench`: the numbers, cells and keys of the command line, from Python."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import ecgbench
from ecgbench import metrics, models, reports
from ecgbench.cards.cell import RANDOM
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadRecord, BadSetting, EcgbenchError, UnknownName
from ecgbench.reports import write
from ecgbench.study import jobs
from tests.imported.test_own_study import clinic, labels
from tests.invented import Data, Made
from tests.invented import write as write_run

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = str(Path(__file__).with_name("tiny.py"))
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, copies: Path) -> "ecgbench.api.Run":
    """The tiny model on 60 records of the demo, by the linear protocol."""
    return ecgbench.run(
        models=[Path(TINY)],
        tasks=["demo"],
        leads=[1, "I", 12],
        weights={"tiny": RANDOM},
        protocol="linear",
        settings={"training.epochs": 2, "training.seeds": [0]},
        seeds=1,
        limit=60,
        prepared=copies,
        out=tmp_path_factory.mktemp("api") / "run",
        engine="inline",
    )


def test_import_is_quick_and_says_what_there_is() -> None:
    """0.1 s on an idle machine."""
    code = "import ecgbench, sys; assert 'numpy' not in sys.modules; print(dir(ecgbench))"
    spent = []
    for _ in range(3):
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        )
        spent.append(time.monotonic() - begun)
    assert min(spent) < 0.3
    assert all(f"'{name}'" in done.stdout for name in ecgbench.__all__)
    assert all(callable(getattr(ecgbench, name)) for name in ecgbench.__all__[1:])
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        _ = ecgbench.reed


def test_the_command_goes_on_with_what_python_began_and_the_other_way_round(
    study: "ecgbench.api.Run",
    typed: Callable[..., int],
    tmp_path: Path,
    copies: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = study.path
    assert typed(path, "--leads", "1,I,12", "--weights", "tiny=random") == 0
    assert "0 cells computed, 3 were there already" in capsys.readouterr().out
    (noted, _) = sorted((path / "invocations").iterdir(), key=lambda file: file.stat().st_mtime)
    words = shlex.split(json.loads(noted.read_text())["command"])
    assert words[:2] == ["ecgbench", "run"]
    assert typed(path, *words[2:]) == 0  # the command that it keeps is the same run
    assert "0 cells computed, 3 were there already" in capsys.readouterr().out

    other = tmp_path / "typed"
    assert typed(other, "--leads", "1,I") == 0
    same = {"weights": "random", "protocol": "linear", "settings": {"training.epochs": 2}}
    same |= {"prepared": copies, "engine": "inline", "seeds": 1, "limit": 60}
    found = ecgbench.run(TINY, "demo", "1,I,12", out=other, **same)
    assert "1 cell computed, 2 were there already" in capsys.readouterr().out
    pd.testing.assert_frame_equal(found.main, study.main)
    pd.testing.assert_frame_equal(ecgbench.read(other).main, study.main)
    with pytest.raises(BadSetting, match=rf"another folder: ecgbench run .*--out {other}-2$"):
        ecgbench.run(TINY, "demo", "1,I,12", out=other, **same | {"limit": 50})


@pytest.mark.long
def test_a_script_without_a_guard_runs_once(tmp_path: Path, copies: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import ecgbench\nprint('started')\n"
        f"study = ecgbench.run({TINY!r}, 'demo', 12, weights='random', limit=30, out='run', "
        f"settings={{'run.report': 'no'}})\n"
        f"print(study.cells['status'].tolist(), __file__)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ECGBENCH_PREPARED": str(copies)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("started") == 1
    assert f"['ok'] {script}" in done.stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"models": "leaf"}, "did you mean laef"),
        ({"leads": [1, "V9"]}, "unknown lead 'V9'"),
        ({"settings": {"training.epoch": 3}}, "unknown setting 'training.epoch'; did you mean"),
        ({"settings": {"training.lr": "fast"}}, "a number"),
        ({"settings": 3}, "settings=3: keys of --set, as in {'training.lr': 1e-3}"),
        ({"settings": {"scoring.draws": 10**11}}, "scoring.draws=100000000000: at most 100,000"),
        ({"limit": 2}, "--limit 2: at least 3"),
        ({"data": ""}, "data is empty"),
        ({"dry_run": True}, "type ecgbench run --dry-run"),
        ({"policies": "zero"}, "unknown option 'policies'; did you mean policy"),
        ({"tasks": "ptbxl_super"}, "no data folder is set"),
    ],
)
def test_what_cannot_be_meant_is_one_line(options: dict, why: str, tmp_path: Path) -> None:
    with pytest.raises(EcgbenchError, match=re.escape(why)) as found:
        ecgbench.run(
            **{"models": TINY, "tasks": "demo", "weights": "random", **options}, out=tmp_path / "x"
        )
    assert "\n" not in str(found.value)
    assert not (tmp_path / "x").exists()


def test_plug_ins_of_an_earlier_run_are_none_of_this_one(
    study: "ecgbench.api.Run", tmp_path: Path
) -> None:
    assert models.resolve(TINY) == "tiny"
    with pytest.raises(UnknownName):
        ecgbench.run("laef", "no such task", out=tmp_path)
    assert jobs.plugins() == ()
    assert Path(sys.argv[0]).name != "ecgbench"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> "ecgbench.api.Run":
    """Two tasks, two models with skill, draws of leads, one score missing."""
    path = tmp_path_factory.mktemp("made")
    data = {"one": Data(tasks={"a": 3}, per_patient=2), "two": Data(tasks={"b": 4})}
    skill = {"good": 1.5, "weak": 0.7}
    lacking = [("b", "weak", "12")]
    about = Made(data=data, skill=lambda model, leads: skill[model], lacking=lacking)
    return ecgbench.read(write_run(path / "run", about).path)


def test_compare_gives_the_comparisons_of_a_report(made: "ecgbench.api.Run") -> None:
    got, back = made.compare("good", "weak"), made.compare("WEAK", ("good", "zero"))
    assert got[["task", "leads"]].to_numpy().tolist() == [
        ["a", "1"], ["a", "12"], ["b", "1"], ["b", "12"],
    ]  # fmt: skip
    known = made.comparisons.set_index(["task", "leads"])
    assert set(known["best_model"]) == {"good"}
    for row in got.dropna(subset="difference").itertuples():
        wanted = known.loc[(row.task, row.leads)]
        for name in ("difference", "low", "high", "p", "n_records", "n_patients"):
            assert getattr(row, name) == pytest.approx(wanted[name]), name
    np.testing.assert_allclose(back["difference"], -got["difference"])
    np.testing.assert_allclose(back["low"], -got["high"])
    np.testing.assert_allclose(back["p"], got["p"])
    assert got["difference"].isna().tolist() == [False, False, False, True]
    assert got["note"][3] == "weak at 12: failed"
    assert len(made.compare("good", "weak", leads=12, task="a")) == 1
    for words, why in [
        (("good", "week"), "did you mean weak"),
        (("good", "weak", "3"), "unknown leads '3'"),
        (("good", "weak", None, "c"), "unknown task 'c'"),
    ]:
        with pytest.raises(UnknownName, match=why):
            made.compare(*words)


def test_what_is_not_tested_has_no_p(study: "ecgbench.api.Run") -> None:
    row = study.compare("tiny", "tiny", leads="I").iloc[0]
    assert row["difference"] == 0
    assert np.isnan(row["p"])
    assert "not tested: 12 test patients" in row["note"]
    assert "untrained" in row["note"]
    assert row["note"].startswith("limited: ")


def test_tables_are_those_of_a_report(made: "ecgbench.api.Run", tmp_path: Path) -> None:
    write(made, tmp_path, only=["main_table"], pictures=[])
    lines = (tmp_path / "main_table.md").read_text().splitlines()
    printed = [
        [
            re.sub(r" \\\[.*\]|<sup>.*?</sup>|\*\*|\\|</?ins>", "", cell).strip()
            for cell in line[1:-1].split("|")
        ]
        for line in lines
        if line.startswith("|")
    ]
    table = made.table("main_table")
    heads, _, *rows = printed[: 2 + len(table)]
    assert table.columns.is_unique
    assert [re.sub(".*(?=Std )", "", head) for head in table.columns] == heads
    assert [row[1:] for row in table.to_numpy().tolist()] == [row[1:] for row in rows]
    assert r"\begin{tabular}" in table.to_latex()
    assert "failed: it broke" in table.attrs["notes"]
    assert "<table" in made._repr_html_()
    assert repr(made).splitlines()[:2] == [f"Run {made.path}", "  tasks: a, b"]
    assert len(repr(made).splitlines()) == 6


def test_rows_are_the_numbers_of_a_report(made: "ecgbench.api.Run", tmp_path: Path) -> None:
    write(made, tmp_path, only=["lead_curve"], pictures=[])
    rows = made.rows("lead_curve").reset_index(drop=True)
    written = pd.read_csv(tmp_path / "lead_curve.csv", dtype={"leads": str})
    pd.testing.assert_frame_equal(rows, written, check_dtype=False)
    for name, card in ((name, reports.ROOM.card(name)) for name in reports.names()):
        if card.reads == "run":
            kinds = {type(value) for value in made.rows(name).to_numpy().ravel()}
            ours = [kind for kind in kinds if kind.__module__.startswith("ecgbench.r")]
            assert ours == [], name


def test_figures_are_those_of_a_report(made: "ecgbench.api.Run") -> None:
    sheet = made.plot("lead-curve")
    assert len(sheet.axes) == 2
    assert sheet._repr_png_().startswith(b"\x89PNG")  # what a notebook asks for
    one = ecgbench.read(made.path, tasks="a")
    own = Figure().subplots()
    assert one.plot("lead_curve", ax=own) is own.figure
    drawn = [line.get_xydata().tolist() for line in one.plot("lead_curve").axes[0].lines]
    assert [line.get_xydata().tolist() for line in own.lines] == drawn
    assert own.get_ylabel() == "Macro AUROC × 100"
    assert own.get_legend() is not None
    for call, why in [
        (lambda: made.plot("led_curve"), "did you mean lead_curve"),
        (lambda: made.plot("lead_curve", ax=own), "several panels"),
        (lambda: made.plot("provenance"), "no figure"),
        (lambda: made.table("pretraining"), "not of a run"),
    ]:
        with pytest.raises(EcgbenchError, match=why):
            call()


def test_a_dataset_has_the_recordings_leads_and_targets_of_a_run(
    study: "ecgbench.api.Run", copies: Path
) -> None:
    shown = ecgbench.load("demo", "1", "test", prepared=copies, limit=60)
    known = study.result("demo", "tiny", "1@seed0", "zero").predictions().set_index("record")
    assert sorted(shown.records) == sorted(known.index)
    whole = ecgbench.load("demo", None, "test", prepared=copies, limit=60)
    for at, (signal, measured, target) in enumerate(shown):
        record = known.loc[shown.records[at]]
        assert [LEADS[i] for i in np.flatnonzero(measured)] == [record["leads"]]
        assert signal.shape == (12, 5000 if shown.fs == 500 else signal.shape[1])
        assert signal.isfinite().all(1).tolist() == measured.tolist()
        assert signal[measured].equal(whole[at][0][measured])
        assert target.tolist() == [record[f"target:{label}"] for label in shown.labels]
        assert shown.patients[at] == record["patient"]
    assert len(ecgbench.load("demo", "I+V2", prepared=copies, limit=60)) > len(shown)
    again = ecgbench.load("demo", "1", "test", prepared=copies, limit=60, seed=1)
    assert [one[1].tolist() for one in again] != [one[1].tolist() for one in shown]
    for words, why in [
        (("demo", "1,2"), "one task, and leads such as I"),
        (("demo", "I", "tests"), "did you mean test"),
        (("dem", "I"), "did you mean demo"),
        (("ptbxl_super", "I"), "no data folder is set"),
    ]:
        with pytest.raises(EcgbenchError, match=why):
            ecgbench.load(*words, prepared=copies, limit=60)


def test_a_model_gives_the_features_of_files(tmp_path: Path) -> None:
    model = ecgbench.load_model(TINY, weights="random")
    assert model.card.title == "Tiny"
    assert sum(p.numel() for p in model.network.parameters()) == model.card.parameters
    random = np.random.default_rng(0)
    signal = np.cumsum(random.normal(0, 0.01, (12, 2500)), axis=1)
    signal[2:6] = np.array([[-1, 1], [-0.5, -0.5], [1, -0.5], [-0.5, 1]]) @ signal[:2]
    signal = signal.round(5)
    rows = pd.DataFrame(signal.T, columns=list(LEADS)).to_csv(index=False, float_format="%.5f")
    (tmp_path / "one.csv").write_text(f"Sample Rate,250 Hz\nUnit,mV\n\n{rows}")
    for leads in ("I", "V1,II", None):
        named = leads and leads.replace(",", "+")
        table = ecgbench.embed(TINY, tmp_path / "one.csv", weights="random", leads=named)
        wanted = table.filter(regex="^f[0-9]{4}").to_numpy()[0]
        names = leads.split(",") if leads else LEADS
        part = signal[[LEADS.index(name) for name in names]]
        np.testing.assert_array_equal(model.embed(part, 250, leads), wanted)
        hidden = np.where(np.isin(LEADS, names)[:, None], signal, np.nan)
        np.testing.assert_array_equal(model.embed(hidden, fs=250), wanted)
        both = model.embed(np.stack([part, part]), 250, names)
        np.testing.assert_array_equal(both, np.stack([wanted, wanted]))
    jobs.ROOMS["models"].ROOM.forget()
    assert model.embed(signal, 250).shape == (model.card.dim,)
    for call, error, why in [
        (lambda: model.embed(signal[:2], 250), BadSetting, "for 12 leads"),
        (lambda: model.embed(signal[:, :100], 250), BadRecord, "shorter than a window"),
        (lambda: model.embed(signal, 0), BadSetting, "fs=0"),
        (lambda: model.embed(signal, "500"), BadSetting, "fs='500'"),
        (lambda: model.embed(signal[None][:0], 250), BadSetting, "no sample"),
        (lambda: model.embed(signal * np.nan, 250), BadRecord, "for 0 leads"),
        (lambda: ecgbench.load_model(TINY, "random", policy="native"), BadSetting, "policy zero"),
        (lambda: ecgbench.load_model("leaf"), UnknownName, "did you mean laef"),
    ]:
        with pytest.raises(error, match=why):
            call()


def test_numbers_among_other_options_are_numbers(tmp_path: Path) -> None:
    own = {"records": tmp_path / "none", "labels": tmp_path / "none.csv", "out": tmp_path / "x"}
    with pytest.raises(BadSetting, match="there is no folder"):
        ecgbench.run("laef", fs=500, **own)
    with pytest.raises(BadSetting, match="fs fast: a number"):
        ecgbench.run("laef", fs="fast", **own)


@pytest.mark.long
def test_recordings_of_ones_own_as_the_command_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecgbench.study.command.REPORTED", 200)
    names = [f"r{number}" for number in range(12)]
    (tmp_path / "records").mkdir()
    for number, name in enumerate(names):
        clinic(tmp_path / "records", name, number)
    labels(tmp_path, names)
    how = {"weights": RANDOM, "protocol": "linear", "seeds": 1, "engine": "inline"}
    how |= {"settings": {"training.epochs": 1}, "out": tmp_path / "run"}
    files = {"records": tmp_path / "records", "labels": tmp_path / "labels.csv"}
    study = ecgbench.run(TINY, leads=12, **how, **files)
    assert set(study.cells["status"]) == {"ok"}
    assert (study.path / "report" / "index.html").is_file()
    assert f"--records {tmp_path / 'records'}" in study.provenance.command


CONSTANT = '''"""A constant."""
import numpy as np
from constant_of_a_test import CONSTANT
from ecgbench.cards.rooms import MetricCard
CARD = MetricCard(
    title="C", direction="higher", range=(0.0, 1.0), chance=0.5, summary="none", source="none"
)
def value(target, score):
    return np.full(target.shape[1], CONSTANT)
def influence(target, score):
    return None
'''


def test_an_edited_metric_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what it imports: scores of the code of before, kept under the hash of the code of now,
    would be believed by every later report.
    """
    monkeypatch.syspath_prepend(tmp_path)
    run, metric = tmp_path / "run", tmp_path / "constant.py"
    write_run(run, Made(data={"one": Data(tasks={"a": 2})}))
    metric.write_text(CONSTANT)
    for constant in (0.25, 0.75):
        (tmp_path / "constant_of_a_test.py").write_text(f"CONSTANT = {constant}\n")
        assert set(ecgbench.read(run, metrics=str(metric)).main["value"]) == {constant}
    before = sys.modules["constant_of_a_test"]
    ecgbench.read(run, metrics=str(metric))
    assert sys.modules["constant_of_a_test"] is before  # what was not edited stays as it is
    metrics.ROOM.forget()


def test_what_no_run_can_have_is_refused_of_recordings_and_columns(
    tmp_path: Path,
) -> None:
    for given in ({"limit": 1}, {"limit": "x"}, {"seed": -1, "leads": 1}, {"split": 5}):
        with pytest.raises(EcgbenchError):
            ecgbench.load("demo", **given)  # type: ignore[arg-type]
    write_run(tmp_path, Made(data={"real": Data(tasks={"heart": 2}, records=60)}, models=("good",)))
    study = ecgbench.read(tmp_path)
    for name in ("good zero junk", "", None):
        with pytest.raises(UnknownName):
            study.compare(name, "good")  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match="is of a table of predictions"):
        ecgbench.read(tmp_path, model="good")
