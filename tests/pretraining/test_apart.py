"""Patients who only compare encoders: who they are, and that nothing trains on them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ecgbench.core.cells import Folders
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare
from ecgbench.errors import BadSetting
from ecgbench.pretraining import assemble as assembling
from ecgbench.pretraining.apart import APART, set_apart
from ecgbench.pretraining.assemble import assemble
from ecgbench.pretraining.exclusion import Exclusion
from ecgbench.pretraining.guard import Name
from ecgbench.pretraining.recipe import get
from ecgbench.pretraining.streaming import Holding
from ecgbench.study.progress import SILENT


def test_one_in_so_many_training_patients_whole_and_the_same_in_a_part(tmp_path: Path) -> None:
    copy = prepare("demo", None, tmp_path)
    divided = set_apart(copy, 4)
    before, after = (p.index.set_index("record")[["patient", "split"]] for p in (copy, divided))
    moved = before["split"] != after["split"]
    assert set(before["split"][moved]) == {"train"}
    assert set(after["split"][moved]) == {APART}
    apart, rest = (set(after["patient"][after["split"] == s]) for s in (APART, "train"))
    assert not apart & rest
    assert 0.12 < len(apart) / len(apart | rest) < 0.4
    assert divided.digest != copy.digest
    assert (divided.published["split"] == APART).sum() == moved.sum()
    fewer = prepare("demo", None, tmp_path / "part", limit=60)
    part = set_apart(fewer, 4).index.set_index("record")["split"]
    assert (part == after["split"][part.index]).all()


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
    held = set_apart(ptbxl, 4)
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


@pytest.mark.parametrize("how", ["memory", "stream"])
def test_they_stay_out_where_only_another_corpus_is_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Any
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
    monkeypatch.setattr(assembling, "_demand_data", lambda *_: None)
    folders = Folders(data=None, prepared=tmp_path, out=tmp_path / "out")
    recipe = replace(get("smoke"), datasets=("brugada",))
    data = assemble(recipe, folders, SILENT, Holding(how=how))
    divided = set_apart(prepare("demo", None, tmp_path), 4).index.set_index("record")["split"]
    assert {*divided[data.development.check.records]} == {APART}
    assert len(data.corpus) == (divided == "train").sum()
    assert data.left_out == {"signal": (divided != "train").sum()}


def test_nobody_apart_is_one_line(tmp_path: Path) -> None:
    copy = prepare("demo", None, tmp_path, limit=60)
    with pytest.raises(BadSetting, match=r"one in 100000 of the \d+ training patients of demo"):
        set_apart(copy, 100_000)
    with pytest.raises(BadSetting, match="--set held_out=8"):
        get("smoke").changed({"apart": 1})
