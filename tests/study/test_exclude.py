"""`--exclude` and `--fix`: records of a kind take no part, or are put right, and that is told."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgbench.data.prepare import prepare
from ecgbench.data.select import Selection
from ecgbench.results.study import read
from ecgbench.study.store import cells_of, noted

PLUG_IN = '''"""The demo's first records, of which every third is changed."""

from dataclasses import replace

from ecgbench.datasets import demo

CARD = replace(demo.CARD, title="Flat", tasks=(replace(demo.CARD.tasks[0], name="flat"),))


def index(root):
    return demo.index(root).rename(columns=lambda c: c.replace("demo:", "flat:"))


def read(root, row):
    recording = demo.read(root, {n.replace("flat:", "demo:"): value for n, value in row.items()})
    if int(row["record"][1:]) % 3 == 0:
        recording.signal[7] = 0.25
    return recording
'''
SWAPPED = PLUG_IN.replace("[7] = 0.25", "[[3, 5]] = recording.signal[[5, 3]]")
SWAPPED = SWAPPED.replace("Flat", "Turned").replace("flat", "turned")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.long
def test_they_take_no_part_and_have_keys_of_their_own(
    typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "flat.py"
    source.write_text(PLUG_IN)
    usual = ("--tasks", str(source), "--limit", "150", "--prepared", str(tmp_path / "prepared"))
    assert typed(tmp_path / "all", *usual) == 0
    assert typed(tmp_path / "some", *usual, "--set", "data.exclude=flat_leads") == 0
    whole, part = (read(tmp_path / name) for name in ("all", "some"))
    copy = prepare("flat", None, tmp_path / "prepared", limit=150)
    used = Selection(copy, 150, ("flat_leads",)).index
    assert not np.isin([r for r in used["record"] if int(r[1:]) % 3 == 0], used["record"]).any()
    assert part.datasets[0].records == len(used) < whole.datasets[0].records == 150
    assert part.datasets[0].flat == 0 < whole.datasets[0].flat
    left_out = f"{150 - len(used)} records with a lead without variation"
    assert any(left_out in note for note in map(str, part.notes)), part.notes
    keys = [{noted(f)["key"] for f in cells_of(tmp_path / name)} for name in ("all", "some")]
    assert not keys[0] & keys[1]

    # one folder holds one choice, and a word that is none is told
    capsys.readouterr()
    assert typed(tmp_path / "all", *usual, "--set", "data.exclude=flat_leads") == 2
    assert "exclude" in capsys.readouterr().err
    assert typed(tmp_path / "c", *usual, "--set", "data.exclude=loud") == 2
    assert "flat_leads, suspect_leads" in capsys.readouterr().err


@pytest.mark.long
def test_what_is_put_right_is_another_study(typed: Callable[..., int], tmp_path: Path) -> None:
    source = tmp_path / "turned.py"
    source.write_text(SWAPPED)
    usual = ("--tasks", str(source), "--limit", "60", "--prepared", str(tmp_path / "prepared"))
    assert typed(tmp_path / "plain", *usual) == 0
    assert typed(tmp_path / "fixed", *usual, "--set", "data.fix=on") == 0
    plain, fixed = (read(tmp_path / name) for name in ("plain", "fixed"))
    suspect = plain.datasets[0].suspect
    assert 10 < suspect == fixed.datasets[0].repaired < 30
    assert plain.datasets[0].repaired == fixed.datasets[0].suspect == 0
    for study in (plain, fixed):
        assert any(f"{suspect} of 60 records" in note for note in map(str, study.notes))
    keys = [{noted(f)["key"] for f in cells_of(tmp_path / name)} for name in ("plain", "fixed")]
    assert not keys[0] & keys[1]
    assert typed(tmp_path / "fixed", *usual) == 2
