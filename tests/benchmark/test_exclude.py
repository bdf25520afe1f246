"""`--exclude flat_leads`: records with a lead without variation take no part, and that is told."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgbench.prepared.prepare import prepare
from ecgbench.prepared.subset import Selection
from ecgbench.results.store import Store
from ecgbench.results.study import read

PLUG_IN = '''"""The demo's first records; every third has a lead that does not vary."""

from dataclasses import replace

from ecgbench.datasets import demo

CARD = replace(
    demo.CARD,
    title="Flat",
    tasks=(replace(demo.CARD.tasks[0], name="flat"),),
)


def index(root):
    table = demo.index(root)
    return table.rename(columns=lambda c: c.replace("demo:", "flat:"))


def read(root, row):
    own = {name.replace("flat:", "demo:"): value for name, value in row.items()}
    recording = demo.read(root, own)
    if int(row["record"][1:]) % 3 == 0:
        recording.signal[7] = 0.25
    return recording
'''
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.long]


def test_they_take_no_part_and_have_keys_of_their_own(
    typed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "flat.py"
    source.write_text(PLUG_IN)
    usual = ("--tasks", str(source), "--limit", "150", "--prepared", str(tmp_path / "prepared"))
    assert typed(tmp_path / "all", *usual) == 0
    assert typed(tmp_path / "some", *usual, "--exclude", "flat_leads") == 0
    whole, part = (read(tmp_path / name) for name in ("all", "some"))
    copy = prepare("flat", None, tmp_path / "prepared", limit=150)
    used = Selection(copy, 150, ("flat_leads",)).index
    assert not np.isin([r for r in used["record"] if int(r[1:]) % 3 == 0], used["record"]).any()
    assert part.datasets[0].records == len(used) < whole.datasets[0].records == 150
    assert part.datasets[0].flat == 0 < whole.datasets[0].flat
    left_out = 150 - len(used)
    line = f"Flat: {left_out} records with a lead without variation are left out (--exclude)."
    assert any(line in note for note in part.notes), part.notes
    keys = [set(Store(tmp_path / name).keys().values()) for name in ("all", "some")]
    assert not keys[0] & keys[1]

    # one folder holds one choice, and a word that is none is told
    capsys.readouterr()
    assert typed(tmp_path / "all", *usual, "--exclude", "flat_leads") == 2
    assert "exclude" in capsys.readouterr().err
    assert typed(tmp_path / "c", *usual, "--exclude", "loud") == 2
    assert "--exclude loud: there is flat_leads" in capsys.readouterr().err
