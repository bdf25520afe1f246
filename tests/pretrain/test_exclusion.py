"""What evaluation may see stays out of pre-training, under whatever name it comes: by exclusion, by
the leak_check, and with patients who only compare encoders.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ecgbench.cards.plan import Folders
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare
from ecgbench.errors import BadSetting, LeakError
from ecgbench.pretrain import assemble as assembling
from ecgbench.pretrain.assemble import assemble
from ecgbench.pretrain.exclusion import HELD_OUT, Exclusion, LeakCheck, Name, hold_out
from ecgbench.pretrain.recipe import get
from ecgbench.study.progress import SILENT

FOLDS = {1: 1, 123: 8, 5: 9, 200: 10, 21_837: 3}
OWN = ("{:05d}", "{}", "records500/00000/{:05d}_hr", "records100/00000/{:05d}_lr.dat", "HR{:05d}")
CHALLENGE = (
    "HR{:05d}",
    "hr{:05d}",
    "HR{:05d}.mat",
    "training/ptb-xl/g1/HR{:05d}",
    "ptb-xl_HR{:05d}_second",
    "00000/{:05d}_hr",
    "HR{}",
)


def leak_check(*extra: Name) -> LeakCheck:
    """One to which every name that it is asked is of the training split: only the fold can stop
    it.
    """
    training: dict[str, set[str]] = {}
    for name in extra:
        training.setdefault(name.dataset, set()).add(name.record)
    return LeakCheck(training, FOLDS)


def spelled(ecg_id: int) -> list[Name]:
    own = [
        Name(dataset, s.format(ecg_id))
        for dataset in ("ptbxl", "PTB-XL", "challenge2021-ptb-xl")
        for s in OWN
    ]
    return own + [
        Name(dataset, s.format(ecg_id))
        for dataset in ("challenge2021", "anything")
        for s in CHALLENGE
    ]


@pytest.mark.parametrize(
    ("ecg_id", "said"), [(5, "fold 9"), (200, "fold 10"), (777, "its fold is not known")]
)
def test_no_record_of_the_evaluation_passes_under_any_name(ecg_id: int, said: str) -> None:
    for name in spelled(ecg_id):
        with pytest.raises(LeakError, match=said):
            leak_check(name)([name])
    hidden = Name("challenge2021", f"HR{ecg_id:05d}")
    with pytest.raises(LeakError, match=said):
        leak_check(*spelled(1), *spelled(ecg_id))([*spelled(1), hidden])


def test_training_folds_and_other_datasets_pass() -> None:
    names = [name for ecg_id in (1, 123, 21_837) for name in spelled(ecg_id)]
    names += [
        Name("code15", "5"),
        Name("challenge2021", "A0005"),
        Name("challenge2021", "JS00200"),
        Name("sph", "A00005"),
        Name("x", "CHR00005"),
        Name("clinic", "patient_HR_72"),
        Name("clinic", "visit2_HR5"),
    ]
    checked = leak_check(*names)
    checked(names)
    with pytest.raises(LeakError, match="not of a training split"):
        checked([Name("code15", "6")])
    with pytest.raises(LeakError, match="fold is not known"):
        leak_check(Name("ptbxl", "first"))([Name("ptbxl", "first")])


def prepared(name: str, rows: list[tuple[str, str, str, str, int]]) -> Any:
    index = pd.DataFrame(rows, columns=["record", "patient", "split", "sha256", "fold"])
    return SimpleNamespace(name=name, index=index, published=index)


PTBXL = prepared(
    "ptbxl",
    [
        ("00001", "p1", "train", "s1", 1),
        ("00002", "p2", "val", "s2", 9),
        ("00003", "p3", "test", "s3", 10),
        ("00004", "p3", "train", "s4", 8),
    ],
)
GEORGIA = prepared(
    "georgia",
    [
        ("HR00001", "a", "train", "h1", 0),
        ("HR00002", "b", "train", "h2", 0),
        ("g1/HR00003.mat", "c", "train", "h3", 0),
        ("E00001", "d", "train", "s3", 0),
        ("E00002", "e", "train", "e2", 0),
        ("E00003", "f", "test", "e3", 0),
        ("E00004", "f", "train", "e4", 0),
        ("E00005", "g", "train", "e3", 0),
    ],
)


@pytest.mark.parametrize(
    ("dataset", "record", "reason"),
    [
        ("ptbxl", "00001", ""),
        ("ptbxl", "00004", "patient"),
        ("georgia", "HR00001", ""),
        ("georgia", "HR00002", "id"),
        ("georgia", "g1/HR00003.mat", "id"),
        ("georgia", "E00001", "signal"),
        ("georgia", "E00002", ""),
        ("georgia", "E00004", "patient"),
        ("georgia", "E00005", "signal"),
    ],
)
def test_a_recording_is_left_out_by_id_patient_or_signal(
    dataset: str, record: str, reason: str
) -> None:
    exclusion = Exclusion([PTBXL, GEORGIA])
    assert exclusion(Name(dataset, record)) is not bool(reason)
    assert dict(exclusion.reasons) == ({reason: 1} if reason else {})


def test_one_in_so_many_training_patients_whole_and_the_same_in_a_part(tmp_path: Path) -> None:
    copy = prepare("demo", None, tmp_path)
    divided = hold_out(copy, 4)
    before, after = (p.index.set_index("record")[["patient", "split"]] for p in (copy, divided))
    moved = before["split"] != after["split"]
    assert set(before["split"][moved]) == {"train"}
    assert set(after["split"][moved]) == {HELD_OUT}
    apart, rest = (set(after["patient"][after["split"] == s]) for s in (HELD_OUT, "train"))
    assert not apart & rest
    assert 0.12 < len(apart) / len(apart | rest) < 0.4
    assert divided.digest != copy.digest
    assert (divided.published["split"] == HELD_OUT).sum() == moved.sum()
    fewer = prepare("demo", None, tmp_path / "part", limit=60)
    part = hold_out(fewer, 4).index.set_index("record")["split"]
    assert (part == after["split"][part.index]).all()


@pytest.mark.long
def test_no_recording_of_them_is_trained_on(tmp_path: Path) -> None:
    recipe = get("smoke")
    folders = Folders(data=None, prepared=tmp_path, out=tmp_path / "out")
    data = assemble(recipe, folders, SILENT)
    index = prepare("demo", None, tmp_path).index.set_index("record")
    checked, learned = data.development.check.records, data.development.learn.records
    trained = [name.record for name in data.corpus.names]
    assert set(index["split"][checked]) == {"train"}
    assert not {*index["patient"][checked]} & {*index["patient"][[*trained, *learned]]}
    plain = assemble(replace(recipe, apart=None), folders, SILENT)
    assert len(plain.corpus) == len(data.corpus) + len(checked)
    assert set(index["split"][plain.development.check.records]) == {"val"}


def test_their_recordings_stay_out_under_challenge_names(tmp_path: Path) -> None:
    """The demo, named PTB-XL, beside a collection that has its recordings as HR00001 ..."""
    copy = prepare("demo", None, tmp_path)
    ids = range(1, len(copy.published) + 1)
    named = {
        t: table.assign(
            record=[f"{i:05d}" for i in ids][: len(table)],
            fold=(table["split"] == "train").map({True: 1, False: 10}),
        )
        for t, table in (("published", copy.published), ("index", copy.index))
    }
    ptbxl = replace(copy, source=replace(copy.source, name="ptbxl")).divided(
        named["published"], named["index"], ""
    )
    held = hold_out(ptbxl, 4)
    other = copy.index.assign(
        record=[f"HR{i:05d}" for i in ids],
        patient=[f"other {i}" for i in ids],
        sha256=[f"{i:064x}" for i in ids],
        split="train",
    )
    challenge = replace(copy, source=replace(copy.source, name="challenge")).divided(
        other, other, ""
    )
    exclusion = Exclusion([held, challenge])
    let = {r for r in other["record"] if exclusion(Name("challenge", r))}
    trained = held.index.loc[held.index["split"] == "train", "record"]
    assert let == {f"HR{r}" for r in trained}
    assert set(exclusion.reasons) == {"id"}


@pytest.mark.long
def test_they_stay_out_where_only_another_corpus_is_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The development task is of the demo, the corpus a collection that has the same signals."""

    def collection(name: str, *words: Any) -> Copy:
        copy = prepare("demo", *words)
        if name == "demo":
            return copy
        table = copy.index.assign(
            patient=[f"other {i}" for i in range(len(copy.index))], split="train"
        )
        return replace(copy, source=replace(copy.source, name=name)).divided(
            table, table, "a collection"
        )

    monkeypatch.setattr(assembling, "prepare", collection)
    monkeypatch.setattr(assembling, "missing_data", lambda *_: [])
    folders = Folders(data=None, prepared=tmp_path, out=tmp_path / "out")
    recipe = replace(get("smoke"), datasets=("brugada",))
    data = assemble(recipe, folders, SILENT)
    divided = hold_out(prepare("demo", None, tmp_path), 4).index.set_index("record")["split"]
    assert {*divided[data.development.check.records]} == {HELD_OUT}
    assert len(data.corpus) == (divided == "train").sum()
    assert data.left_out == {"signal": (divided != "train").sum()}


def test_nobody_apart_is_one_line(tmp_path: Path) -> None:
    copy = prepare("demo", None, tmp_path, limit=60)
    with pytest.raises(BadSetting, match=r"one in 100000 of the \d+ training patients of demo"):
        hold_out(copy, 100_000)
    with pytest.raises(BadSetting, match="--set held_out=8"):
        get("smoke").changed({"apart": 1})
