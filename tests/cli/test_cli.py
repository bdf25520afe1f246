"""The command line as a person types it: its exit code, what it prints and what it leaves."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from ecgbench import cli
from ecgbench.errors import INTERRUPTED, BadSetting

TESTS = Path(__file__).parents[1]
TINY = str(TESTS / "tiny.py")
Here = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="module")
def run(here, tmp_path_factory) -> Path:
    """A finished run of the tiny plug-in on the demo, with a skipped policy."""
    place = tmp_path_factory.mktemp("cli")
    words = f"run --models {TINY} --leads 1,12,I+V2 --policy zero,native --engine inline"
    done = here(*words.split(), "--out", "runs/a", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "4 cells computed" in done.stdout
    assert "4 skipped" in done.stdout
    return place


def test_report_of_the_newest_run(here, run):
    done = here("report", cwd=run)
    assert done.returncode == 0, done.stderr
    folder = run / "runs/a/report"
    names = {p.name for p in folder.iterdir()}
    assert names >= {"main_table.csv", "main_table.tex", "lead_curve.png", "lead_curve.csv"}
    assert not [name for name in names if name.startswith(("against_", "evaluated_"))]
    rows = list(csv.DictReader((folder / "main_table.csv").open()))
    leads = ("1", "12", "I+V2")
    expected = [*((n, "zero", "ok") for n in leads), *((n, "native", "skipped") for n in leads)]
    assert [(r["leads"], r["policy"], r["status"]) for r in rows] == expected
    assert all(
        0 <= float(r["low"]) <= float(r["value"]) <= float(r["high"]) <= 1
        for r in rows
        if r["status"] == "ok"
    )
    page = (folder / "index.html").read_text()
    assert "ynthetic" in page
    # no column is trained, which is said in one line
    assert page.count("No column is trained: there is no best") == 1
    assert {(r["best"], r["p"], r["not_significantly_worse"]) for r in rows} == {("false", "", "")}
    assert "<h2>Paired comparisons" not in page


BAD = [
    ("run --models leaf", "unknown model 'leaf'; did you mean laef?"),
    ("run --tasks ptbxl_supr", "unknown task 'ptbxl_supr'; did you mean ptbxl_super"),
    ("run --leads 1,V7", "unknown lead 'V7'; did you mean V"),
    ("run --leads 13", "--leads 13: a count of leads is 1 to 12"),
    ("run --policy zeroo", "unknown policy 'zeroo'; did you mean zero?"),
    ("run dmo", "unknown plan 'dmo'; did you mean demo?"),
    ("run --seeds x", "--seeds x: a whole number"),
    ("run --set scoring.bootstrap=x", "scoring.bootstrap=x: one of none, multinomial"),
    ("run --limit 1", "--limit 1: at least 3"),
    ("run --set training.seeds=a", "--set training.seeds=a"),
    ("report nowhere", "no run in nowhere"),
    ("report", "no run under runs/"),
    ("data prepare ptbxl", "ECGBENCH_DATA"),
    ("data check ptbx", "unknown dataset 'ptbx'; did you mean ptbxl or ptb?"),
    ("check model lae", "unknown model 'lae'; did you mean laef?"),
    ("check parity stmem --pack a --keys b --seed-string s", "b (given with --keys)"),
    ("runn", "No such command 'runn'"),
]


@pytest.mark.parametrize(("words", "says"), BAD, ids=[words for words, _ in BAD])
def test_bad_input_is_one_line_and_exit_2(here, tmp_path, words, says):
    done = here(*words.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


AGAIN = "choose another folder, or repair this one and run the command again"
ENDS = [
    (KeyboardInterrupt(), 130, f"ecgbench: {INTERRUPTED}"),
    (typer.Abort(), 130, f"ecgbench: {INTERRUPTED}"),
    (OSError(28, "No space left"), 2, f"ecgbench: No space left; {AGAIN}"),
    (OSError(28, "No space left", "a/b"), 2, f"ecgbench: No space left: a/b; {AGAIN}"),
    (BadSetting("--x\ny"), 2, "ecgbench: --x y"),
    (typer.Exit(1), 1, ""),
    (typer.Exit(0), 0, ""),
]


@pytest.mark.parametrize(("end", "code", "says"), ENDS)
def test_however_a_command_ends_it_says_so_in_one_line_and_its_code(
    end, code, says, monkeypatch, capsys
):
    program = typer.Typer(pretty_exceptions_enable=False)

    @program.command()
    def ends() -> None:
        raise end

    monkeypatch.setattr(cli, "app", program)
    monkeypatch.setattr(sys, "argv", ["ecgbench"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert capsys.readouterr().err.strip() == says


def test_names_are_checked_before_torch(tmp_path):
    code = """
import sys
sys.modules["torch"] = None
from ecgbench.cli import main
for words in ("--models leaf", "--tasks ptbxl_supr", "--policy zeroo", "--leads V7"):
    sys.argv = ["ecgbench", "run", *words.split()]
    try:
        main()
    except SystemExit as end:
        print(end.code)
import ecgbench.study.estimate  # which a dry run of a finished study loads too
"""
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"] * 4
    assert done.stderr.count("unknown") == 4, done.stderr


@pytest.mark.long
def test_a_run_needs_no_open_streams(tmp_path):
    """As of a daemon, and of its worker processes."""
    words = f"run --models {TINY} --weights random --leads 12 --limit 24 --engine local:1 --out r"
    line = f"exec {sys.executable} -m ecgbench {words} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], cwd=tmp_path).returncode == 0
    assert (tmp_path / "r/report/index.html").is_file()


def test_all_that_a_run_lacks_is_told_at_once_with_one_command(here, tmp_path):
    words = ("run", "--engine", "inline", "--tasks", "ptbxl_super", "--models", "stmem,merl,laef")
    done = here(*words, "--weights", "stmem=gone.pth,merl=released,laef=random", cwd=tmp_path)
    assert done.returncode == 2
    told = done.stderr.splitlines()
    assert told[0] == "ecgbench: 3 things that this run needs are not here:"
    assert told[1].startswith("  no file gone.pth (given as weights of ST-MEM); ")
    assert told[2].startswith("  the released weights of MERL are not on this machine; ")
    assert told[3].startswith("  ptbxl: no data folder is set; download PTB-XL 1.0.3 from https://")
    assert len(told) == 4
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("room", ["models", "tasks", "policies", "reports"])
def test_lists_as_json(here, tmp_path, room):
    done = here("list", room, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert all(isinstance(r["name"], str) for r in rows)
    if room == "tasks":
        targets = {r["name"]: r["targets"] for r in rows}
        assert (targets["ptbxl_all"], targets["ptbxl_super"]) == (71, 5)
        only = {r["name"] for r in rows if r["evaluation_only"]}
        assert only == {"chapman_rhythm", "ptbxl_diag", "ptbxl_form", "ptbxl_rhythm"}


def test_data_prepare_and_verify(here, fake_ptbxl, tmp_path):
    done = here("data", "prepare", "ptbxl", "--data", fake_ptbxl, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 quarantined" in done.stdout
    assert here("data", "check", "ptbxl", "--data", fake_ptbxl, cwd=tmp_path).returncode == 0
    told = here("data", "facts", "ptbxl", "--data", fake_ptbxl, cwd=tmp_path).stdout.splitlines()
    assert told[0].startswith("PTB-XL: 30 records of 21,799 in the release")
    assert told[1].startswith("  train: ")
    assert (
        '"prepared": true'
        in here("list", "tasks", "--json", "--data", fake_ptbxl, cwd=tmp_path).stdout
    )


def parity(here: Here, model: str, seed: str, cwd: Path) -> subprocess.CompletedProcess:
    pack = TESTS / "data/parity" / model
    files = ("--pack", pack / "golden_seed0.npz", "--keys", pack / "keys.json")
    return here("check", "parity", model, *files, "--json", "--seed-string", seed, cwd=cwd)


@pytest.mark.long
def test_parity_exit_codes(here, tmp_path):
    good = parity(here, "stmem", "public-0", tmp_path)
    assert good.returncode == 0, good.stdout
    rows = json.loads(good.stdout)
    assert {r["array"] for r in rows if r["status"] != "ok"} == {"feat_T600_upstream_onelead_II"}
    assert parity(here, "merl", "public-0", tmp_path).returncode == 0
    assert parity(here, "merl", "another", tmp_path).returncode == 1


def test_a_test_split_without_any_defined_label_is_reported(here, tmp_path):
    words = f"run --models {TINY} --leads 1,12 --limit 3 --protocol linear --engine inline"
    done = here(*words.split(), "--set", "training.epochs=2", "--out", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = here("report", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r/report/index.html").exists()


def test_files_in_the_way_are_one_line(here, run, tmp_path):
    (tmp_path / "afile").write_text("x")
    for words in (
        ("run", "--engine", "inline", "--models", TINY, "--out", "afile"),
        ("report", run / "runs/a", "--to", "afile"),
    ):
        done = here(*words, cwd=tmp_path)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert "afile" in done.stderr
        if words[0] == "run":
            assert "--out afile is a file; choose another folder, for example --out afile-2" in (
                done.stderr
            )
    (tmp_path / "r").mkdir()
    for content in ("not json", "{}"):
        (tmp_path / "r/plan.toml").write_text(content)
        done = here("report", "r", cwd=tmp_path)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert "plan.toml" in done.stderr


def test_a_failure_on_a_rerun_does_not_hide_finished_cells(here, tmp_path):
    model = tmp_path / "moody.py"
    model.write_text(
        Path(TINY).read_text()
        + "\n\n_build = build\n\n\ndef build(weights=None):\n    import os\n\n"
        "    if os.environ.get('BOOM'):\n        raise MemoryError('boom')\n    return "
        "_build(weights)\n"
    )
    words = f"run --models {model} --weights random --leads I --protocol linear --limit 40"
    words = f"{words} --set training.epochs=2 --engine inline --out r".split()
    assert here(*words, cwd=tmp_path).returncode == 0
    assert here(*words, "--leads", "I,II", cwd=tmp_path, BOOM="1").returncode == 1
    here("report", "r", cwd=tmp_path)
    rows = csv.DictReader((tmp_path / "r/report/main_table.csv").open())
    assert [row["status"] for row in rows] == ["ok", "failed"]
    done = here(*words, cwd=tmp_path, BOOM="1")  # all are there, and nothing says that they are so
    assert (done.returncode, "could not be compared" in done.stdout + done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("typed", "now"),
    [
        ("run --epochs 3", "--set training.epochs=VALUE"),
        ("ablate encoders --steps 3", "--set steps=VALUE"),
    ],
)
def test_an_option_that_is_a_setting_is_answered_with_it(
    here: Here, tmp_path: Path, typed: str, now: str
) -> None:
    done = here(*typed.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert now in done.stderr
    assert len(done.stderr.splitlines()) == 1
