"""Collections that share patients, in tiny copies of their published layouts: who is in a
validation or test split of one is not trained on under the name of another.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import wfdb

from ecgbench.cards.plan import Folders
from ecgbench.core.division import Division
from ecgbench.data.prepare import prepare, seen
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import MissingData
from ecgbench.pretrain.assemble import assemble
from ecgbench.pretrain.exclusion import same_recordings
from ecgbench.pretrain.recipe import Recipe, get
from ecgbench.pretrain.run import Data
from ecgbench.study.progress import SILENT
from tests.datasets import test_challenge as challenge
from tests.datasets import test_code15 as sample
from tests.datasets.test_ribeiro_dev import FLAGS, annotations, listed

pytestmark = pytest.mark.long

PAPER = get("paper")
EXAMS = range(101, 221)


def patient(exam: int) -> int:
    """In CODE; each has two exams."""
    return 5000 + exam // 2


@pytest.fixture
def minas(tmp_path: Path) -> Path:
    """CODE with a diagnosis in every exam, and CODE-15% of half of its patients, whom it gives
    numbers of its own: an exam tells who they are.
    """
    folder = tmp_path / "code" / "wfdb" / "S0010"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    for exam in EXAMS:
        wfdb.wrsamp(
            f"TNMG{exam}_N1", 400, ["mV"] * 12, [f"D{lead}" for lead in LEADS],
            d_signal=draw.integers(-900, 900, (2400, 12)), fmt=["16"] * 12,
            adc_gain=[1000] * 12, baseline=[0] * 12, write_dir=str(folder),
        )  # fmt: skip
    flags = [[int(exam % 6 == k) for k in range(len(FLAGS))] for exam in EXAMS]
    rows = [(e, patient(e), "2012-01-01", *own) for e, own in zip(EXAMS, flags)]
    annotations(tmp_path / "code", rows)
    listed(tmp_path / "code", [f"TNMG{exam}_N1" for exam in EXAMS])
    sample.make(tmp_path, exams=60)
    return tmp_path


def assembled(recipe: Recipe, folder: Path) -> Data:
    folders = Folders(data=folder, prepared=folder / "prepared", out=folder / "out")
    return assemble(recipe, folders, SILENT)


def held_by(name: str, folder: Path) -> pd.DataFrame:
    index = seen(name, folder, folder / "prepared", Division()).published
    return index[index["split"] != "train"]


def test_code_without_whom_its_parts_test(minas: Path) -> None:
    data = assembled(replace(PAPER, datasets=("code",)), minas)
    trained = {patient(int(name.record[4:-3])) for name in data.corpus.names}
    of_sample = {patient(int(exam)) for exam in held_by("code15", minas)["record"]}
    to_choose = {*map(int, held_by("ribeiro_dev", minas)["patient"])}
    everybody = {*map(patient, EXAMS)}
    assert of_sample
    assert to_choose
    assert of_sample - to_choose
    # a patient of CODE-15% has up to two exams here, so more of CODE are one patient with them
    assert not trained & (of_sample | to_choose)
    assert len(trained) > len(everybody) / 2
    assert sum(data.left_out.values()) == data.left_out["patient"]


def test_a_corpus_whose_tested_patients_cannot_be_known_is_refused(minas: Path) -> None:
    (minas / "code15").rename(minas / "elsewhere")
    with pytest.raises(MissingData, match="leave code out") as refused:
        assembled(replace(PAPER, datasets=("code",)), minas)
    assert str(refused.value).startswith("code15: ")
    assert "\n" not in str(refused.value)


def test_chapman_and_ningbo_have_recordings_in_common_under_other_names(
    tmp_path: Path, copies: Path
) -> None:
    """Ningbo holds each recording of Chapman again, of half its size: whom either tests is in
    neither.
    """
    demo = prepare("demo", None, copies)
    dx = ["426783006", "426177001", "427084000", "164889003"]
    records = demo.index["record"][:60]
    for i, record in enumerate(records):
        signal = demo.recording(record).signal
        times = np.linspace(0, signal.shape[1] - 1, 5000)
        steps = 1000 * np.array([np.interp(times, range(len(row)), row) for row in signal])
        for folder, scale, name in (("chapman/WFDBRecords", 1, i + 1), ("ningbo", 0.5, 20_000 + i)):
            to = tmp_path / folder / f"{i % 3:02d}"
            challenge.store(to, f"JS{name:05d}", dx[i % 4], scale * steps)
    pair = replace(PAPER, datasets=("chapman", "ningbo"), task="chapman")
    trained = {name.record for name in assembled(pair, tmp_path).corpus.names}
    held = {number(r) for name in pair.datasets for r in held_by(name, tmp_path)["record"]}
    free = {*range(len(records))} - held
    assert {len(held), len(free)} != {0, len(records)}
    assert trained == {f"JS{n:05d}" for i in free for n in (i + 1, 20_000 + i)}
    # what is Ningbo's under a name that nobody knows is searched for too
    here = prepare("ningbo", tmp_path, tmp_path / "prepared")
    card = replace(here.card, title="An archive")
    source = replace(here.source, name="mine", module=SimpleNamespace(CARD=card))
    others = [prepare("chapman", tmp_path, tmp_path / "prepared")]
    found = same_recordings([replace(here, source=source)], others, lambda _: nullcontext(print))
    assert {number(other.record) for _, other in found} == {
        number(r) for r in held_by("chapman", tmp_path)["record"]
    }
    # without training on it, what Ningbo tests stays out of Chapman
    alone = assembled(replace(pair, datasets=("chapman",)), tmp_path).corpus.names
    assert {name.record for name in alone} == {f"JS{i + 1:05d}" for i in free}


def number(record: str) -> int:
    """Which recording of the demo it is."""
    named = int(record[2:])
    return named - 20_000 if named >= 20_000 else named - 1
