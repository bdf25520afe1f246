"""Records that hold only some leads: draws among those, settings that leave records out, and a
study of them from end to end.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench import datasets
from ecgbench.ecg.draw import draw
from ecgbench.ecg.leads import LEADS, LIMB, LeadSubset
from ecgbench.results.study import read

PLUG_IN = '''"""The demo's records as four kinds of devices would have recorded them."""

from dataclasses import replace

import numpy as np

from ecgbench.datasets import demo
from ecgbench.ecg.leads import LEADS

DEVICES = [LEADS, ("I",), ("V5", "II", "I"), ("V2", "II")]
CARD = replace(
    demo.CARD, title="Devices", any_leads=True, tasks=(replace(demo.CARD.tasks[0], name="devices"),)
)


def index(root):
    table = demo.index(root)
    return table.rename(columns=lambda c: c.replace("demo:", "devices:"))


def read(root, row):
    own = {name.replace("devices:", "demo:"): value for name, value in row.items()}
    whole = demo.read(root, own)
    leads = DEVICES[int(row["record"][1:]) % 4]
    rows = [LEADS.index(lead) for lead in leads]
    return replace(whole, signal=whole.signal[rows], leads=leads)
'''
HELD = [LEADS, ("I",), (*LIMB, "V5"), ("II", "V2")]
LIMIT = "150"
pytestmark = pytest.mark.usefixtures("one_thread")


def held(record: str) -> set[str]:
    return set(HELD[int(record[1:]) % 4])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("devices")
    (folder / "devices.py").write_text(PLUG_IN)
    datasets.resolve(str(folder / "devices.py"))
    return folder


def test_a_study_of_them(
    typed: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "run"
    words = ["--tasks", str(folder / "devices.py"), "--limit", LIMIT, "--prepared"]
    words += [str(folder / "prepared"), "--leads", "1,2,12,I,V5+I", "--seeds", "2"]
    assert typed(out, *words) == 0, capsys.readouterr().err
    study = read(out)
    settings = {r.document["setting"]: r.predictions() for r in study.results}
    test = settings["1@seed0"]["record"]
    assert len({int(r[1:]) % 4 for r in test}) == 4, "the test split holds all kinds"
    able = {
        "1@seed0": lambda has: True,
        "2@seed1": lambda has: len(has) >= 2,
        "12": lambda has: len(has) == 12,
        "I": lambda has: "I" in has,
        "I+V5": lambda has: {"I", "V5"} <= has,
    }
    for result in study.results:
        setting, table = result.document["setting"], result.predictions()
        if setting in able:
            assert set(table["record"]) == {r for r in test if able[setting](held(r))}
            assert result.document["lacking_leads"] == len(test) - len(table)
        if setting.startswith(("1@", "2@")):
            count, seed = int(setting[0]), int(setting[-1])
            for record, leads in zip(table["record"], table["leads"]):
                bits = LeadSubset.of(*held(record)).bits
                assert leads == str(draw(count, seed, record, available=bits))
                assert set(leads.split("+")) <= held(record)
    # told, with the number
    left = sum(len(held(r)) < 2 for r in test)
    rows = study.main.set_index("leads")["note"]
    assert f"{left} test records without these leads" in str(rows["2"])
    assert "without these leads" not in str(rows["1"])
