"""Corrections of a table after an import: what is said, who stays where, and kills in between."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench import datasets
from ecgbench.data.imported import importing
from ecgbench.data.imported.importing import bring, same
from ecgbench.data.source import Source
from ecgbench.errors import BadSetting
from tests.imported.test_import import PATIENTS, _rooms, change, folder, order, row, table, write

__all__ = ["_rooms", "folder"]


def labels(*pairs: tuple[str, str]) -> Callable[[Path], None]:
    return lambda home: change(home / "labels.csv", *pairs)


def new_record(home: Path) -> None:
    write(home / "rec" / "new.csv", 99)
    change(home / "labels.csv", ("lbbb,age\n", "lbbb,age\nnew,P1,1,0,50\n"))


def person_replaced(home: Path) -> None:
    new_record(home)
    change(home / "labels.csv", (row(2) + "\n", ""), (row(3) + "\n", ""), ("new,P1", "new,0P1"))


CASES = {
    "nothing": (lambda home: None, ""),
    "label": (labels(("A3,P1,0", "A3,P1,1")), r"af: 1 record changed \(A3: af was 0, is 1 now\)"),
    "row added": (new_record, "1 record added: new"),
    "person replaced": (person_replaced, "1 record added: new.*2 records dropped: A2; A3"),
    "names shifted": (
        labels(("A2,P1", "A2,P2"), ("A3,P1", "A3,P2"), ("A4,P2", "A4,Y"), ("A5,P2", "A5,Y")),
        "patient: 4 records changed",
    ),
    "card by hand": (
        lambda home: [
            change(home / "mine" / "card.toml", ('licence = "own', 'licence = "of us')),
            labels((",af,", ",AFib,"))(home),
        ],
        "labels that are new: AFib.*labels that are gone: af",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_correction_is_taken_and_said_and_nobody_moves(folder: Path, name: str) -> None:
    correct, said = CASES[name]
    bring(order(folder))
    was = table(folder).set_index("file")["fold"]
    assert same(order(folder))
    correct(folder)
    assert same(order(folder)) == (name == "nothing")
    made = bring(order(folder))
    notes = "\n".join(made.notes)
    assert re.search(said, notes, re.DOTALL) if said else not made.notes, notes
    assert "moved from" not in notes
    now = table(folder).set_index("file")["fold"]
    both = was.index.intersection(now.index)
    assert now[both].tolist() == was[both].tolist()
    assert len(both) == 30 - 2 * (name == "person replaced")
    assert same(order(folder))
    datasets.resolve(str(folder / "mine" / "card.toml"))
    index = Source.of("mine", None).index.set_index("path")
    for label in made.said.labels:
        assert index[f"mine:{label}"].to_dict() == made.table.set_index("file")[label].to_dict()
    if name == "card by hand":
        assert datasets.get("mine").CARD.licence == "of us recordings"
    if name in ("row added", "person replaced"):
        assert now["new.csv"] == was["b/A2.csv"]


def test_what_was_edited_by_hand_is_used_and_never_undone_without_a_word(folder: Path) -> None:
    bring(order(folder))
    was = table(folder)
    change(folder / "mine" / "records.csv", (",43,", ",34,"))
    edited = table(folder)
    assert same(order(folder))  # a run goes on with it
    assert not same(order(folder, overwrite=True))
    labels(("A4,P2,1", "A4,P2,0"))(folder)
    with pytest.raises(BadSetting, match=r"records.csv was edited by hand, .* --overwrite"):
        bring(order(folder))
    assert table(folder).equals(edited)
    bring(order(folder, overwrite=True))
    now = table(folder)
    assert now["age"].equals(was["age"])
    assert now["fold"].equals(was["fold"])


def test_a_record_of_another_patient_goes_to_the_others_of_him(folder: Path) -> None:
    bring(order(folder))
    was = table(folder).set_index("record")
    other = was.index[(was["fold"] != was.at["A3", "fold"])][0]
    patient, fold = was.loc[other, ["patient", "fold"]]
    text = (folder / "labels.csv").read_text()
    (folder / "labels.csv").write_text(re.sub("(A3,.*)P1,", rf"\1{patient},", text))
    notes = "\n".join(bring(order(folder)).notes)
    now = table(folder).set_index("record")
    assert now.at["A3", "fold"] == fold
    assert now["patient"].nunique() == PATIENTS
    assert now.drop("A3")["fold"].equals(was.drop("A3")["fold"])
    assert re.search(rf"1 patient moved from \w+ to \w+ \({patient}; 1 record\)", notes)


def test_splits_that_the_table_gives_now_are_taken_and_said(folder: Path) -> None:
    bring(order(folder))
    was = table(folder)
    folds = was["fold"].astype(int)
    split = folds.map(lambda f: {5: "test", 4: "val"}.get(f, "train"))
    moved = was["patient"][split == "train"].iloc[0]
    split[was["patient"] == moved] = "test"
    lines = (folder / "labels.csv").read_text().split()
    text = [lines[0] + ",split", *(f"{a},{b}" for a, b in zip(lines[1:], split))]
    (folder / "labels.csv").write_text("\n".join(text) + "\n")
    notes = bring(order(folder)).notes
    assert f"1 patient moved from train to test ({moved}; 2 records)" in notes
    assert table(folder)["split"].tolist() == split.tolist()
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(BadSetting, match=r"were given, and labels.csv gives none"):
        bring(order(folder))


def killed(write: Callable[..., object], left: list[int]) -> Callable[..., object]:
    """The same, until there are no writes left."""

    def inner(*words: object) -> object:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return write(*words)

    return inner


def test_a_kill_between_two_writes_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(order(folder))
    was = table(folder)
    for left, (old, new) in enumerate((("af", "a0f"), ("a0f", "a1f"))):
        change(folder / "labels.csv", (f",{old},", f",{new},"))
        with monkeypatch.context() as patch:
            patch.setattr(importing, "put", killed(importing.put, [left]))
            with pytest.raises(KeyboardInterrupt):
                bring(order(folder))
        assert not same(order(folder))
        assert bring(order(folder)).said.labels == (new, "lbbb")
        now = table(folder)
        assert now["fold"].tolist() == was["fold"].tolist()
        assert now[new].tolist() == was["af"].tolist()
        assert same(order(folder))


def test_what_was_typed_of_the_table_stays(folder: Path) -> None:
    file = folder / "labels.csv"
    lines = file.read_text().split()
    rows = [re.sub(r"^(\w+),(\w+),", r"\1,\2_1,", line) for line in lines[1:]]
    file.write_text("\n".join([lines[0], *rows, rows[0].replace("A0,P0_1", "gone,P0_2")]) + "\n")
    bring(order(folder, patients="(.*?)(?:_.)?", partial=True, columns=("af",)))
    assert same(order(folder))
    change(file, ("A3,P1_1,0", "A3,P1_1,1"))
    made = bring(order(folder))
    assert made.labelled.labels == ("af",)
    assert set(made.table["patient"]) == {f"P{i}" for i in range(15)}
