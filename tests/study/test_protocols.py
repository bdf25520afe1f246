"""Protocols and training leads, as typed, in this process, on the tiny plug-in and 60 records of
the demo.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from ecgbench import models
from ecgbench.core import provenance
from ecgbench.evaluate.fits import Fitting
from ecgbench.evaluate.network import build
from ecgbench.results.study import read

Typed = Callable[..., int]
TINY = Path(__file__).parents[1] / "tiny.py"


pytestmark = pytest.mark.usefixtures("one_thread")


def fits(run: Path) -> list[Path]:
    return sorted(p.parent for p in (run / "fits").rglob("DONE"))


def numbers(run: Path) -> dict[str, str]:
    """Hash of every array and table of the cells, by its place without the key."""
    cells = [p for p in (run / "cells").rglob("*") if p.suffix in (".npy", ".parquet")]
    return {
        "/".join([*p.parts[-5:-2], p.name]): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in cells
    }


@pytest.mark.long
def test_a_fine_tuned_grid_that_grew_trains_nothing_again(typed: Typed, tmp_path: Path) -> None:
    whole, grown = tmp_path / "whole", tmp_path / "grown"
    tuned = ("--protocol", "finetune")
    more = (*tuned, "--leads", "12,I,2", "--policy", "zero,ridge")
    assert typed(whole, *more) == 0
    assert typed(grown, *tuned, "--leads", "12") == 0
    (fit,) = fits(grown)
    written = (fit / "encoder.safetensors").stat().st_mtime_ns
    assert typed(grown, *more) == 0
    assert (fit / "encoder.safetensors").stat().st_mtime_ns == written
    assert [p.name for p in fits(grown)] == [p.name for p in fits(whole)]
    assert numbers(grown) == numbers(whole)
    note = json.loads((fit / "fit.json").read_text())
    rates = {g: a["lr"] for g, a in note["groups"].items()}
    assert rates == {"early": 1e-5, "late": 1e-4, "head": 1e-3}
    assert not list((grown / "features").glob("*/*/windows/*")), "they serve no other fit"
    assert list(read(grown).main["status"]) == ["ok"] * 6
    cell = json.loads(next((grown / "cells").rglob("cell.json")).read_text())
    assert cell["weights_sha256"] == note["encoder_sha256"] != note["from_sha256"]


@pytest.mark.parametrize("protocol", ["probe", "finetune"])
def test_what_one_commit_began_and_another_finished_names_both(
    protocol: str, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features and folds, or epochs, that were there are not computed again."""
    run, words = tmp_path / "run", ("--protocol", protocol)

    def broken(*_: object) -> None:
        raise RuntimeError("it stopped")

    with monkeypatch.context() as patch:
        patch.setattr(provenance, "code", lambda: {"version": "0", "commit": "b", "dirty": True})
        patch.setattr(Fitting, "_train", broken)
        assert typed(run, *words) == 1
    assert typed(run, *words) == 0
    (result,) = read(run).results
    commits = {part: [code.commit for code in codes] for part, codes in result.code.items()}
    now = provenance.code()["commit"]
    assert commits["cells"] == [now]
    assert sorted(commits["fits"]) == sorted(["b", now])
    assert ("b" in commits["features"]) == (protocol == "probe")
    assert result.uncommitted


@pytest.mark.long
def test_random_training_leads_give_each_policy_its_own_fit(typed: Typed, tmp_path: Path) -> None:
    """Where leads are missing in training, what fills them is part of the training; where none is,
    one fit serves all.
    """
    words = ("--protocol", "linear", "--policy", "zero,einthoven", "--leads", "12,I")
    runs = {leads: tmp_path / leads for leads in ("all", "random", "again")}
    for leads, run in runs.items():
        assert typed(run, *words, "--train-leads", "all" if leads == "all" else "random") == 0
    assert [len(fits(run)) for run in runs.values()] == [1, 2, 2]
    assert numbers(runs["again"]) == numbers(runs["random"]) != numbers(runs["all"])
    logs = {(p / "log.csv").read_text() for run in ("all", "random") for p in fits(runs[run])}
    assert len(logs) == 3
    table = pd.DataFrame(read(runs["random"]).main)
    at_twelve = table[table["leads"] == "12"]["value"]
    # nothing is missing there in the evaluation, yet the fits differ
    assert at_twelve.nunique() == 2


@pytest.mark.long
def test_a_probe_for_each_set_of_leads_that_is_tested(typed: Typed, tmp_path: Path) -> None:
    """A run that grew is the run that had all of them from the start."""
    whole, grown = tmp_path / "whole", tmp_path / "grown"
    words = ("--protocol", "probe", "--train-leads", "same", "--leads")
    assert typed(whole, *words, "V1,II,12") == 0
    assert typed(grown, *words, "II") == 0
    (fit,) = fits(grown)
    note = json.loads((fit / "fit.json").read_text())
    assert (note["fit"]["shown"], note["key_facts"]["shown"]) == ("II", "II")
    # fits with validation predictions of twelve leads, of earlier versions, are not used
    assert note["key_facts"]["validation"] == "shown leads"
    assert typed(grown, *words, "V1,II,12") == 0
    assert len(fits(whole)) == 3
    assert numbers(grown) == numbers(whole)
    assert {p.name for p in fits(grown)} == {p.name for p in fits(whole)}
    heads = {
        json.loads((p / "fit.json").read_text())["fit"]["shown"]: load_file(p / "head.safetensors")
        for p in fits(whole)
    }
    assert set(heads) == {"", "II", "V1"}
    assert len({head["weight"].tobytes() for head in heads.values()}) == 3
    study = read(whole)
    assert list(study.main["status"]) == ["ok"] * 3
    own = {r.cell.setting.typed: r.cell.fit.shown for r in study.results}
    assert own == {"V1": "V1", "II": "II", "12": ""}


def test_a_network_is_trained_for_each_set_of_leads_that_is_tested(
    typed: Typed, tmp_path: Path
) -> None:
    """The fit of lead II saw nothing but 0 mV in the other leads: their weights decayed and did not
    learn. The fit of all twelve is that of `--train-leads all`.
    """
    words = ("--protocol", "finetune", "--set", "training.lr_groups=false", "--leads", "II,12")
    for leads in ("same", "all"):
        assert typed(tmp_path / leads, *words, "--train-leads", leads) == 0
    same, whole = (
        dict(zip(m["leads"], m["value"]))
        for m in (read(tmp_path / x).main for x in ("same", "all"))
    )
    assert same["12"] == whole["12"]
    shown = {
        json.loads((p / "fit.json").read_text())["fit"]["shown"]: p for p in fits(tmp_path / "same")
    }
    assert set(shown) == {"", "II"}
    start = build(models.resolve(str(TINY)), "random").module.state_dict()["first.weight"].numpy()
    ratio = load_file(shown["II"] / "encoder.safetensors")["first.weight"] / start
    hidden = np.arange(12) != 1
    np.testing.assert_allclose(ratio[:, hidden], ratio[0, 0, 0], rtol=1e-5)
    assert np.ptp(ratio[:, 1]) > 1e-3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--train-leads same --leads 1 --protocol probe", "name them"),
        ("--train-leads same --protocol linear", "--train-leads random"),
        ("--protocol prob", "did you mean probe?"),
        ("--device gpu", "cuda:N"),
        ("--set training.micro_batch=4", "--protocol linear"),
    ],
)
def test_bad_words_are_told_in_one_line(
    words: str, said: str, typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(tmp_path / "run", *words.split()) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run").exists()
