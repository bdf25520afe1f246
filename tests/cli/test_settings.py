"""What was typed becomes a study: plan files, options, --set."""

import re
from pathlib import Path

import pytest

from ecgbench import cli, suites
from ecgbench.cards.cell import Scoring, Training
from ecgbench.cards.plan import Request
from ecgbench.core.division import Division
from ecgbench.ecg.draw import parse_leads
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.study import plan, plan_file

_SET = re.compile(r"--set ([a-z_.]+)=")
TINY = Path(__file__).parents[1] / "tiny.py"
WHOLE = Request(
    models=("laef", "./mine.py"),
    tasks=("ptbxl_super",),
    leads=parse_leads("1,12,I+II"),
    seeds=3,
    fit_seeds=(0, 4),
    weights='laef=released,mine="quoted"',
    policies=("zero", "ridge"),
    contract="upstream",
    limit=300,
    exclude=("flat_leads",),
    fix=True,
    division=Division.parse("ptb=10,reference"),
    training=Training(
        protocol="finetune",
        lr=3e-4,
        lr_groups=False,
        micro_batch=8,
        leads="random",
        layer_decay=0.6,
        warmup=0.2,
        ema=0.9,
    ),
    scoring=Scoring(draw="window", rows="labelled", absent="half", metrics=("auroc", "auprc")),
    name="mine",
)


@pytest.mark.parametrize("study", [WHOLE, Request(models=("laef",), tasks=("demo",), leads=(1,))])
def test_a_plan_file_gives_the_study_that_was_written(study):
    assert plan_file.parse(plan_file.dump(study), "x").request() == study


@pytest.mark.parametrize("name", ["layer_decay", "warmup", "ema"])
@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_shares_are_shares(name, share):
    training = Training(protocol="finetune_modern", **{name: share})
    with pytest.raises(BadSetting, match=f"training.{name}=.*: from 0 to 1; the default is 0"):
        plan.check(Request(models=("laef",), tasks=("demo",), leads=(1,), training=training))


def test_a_setting_that_a_sentence_names_exists():
    keys = {*plan_file.keys(), *cli.pretrain.SETTINGS, *cli.pretrain.ABLATE}
    keys |= {f"report.{key}" for key in cli.report.SETTINGS}
    folder = Path(cli.__file__).parents[1]
    texts = {file: file.read_text() for end in ("py", "j2") for file in folder.rglob(f"*.{end}")}
    named = {key: file for file, text in texts.items() for key in _SET.findall(text)}
    assert {key: file for key, file in named.items() if key not in keys} == {}


def test_every_field_of_a_study_is_a_key(tmp_path):
    """So that no choice is lost where a run is repeated from its plan."""
    for key, value in plan_file.as_values(WHOLE).items():
        default = plan_file.keys()[key].default
        usual = ("training.weight_decay", "training.epochs", "training.batch", "scoring.draws")
        usual += ("training.precision", "scoring.bootstrap")
        assert value != default or key in usual, key


def test_plans_that_come_with_ecgbench_are_studies():
    for name in suites.names():
        made = plan_file.load(suites.path(name)).request()
        assert made.name == name
        assert suites.about(name)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("training.epochs=3", 3),
        ("training.lr=1e-4", 1e-4),
        ("training.lr_groups=off", False),
        ("training.micro_batch=none", None),
        ("scoring.metrics=auroc, auprc", ("auroc", "auprc")),
        ("leads=1,I+II", parse_leads("1,I+II")),
        ("folds=5", Division.parse("5")),
        ("folds=official", Division()),
        ("limit=30", 30),
    ],
)
def test_a_setting_as_text(word, value):
    assert plan_file.values({}, [word]) == {word.partition("=")[0]: value}


def test_an_unknown_key_proposes_the_nearest(here, tmp_path):
    with pytest.raises(UnknownName, match=r"did you mean training\.epochs"):
        plan_file.values({}, ["training.epoch=3"])
    (tmp_path / "p.toml").write_text('models = ["laef"]\n[training]\nepoch = 3\n')
    done = here("run", "p.toml", cwd=tmp_path)
    assert (done.returncode, "training.epochs" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "text",
    [
        *("models = laef", "alpha = 2.0", "[[hypothesis]\n", "x = 1"),
        *('tasks = "demo"\nplugins = 3', 'tasks = "demo"\n[plugins]\nmodels = 3'),
        *('tasks = "demo"\n[plugins]\nx = ["y.py"]', 'tasks = "demo"\ncontrol = "labels"'),
        'tasks = "demo"\n[scoring]\nmetrics = []',
    ],
)
def test_a_broken_plan_file_is_one_line(here, tmp_path, text):
    (tmp_path / "p.toml").write_text(text)
    done = here("run", "p.toml", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr


def test_an_empty_argument_is_no_folder(here, tmp_path):
    for words in (("run", "--out", ""), ("report", ""), ("runs", "prune", "", "--yes")):
        done = here(*words, cwd=tmp_path)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
    assert not [*tmp_path.iterdir()]


def test_options_change_a_plan_and_set_comes_last(here, tmp_path):
    (tmp_path / "p.toml").write_text('models = ["laef"]\ntasks = ["demo"]\nleads = ["1"]\n')
    done = here(
        *("run", "p.toml", "--models", TINY, "--weights", "random", "--leads", "12", "--limit", 24),
        *("--set", "leads=I", "--engine", "inline", "--out", "r"),
        cwd=tmp_path,
    )
    assert "1 cell computed" in done.stdout, done.stderr
    assert (tmp_path / "r/cells/demo/tiny/I").is_dir()


@pytest.mark.long
def test_a_run_is_repeated_from_the_plan_in_its_folder(here, tmp_path):
    words = ("--models", TINY, "--weights", "random", "--leads", "I", "--limit", 24, "--seeds", 1)
    for out in ("a", "a"):
        done = here("run", "demo", *words, "--engine", "inline", "--out", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = here("run", "a/plan.toml", "--engine", "inline", "--out", "b", cwd=tmp_path)
    assert "1 cell computed" in done.stdout, done.stderr
    first, second = (next((tmp_path / r).rglob("predictions.parquet")) for r in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert not (tmp_path / "a/plan-2.toml").exists()
    here("run", "a", "--leads", "II", "--engine", "inline", cwd=tmp_path)
    assert not (tmp_path / "runs").exists()
    assert 'leads = ["II"]' in (tmp_path / "a/plan-2.toml").read_text()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("run", "--epochs", "3"), "--set training.epochs=VALUE"),
        (("report", "--margins=0.1"), "--set report.margins=VALUE"),
        (("pretrain", "small", "--steps", "3,3"), "--set steps=VALUE"),
    ],
)
def test_a_setting_that_is_typed_as_an_option_is_answered_with_set(here, tmp_path, words, meant):
    done = here(*words, cwd=tmp_path)
    assert (done.returncode, meant in done.stderr) == (2, True), done.stderr


def test_the_settings_are_listed_with_their_defaults(here, tmp_path):
    lines = here("run", "--settings", cwd=tmp_path).stdout.splitlines()
    assert {line.split()[0] for line in lines[1:]} == set(plan_file.keys())
    assert any(line.split()[:2] == ["training.epochs", "100"] for line in lines)


def test_commands_stand_in_the_order_in_which_a_person_meets_them(here, tmp_path):
    text = here("--help", cwd=tmp_path).stdout
    places = [text.index(f"│ {name} ") for name in cli.ORDER.split()]
    assert places == sorted(places)
    assert len(text.splitlines()) <= 48
