"""`ecgbench predict` and `embed`: test recordings of a run get its numbers, by value; and what
recordings of all kinds, and wrong words, give.
"""

import runpy
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import wfdb

import ecgbench
from ecgbench.ecg.leads import LEADS, LIMB_FROM_I_II

pytestmark = pytest.mark.usefixtures("one_thread")
Here = Callable[..., "subprocess.CompletedProcess[str]"]

TINY = Path(__file__).parents[1] / "tiny.py"
USUAL = ("--weights", "random", "--seeds", 1, "--engine", "inline", "--labels", "labels.csv")


def twelve(number: int, fs: float, seconds: float) -> np.ndarray:
    """(12, time) mV; odd numbers are fast."""
    draw, t = np.random.default_rng(number), np.arange(int(fs * seconds)) / fs
    one = np.cos(np.pi * (1 + number % 2) * t + draw.uniform(0, 3)) ** 60
    one = one + draw.normal(0, 0.02, len(t))
    limb = LIMB_FROM_I_II @ np.stack([one, 0.7 * one + draw.normal(0, 0.01, len(t))])
    return np.vstack([limb, draw.uniform(0.5, 1.5, (6, 1)) * one])


def write(file: Path, signal: np.ndarray, names: tuple[str, ...], fs: float = 500) -> None:
    """A table with a head that says rate and unit."""
    rows = pd.DataFrame(signal.T, columns=list(names)).to_csv(index=False, float_format="%.5f")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"Sample Rate,{fs:g} Hz\nUnit,mV\n\n{rows}", encoding="utf-8")


@pytest.fixture(scope="module")
def study(here: Here, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 recordings, of twelve leads or of one, with 5 decimals of a mV: no whole steps of 1 uV."""
    home = tmp_path_factory.mktemp("study")
    names = [f"r{number:02d}" for number in range(40)]
    for number, name in enumerate(names):
        leads = LEADS if number % 4 < 2 else ("I",)
        signal = twelve(number, 200, 10)[: len(leads)]
        write(home / "ecgs" / f"{name}.csv", signal, leads, fs=200)
    rows = [f"{name},P{number},{number % 2}" for number, name in enumerate(names)]
    (home / "labels.csv").write_text("\n".join(["record,patient,fast", *rows]) + "\n")
    return home


EPOCH = ("--set", "training.epochs=1")
RUNS = {
    "probe": ("--leads", "I,12", "--policy", "mean"),
    "linear": ("--leads", "I,12,I+II", "--protocol", "linear", "--set", "training.epochs=2"),
    "finetune": ("--leads", "I,12", "--protocol", "finetune", *EPOCH),
    "folds": ("--leads", "I", "--folds", "3", "--set", "training.seeds=0,1"),
    "same": ("--leads", "I,12", "--train-leads", "same"),
    "tuned same": ("--leads", "I,12", "--train-leads", "same", "--protocol", "finetune", *EPOCH),
    "window": ("--leads", "I,2", "--train-leads", "random", "--set", "scoring.draw=window"),
}


@pytest.mark.parametrize(
    "name",
    ["probe", *(pytest.param(name, marks=pytest.mark.long) for name in RUNS if name != "probe")],
)
def test_test_recordings_get_the_probabilities_of_the_run(
    here: Here, study: Path, name: str
) -> None:
    words = ("run", "--records", "ecgs", *USUAL, "--models", TINY, "--out", name, *RUNS[name])
    done = here(*words, cwd=study, ECGBENCH_PREPARED="")
    assert done.returncode == 0, done.stderr
    read = ecgbench.read(study / name)
    for (policy, setting), _ in read.cells.groupby(["policy", "setting"]):
        if "@" in setting:
            continue
        to = study / f"{name}-{policy}-{setting}.csv"
        words = ("--records", "ecgs", "--leads", setting, "--policy", policy, "--to", to)
        done = here("predict", name, *words, "--model", TINY, cwd=study)
        assert done.returncode == 0, done.stderr
        got = pd.read_csv(to).set_index("record")
        mine = [r for r in read.results if str(r.cell.setting) == setting]
        stored = pd.concat([r.predictions() for r in mine if r.cell.policy == policy])
        # of several seeds the mean; of several folds the one that was tested on it
        stored = stored.groupby("record").mean(numeric_only=True)["probability:fast"]
        np.testing.assert_allclose(got["probability:fast"][stored.index], stored, atol=1e-6, rtol=0)
        assert (got["note"][stored.index].str.contains("name of a test record")).all()
        row = read.main[(read.main["policy"] == policy) & (read.main["leads"] == setting)].iloc[0]
        known, lacking = got[got["reason"].isna()], got[got["reason"].notna()]
        for column, value in (("auroc", "value"), ("auroc_low", "low"), ("auroc_high", "high")):
            np.testing.assert_allclose(known[column], row[value])
        assert set(known["fit"].iloc[0].split()) <= {
            p.name for p in (study / name).rglob("fits/**/*")
        }
        assert all("is missing; it has I" in reason for reason in lacking["reason"])
        assert lacking["probability:fast"].isna().all()
        assert len(lacking) == (0 if setting == "I" else 20)


@pytest.fixture(scope="module")
def run(here: Here, study: Path) -> Path:
    """Of two tasks' worth of choices: two policies, the probe at I and 12."""
    words = ("run", "--records", "ecgs", *USUAL, "--models", TINY, "--out", "kinds")
    words = (*words, "--folds", "official")
    done = here(*words, "--leads", "I,12", "--policy", "zero,copy", cwd=study, ECGBENCH_PREPARED="")
    assert done.returncode == 0, done.stderr
    return study / "kinds"


def test_recordings_of_all_kinds(
    here: Here, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be used costs itself, and is told by its reason."""
    folder, base = tmp_path / "new", twelve(7, 500, 10)
    write(folder / "base.csv", base, LEADS)
    order = [LEADS.index(lead) for lead in LEADS[::-1]]
    write(folder / "order.csv", base[order], LEADS[::-1])
    text = (1000 * base[:1]).T
    rows = "\n".join(["I", *(f"{value:.2f}" for value in text[:, 0])])
    (folder / "micro.csv").write_text(f"Sample Rate,500 Hz\nUnit,uV\n\n{rows}\n")
    eight = [LEADS.index(lead) for lead in ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")]
    write(folder / "a" / "twin.csv", base[eight], tuple(LEADS[i] for i in eight))
    write(folder / "b" / "twin.csv", twelve(8, 512, 10), LEADS, fs=512)
    write(folder / "long.csv", twelve(9, 500, 300)[:1], ("I",))
    write(folder / "short.csv", twelve(9, 500, 2)[:1], ("I",))
    write(folder / "other.csv", base[6:7], ("V1",))
    broken = base[:2].copy()
    broken[0, 100] = np.nan
    write(folder / "broken.csv", broken, ("I", "II"))
    (folder / "page.csv").write_text("<html>")
    one = {"p_signal": base[:1].T, "sig_name": ["I"], "units": ["mV"], "fmt": ["16"]}
    wfdb.wrsamp("wave", 500, **one, adc_gain=[1000.0], baseline=[0], write_dir=str(folder))
    made = ecgbench.predict(run, folder, model=str(TINY), policy="zero", leads="I")
    got = made.set_index("record")
    value, reason = got["probability:fast"], got["reason"]
    for same in ("order", "micro", "a/twin"):
        assert value[same] == pytest.approx(value["base"], abs=1e-6)
    assert value["wave"] == pytest.approx(value["base"], abs=0.01)  # steps of 1 uV
    assert value[["b/twin", "long"]].between(0, 1).all()
    assert (got["windows"]["long"], got["windows"]["base"]) == (120, 4)
    reasons = {
        "short": "2 s: shorter than a window of 2.5 s",
        "other": "lead I is missing",
        "broken": "",
    }
    for record, why in {**reasons, "page": "page.csv holds no line of numbers"}.items():
        assert why in reason[record]
        assert reason[record]
        assert np.isnan(value[record])
    assert set(got["leads"]) == {"I", ""}
    assert "research use only" in made.attrs["notes"]
    monkeypatch.setattr("ecgbench.prediction.records.MOST", 119)
    some = ecgbench.predict(run, folder, model=str(TINY), policy="zero", leads="I")
    assert "of 120 windows" in some.set_index("record")["reason"]["long"]
    # without --leads: all that each has, of which some stand in no cell of the run
    whole = ecgbench.predict(run, folder / "a", model=str(TINY), policy="zero").iloc[0]
    assert whole["leads"] == "+".join(LEADS)
    assert np.isfinite(whole["auroc"])
    usual = {"policy": "zero", "model": str(TINY)}
    two = ecgbench.predict(run, folder / "b" / "twin.csv", **usual, leads="II")
    assert np.isnan(two["auroc"].iloc[0])
    assert "the run has no AUROC at II; the `ecgbench run` command" in two["note"].iloc[0]
    # the fit knows the name, and was trained on it
    known = ecgbench.predict(run, run.parent / "ecgs", policy="zero", model=str(TINY), leads="I")
    seen = known["note"].str.contains("has the name of a record that the fit was trained")
    tested = known["note"].str.contains("name of a test record")
    assert (seen ^ tested).all()


@pytest.mark.long
def test_a_model_in_adapters_is_found_by_its_name(here: Here, study: Path) -> None:
    (study / "adapters").mkdir()
    shutil.copy(TINY, study / "adapters" / "small.py")
    torch.save(runpy.run_path(str(TINY))["build"](None).state_dict(), study / "small.pt")
    run = (
        "run",
        "--records",
        "ecgs",
        *USUAL,
        "--models",
        "small",
        "--weights",
        "small.pt",
        "--leads",
        "I",
        "--out",
        "named",
    )
    assert here(*run, cwd=study).returncode == 0
    words = ("predict", "named", "--records", "ecgs/r00.csv", "--to", "one.csv")
    (study / "small.pt").rename(study / "moved.pt")
    done = here(*words, cwd=study)
    assert (done.returncode, "--weights PATH" in done.stderr) == (2, True)
    done = here(*words, "--weights", "small=moved.pt", cwd=study)
    assert "1 of 1 recordings" in done.stdout, done.stderr
    done = here(*words, "--weights", "other=random", "--overwrite", cwd=study)
    assert (done.returncode, "unknown model" in done.stderr) == (2, True)


@pytest.mark.long
def test_a_run_says_which_leads_are_read_how_and_flagged_where(here: Here, tmp_path: Path) -> None:
    """Bare files of one column: rate, unit and name were stated once, when they were imported."""
    names = [f"r{number:02d}" for number in range(60)]
    (tmp_path / "watch").mkdir()
    for number, name in enumerate(names):
        signal = 1000 * twelve(number, 200, 10)[0]
        np.savetxt(tmp_path / "watch" / f"{name}.csv", signal, "%.2f")
    rows = [f"{name},P{name},{number % 2}" for number, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["record,patient,fast", *rows]) + "\n")
    words = ("run", "--records", "watch", *USUAL, "--models", TINY, "--out", "run", "--leads", "I")
    words = (*words, "--fs", "200", "--unit", "uV", "--signals", "I", "--folds", "official")
    done = here(*words, cwd=tmp_path, ECGBENCH_PREPARED="")
    assert done.returncode == 0, done.stderr
    new, signal = tmp_path / "new", twelve(7, 200, 10)
    write(new / "all.csv", signal, LEADS, 200)
    write(new / "one.csv", signal[:1], ("I",), 200)
    write(new / "chest.csv", signal[6:7], ("V1",), 200)
    write(new / "flat0.csv", 0 * signal[:1], ("I",), 200)
    write(new / "flat0.7.csv", np.vstack([0 * signal[:1] + 0.7, signal[1:]]), LEADS, 200)
    for name in ("bare", "r07"):
        np.savetxt(new / f"{name}.csv", 1000 * signal[0], "%.2f")
    made = ecgbench.predict(tmp_path / "run", new, model=str(TINY))
    assert "Int" in str(made["windows"].dtype)  # also beside recordings without any
    got = made.set_index("record")
    value, reason, flag = got["probability:fast"], got["reason"], got["flag:fast"]
    stored = ecgbench.read(tmp_path / "run").results[0]
    own = stored.predictions().set_index("record")["probability:fast"]
    assert value[["all", "one", "bare"]].tolist() == pytest.approx([value["r07"]] * 3, abs=1e-4)
    assert (got["leads"][["all", "one", "bare"]] == "I").all()
    for name in ("flat0", "flat0.7", "chest"):
        assert np.isnan(value[name])
        assert reason[name]
        assert flag.isna()[name]
    card = tmp_path / "run" / "imported" / "card.toml"
    again = ecgbench.predict(tmp_path / "run", card, model=str(TINY))
    again = again.set_index("record")
    np.testing.assert_allclose(again["probability:fast"][own.index], own, atol=1e-6)
    # flagged: no more than 5 in 100 of the validation records without the label
    valid = stored.validation()
    sound = np.sort(valid["probability:fast"][valid["target:fast"] == 0])
    worst = sound[len(sound) - 1 - int(0.05 * len(sound))]
    at = valid["probability:fast"][valid["probability:fast"] > worst].min()
    assert (again["flag:fast"] == (again["probability:fast"] >= at)).all()
    assert {*again["flag:fast"]} == {0, 1}
    two = ecgbench.predict(tmp_path / "run", new / "all.csv", model=str(TINY), leads="I+II")
    assert two["flag:fast"].isna().all()
    assert "no threshold at I+II" in two["note"][0]


def test_nothing_is_said_of_leads_that_are_not_used(here: Here, tmp_path: Path) -> None:
    """Fits of lead I are calibrated at lead I; a copied chest lead does not touch it."""
    names = [f"r{number:02d}" for number in range(24)]
    for name in names:
        write(tmp_path / "watch" / f"{name}.csv", twelve(int(name[1:]), 200, 10)[:1], ("I",), 200)
    rows = [f"{name},P{name},{int(name[1:]) % 2}" for name in names]
    (tmp_path / "labels.csv").write_text("\n".join(["record,patient,fast", *rows]) + "\n")
    words = ("run", "--records", "watch", *USUAL, "--models", TINY, "--out", "run")
    done = here(*words, "--leads", "I", "--folds", "official", cwd=tmp_path, ECGBENCH_PREPARED="")
    assert done.returncode == 0, done.stderr
    signal = twelve(30, 500, 10)
    signal[LEADS.index("V2")] = signal[LEADS.index("V1")]
    write(tmp_path / "new.csv", signal, LEADS)
    made = partial(ecgbench.predict, tmp_path / "run", tmp_path / "new.csv", model=str(TINY))
    one, two = (made(leads=leads)["note"].iloc[0] for leads in ("I", "V1+V2"))
    assert "calibrated" not in one
    assert "V2 equals V1" not in one
    assert "calibrated at V1+V2" in two
    assert "V2 equals V1" in two


def test_what_cannot_be_meant_is_one_line_and_writes_nothing(
    here: Here, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "one.csv", twelve(1, 500, 10), LEADS)
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "bare.csv").write_text("\n".join(["I", *map(str, twelve(1, 500, 10)[0])]))
    write(tmp_path / "slow.csv", twelve(1, 60, 20), LEADS, fs=50)
    usual = {"--records": "one.csv", "--to": "to.csv", "--policy": "zero", "--model": TINY}

    def refused(**other: object) -> str:
        options = usual | {f"--{name}": value for name, value in other.items()}
        words = [word for option in options.items() if option[1] is not None for word in option]
        done = here("predict", run, *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert not (tmp_path / "to.csv").exists()
        return done.stderr.splitlines()[-1]

    for words, said in (
        ({"to": "to.xlsx"}, "the name must end in .csv, .tsv, .parquet"),
        ({"to": "there.csv"}, "replace it: --overwrite"),
        ({"records": "nowhere"}, "there is no such file or folder"),
        ({"records": "empty"}, "files are read that end in .hea"),
        ({"records": "bare.csv"}, "state it for all files that do not: --unit mV"),
        ({"leads": "1"}, "unknown lead '1'"),
        ({"leads": "I+V9"}, "unknown lead 'V9'"),
        ({"task": "other"}, "unknown task 'other'"),
        ({"model": "laef"}, "Known: tiny"),
        ({"policy": "mean"}, "Known: zero, copy"),
        ({"policy": None}, "more than one policy: zero and copy; choose one, such as --policy"),
        ({"fold": "2/5"}, "Known: official"),
        ({"signals": "I", "unit": "mmHg"}, "not a unit of voltage"),
    ):
        assert said in refused(**words), words
    assert (tmp_path / "there.csv").read_text() == "mine"
    slow = ("--records", "slow.csv", "--to", "to.csv", "--model", "simple_features", "--fs", 50)
    done = here("embed", *slow, cwd=tmp_path)
    assert (done.returncode, "too low to be filtered" in done.stderr) == (2, True), done.stderr
    words = [word for option in (usual | {"--to": "there.csv"}).items() for word in option]
    done = here("predict", run, *words, "--overwrite", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "there.csv").read_text()) == (2, "mine")
    with monkeypatch.context() as patch:
        patch.setattr("ecgbench.prediction.predict.FITS", 99)
        assert "made by another version of ecgbench" in refused()
    (head, *_) = run.rglob("head.safetensors")
    content = head.read_bytes()
    head.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "head.safetensors is not what the run wrote" in refused()
    head.write_bytes(content)
    done = here("predict", tmp_path, "--records", "one.csv", "--to", "to.csv", cwd=tmp_path)
    assert "no run in" in done.stderr


@pytest.mark.long
def test_features_are_those_of_the_run_in_every_kind_of_file(
    here: Here, run: Path, tmp_path: Path
) -> None:
    cells = {(str(r.cell.setting), r.cell.policy): r for r in ecgbench.read(run).results}
    result = cells["I", "zero"]
    records, features = result.features()
    for suffix in (".csv", ".tsv", ".parquet"):
        to = tmp_path / f"features{suffix}"
        words = ("--model", TINY, "--records", run.parent / "ecgs", "--leads", "I", "--to", to)
        done = here("embed", *words, "--weights", "random", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("research use only") == 1
        assert "random weights: it was never trained" in done.stderr
        read = {".csv": pd.read_csv, ".tsv": partial(pd.read_csv, sep="\t")}
        got = read.get(suffix, pd.read_parquet)(to).set_index("record")
        columns = [f"f{number:04d}" for number in range(features.shape[1])]
        np.testing.assert_allclose(got.loc[records, columns], features, rtol=1e-6, atol=1e-7)
    assert got[columns].dtypes.eq(np.float32).all()
    for more, said in (
        (("--weights", "random", "--policy", "mean"), "needs the training split of a run"),
        (("--weights", "random", "--policy", "native"), "reads all of its leads at once"),
        ((), "no weights of Tiny are released"),
    ):
        done = here("embed", *words, *more, "--overwrite", cwd=tmp_path)
        assert said in done.stderr


@pytest.mark.long
def test_laef_on_published_files_gets_the_probabilities_of_the_run(
    here: Here, fake_ptbxl: Path, tmp_path: Path
) -> None:
    """Natively, from the files of the release, whose records a run calls otherwise."""
    words = ("run", "--data", "data", "--tasks", "ptbxl_super", "--models", "laef", "--out", "ptb")
    done = here(*words, "--leads", "12,I+V2", "--engine", "inline", "--limit", "21", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for result in ecgbench.read(tmp_path / "ptb").results:
        stored = result.predictions().set_index("record").filter(like="probability:")
        leads = str(result.cell.setting)
        got = ecgbench.predict(tmp_path / "ptb", fake_ptbxl / "ptbxl" / "records500", leads=leads)
        got = got.assign(record=got["record"].str.removesuffix("_hr")).set_index("record")
        np.testing.assert_allclose(got.loc[stored.index, stored.columns], stored, rtol=0, atol=1e-6)
        assert got["policy"].eq("native").all()
        assert got["note"].str.contains("not calibrated at I").all() == (leads != "12")
        assert got["note"].str.contains("weights released of LAEF were trained by this").all()
