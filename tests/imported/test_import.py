"""From a folder and a table to a dataset: what is found, what is left out and why, and what stays
when more comes.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ecgbench import datasets
from ecgbench.data.imported import summary
from ecgbench.data.imported.importing import Imported, Order, bring, same
from ecgbench.data.prepare import prepare
from ecgbench.data.source import Source
from ecgbench.datasets import own
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.errors import BadSetting, EcgbenchError, MissingData
from ecgbench.study.plan import resolve_tasks
from tests import workbook

PATIENTS = 15


@pytest.fixture(autouse=True)
def _rooms() -> Iterator[None]:
    yield
    datasets.ROOM.forget()


def write(file: Path, seed: int = 0, names: str = "I,II") -> None:
    """A table of two limb leads, 2 s at 100 Hz, that says everything itself."""
    steps = np.random.default_rng(seed).integers(-900, 900, (200, names.count(",") + 1))
    file.parent.mkdir(parents=True, exist_ok=True)
    head = f"Sample Rate,100\nUnit,uV\n{names}"
    np.savetxt(file, steps, "%d", ",", header=head, comments="")


def row(i: int) -> str:
    return f"A{i},P{i // 2},{int(i % 4 < 2)},{int(i % 6 < 2)},{40 + i}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """30 recordings of 15 patients in two folders, and labels.csv beside them."""
    for i in range(2 * PATIENTS):
        write(tmp_path / "rec" / ("b" if i % 3 else "a") / f"A{i}.csv", i)
    rows = ["record,patient,af,lbbb,age", *(row(i) for i in range(2 * PATIENTS))]
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def order(home: Path, **more: object) -> Order:
    usual = {"folder": home / "rec", "labels": home / "labels.csv", "name": "mine"}
    return Order(**{**usual, "to": home / "mine", **more})  # type: ignore[arg-type]


def table(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "mine" / "records.csv", dtype=str, keep_default_na=False)


def change(file: Path, *pairs: tuple[str, str]) -> None:
    text = file.read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    file.write_text(text, encoding="utf-8")


def test_what_is_written_is_a_dataset_by_path(folder: Path) -> None:
    made = bring(order(folder))
    assert resolve_tasks([str(folder / "mine" / "card.toml")]) == ["mine"]
    source = Source.of("mine", None)
    index = source.index.set_index("record")
    assert source.root == folder / "rec"
    row = index.loc["A3", ["patient", "path", "mine:af", "mine:lbbb", "age"]]
    assert row.tolist() == ["P1", "a/A3.csv", 0, 0, "43"]
    assert index.groupby("patient")["split"].nunique().max() == 1
    assert {*index["split"]} == {"train", "val", "test"}
    assert source.module.CARD.leads == ("I", "II")
    assert (source.module.CARD.records, source.module.CARD.patients) == (30, PATIENTS)
    read = source.module.read(source.root, {**index.loc["A3"], "record": "A3"})
    assert (read.leads, read.fs, read.unit) == (("I", "II"), 100, "mV")
    text = "\n".join(summary.lines(made))
    for said in ("30 records of 15 patients", "I+II: 30", "Hz: 100: 30 records; length: 2 s"):
        assert said in text


def test_what_cannot_be_trusted_or_has_no_row_costs_itself(folder: Path) -> None:
    (folder / "rec" / "b" / "A5.csv").write_text("<html>")
    write(folder / "rec" / "b" / "stray.csv")
    (folder / "rec" / "notes.pdf").write_text("not looked at")
    change(folder / "labels.csv", ("A7,P3,0", "A7,P3,"))
    made = bring(order(folder))
    rows = table(folder).set_index("record")
    assert rows.index[rows["left_out"] != ""].tolist() == ["A5"]
    text = "\n".join(summary.lines(made))
    for said in ("29 records of", "af: unknown of 1", "quarantined A5: A5.csv", "b/stray.csv"):
        assert said in text
    resolve_tasks([str(folder / "mine" / "card.toml")])
    index = Source.of("mine", None).index.set_index("record")
    assert index["damaged"].map(bool).sum() == 1
    assert index.loc["A4", "split"] == index.loc["A5", "split"]  # of one patient
    assert index.at["A7", "mine:af"] == -1
    assert datasets.get("mine").CARD.tasks[0].masked


def test_a_dataset_in_the_folder_of_its_recordings_is_no_recording(folder: Path) -> None:
    made = bring(order(folder, to=folder / "rec"))
    again = bring(order(folder))
    assert not again.without_row
    assert again.table["file"].equals(made.table["file"])


def test_folders_that_were_moved_are_found(folder: Path) -> None:
    bring(order(folder))
    moved = folder / "elsewhere"
    moved.mkdir()
    shutil.move(folder / "mine", moved / "mine")
    card = moved / "mine" / "card.toml"
    with pytest.raises(MissingData, match=r"not in .*elsewhere/rec; correct the line"):
        Source.of(str(card), None)
    shutil.move(folder / "rec", moved / "rec")
    assert Source.of("mine", None).root == moved / "rec"  # both together: nothing has changed


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were parsed."""
    names, reader = [], own.by_suffix.read

    def counted(path: Path, *more: object) -> object:
        names.append(path.name)
        return reader(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(own.by_suffix, "read", counted)
    return names


def test_each_file_is_parsed_once_and_again_only_when_it_changed(
    folder: Path, read: list[str]
) -> None:
    bring(order(folder))
    datasets.resolve(str(folder / "mine" / "card.toml"))
    first = prepare("mine", None, folder / "prepared").digest
    assert sorted(read) == sorted(f"A{i}.csv" for i in range(2 * PATIENTS))
    read.clear()
    file = folder / "rec" / "b" / "A7.csv"
    text, stat = file.read_text(), file.stat()
    file.write_text(text[:-2] + ("1" if text[-2] != "1" else "2") + "\n")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # of the same size and time
    assert not same(order(folder))
    assert "1 file changed: A7" in bring(order(folder)).notes
    assert read == ["A7.csv"]
    datasets.ROOM.forget()
    datasets.resolve(str(folder / "mine" / "card.toml"))
    assert prepare("mine", None, folder / "prepared").digest != first
    assert read == ["A7.csv"]


def test_a_record_that_a_person_leaves_out_is_in_no_score(folder: Path) -> None:
    bring(order(folder))
    file = folder / "mine" / "records.csv"
    text = file.read_text()
    card = str(folder / "mine" / "card.toml")
    for reason, there in (("double", False), ("", True)):
        file.write_text(re.sub(r"(?m)^(A3,.*,)$", rf"\g<1>{reason}", text))
        datasets.ROOM.forget()
        datasets.resolve(card)
        assert ("A3" in prepare("mine", None, None).rows) == there


EDITS = {
    "no TOML": ('title = "Mine"', "title = Mine", "line 2"),
    "unknown": ("licence =", "license =", "unknown setting 'license'; did you mean licence"),
    "type": ('version = "1"', "version = 1", "card.toml: version is 1"),
    "unit": ('unit = ""', 'unit = "mmHg"', "card.toml: unit mmHg is not a unit"),
    "gone": ('recordings = "../rec"', "", "has no line recordings"),
    "label": ('"af", "lbbb"', '"afib", "lbbb"', "no column 'afib'"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_card_that_was_edited_wrongly_is_refused_in_one_line(folder: Path, name: str) -> None:
    bring(order(folder))
    card = folder / "mine" / "card.toml"
    was, now, said = EDITS[name]
    change(card, (was, now))
    with pytest.raises(EcgbenchError, match=re.escape(said)) as caught:
        assert datasets.get(str(card)).CARD
    assert "\n" not in str(caught.value)
    assert "mine" not in datasets.tasks()  # which others may ask for
    bring(order(folder, overwrite=True))
    datasets.ROOM.forget()
    assert datasets.get(str(card)).CARD.records == 2 * PATIENTS


def test_a_table_without_its_card_is_refused(folder: Path) -> None:
    bring(order(folder))
    (folder / "mine" / "card.toml").unlink()
    with pytest.raises(BadSetting, match=r"without its card\.toml"):
        bring(order(folder))


TABLES = {
    "gone": ([("A7,", "A77,")], "1 of 30 records .* no file .*'A77' .*line 9.*--partial"),
    "twice": ([("A7,", "A8,")], r"line 10: b/A8.csv is named already \(labels.csv, line 9\)"),
    "no name": ([("A7,", ",")], "line 9: no record is named"),
    "named so": ([("af,", "fs,")], "'fs' is also the name of a column of every"),
    "split": ([("age", "split"), (",47\n", ",train\n")], "line 9: the fold 'train' is no whole"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_odd_is_refused_with_its_line(folder: Path, name: str) -> None:
    pairs, said = TABLES[name]
    change(folder / "labels.csv", *pairs)
    with pytest.raises(EcgbenchError, match=said) as caught:
        bring(order(folder))
    assert "\n" not in str(caught.value)
    assert not [*(folder / "mine").glob("*.*")], "no card and no table is written"


def test_tables_of_excel_read_alike_and_merged_cells_are_asked_for(folder: Path) -> None:
    made = bring(order(folder, to=folder / "one")).table
    rows: list[list[str | int | None]] = [["record", "patient", "af", "lbbb", "age"]]
    lines = ["Record;Patient;af;lbbb;Age"]
    for i in range(2 * PATIENTS):
        record, patient, *numbers = row(i).split(",")
        rows.append([record, patient, *map(int, numbers)])
        lines.append(f'"{record}.csv";{patient};{numbers[0]},0;{numbers[1]};{numbers[2]}')
    book = workbook.write(folder / "labels.xlsx", rows)
    for encoding in ("utf-8-sig", "utf-16", "cp1252", ""):
        if encoding:
            book.with_suffix(".csv").write_bytes("\n".join([*lines, "", ";;;;"]).encode(encoding))
        again = bring(order(folder, labels=book.with_suffix(".csv") if encoding else book)).table
        columns = ["record", "file", "patient", "fold", "af", "lbbb", "age"]
        assert again[columns].equals(made[columns])
    rows[4][1] = None  # merged with the row above
    workbook.write(book, rows)
    with pytest.raises(BadSetting, match=r"labels.xlsx, line 5: no patient"):
        bring(order(folder, labels=book))


def test_splits_that_are_given_are_kept_and_no_patient_is_in_two(folder: Path) -> None:
    split = ["Training"] * 18 + ["validation"] * 6 + ["test"] * 6
    rows = [f"{row(i)},{split[i]}" for i in range(2 * PATIENTS)]
    (folder / "labels.csv").write_text("record,patient,af,lbbb,age,split\n" + "\n".join(rows))
    bring(order(folder))
    assert table(folder)["split"].value_counts().to_dict() == {"train": 18, "val": 6, "test": 6}
    shutil.rmtree(folder / "mine")
    change(folder / "labels.csv", ("A16,P8", "A16,Jose\u0301  B"), ("A18,P9", "A18,José B"))
    with pytest.raises(BadSetting, match="in more than one split"):
        bring(order(folder))


def test_a_link_to_a_folder_above_and_a_run_are_not_looked_into(folder: Path) -> None:
    (folder / "rec" / "a" / "loop").symlink_to(folder / "rec")
    write(folder / "rec" / "runs" / "one" / "cells" / "A1.csv")
    (folder / "rec" / "runs" / "one" / "plan.toml").touch()
    bring(order(folder))
    assert len(table(folder)) == 2 * PATIENTS


def test_a_folder_of_other_recordings_is_refused_and_other_settings_are_taken(folder: Path) -> None:
    bring(order(folder))
    before = table(folder)
    shutil.copytree(folder / "rec" / "b", folder / "other" / "c")
    (folder / "other.csv").write_text("record,af\nA1,1\n")
    with pytest.raises(BadSetting, match=r"other recordings, .*: 0 of 1 .*another folder"):
        bring(order(folder, folder=folder / "other", labels=folder / "other.csv"))
    with pytest.raises(BadSetting, match=r"holds the recordings of mine;"):
        bring(order(folder, name="yours"))
    for i in range(2 * PATIENTS):
        write(folder / "new" / "rec" / ("b" if i % 3 else "a") / f"A{i}.csv", 500 + i)
    with pytest.raises(BadSetting, match=r"mine holds other recordings, of .*/rec, than"):
        bring(order(folder, folder=folder / "new" / "rec"))
    assert table(folder).equals(before)
    shutil.copytree(folder / "rec", folder / "copied")
    more = {"options": ReadOptions(unit="uV"), "columns": ("af",)}
    made = bring(order(folder, folder=folder / "copied", **more))
    assert "labels that are gone: lbbb" in "\n".join(made.notes)
    assert table(folder)["fold"].tolist() == before["fold"].tolist()
    assert Source.of(str(made.order.card), None).root == folder / "copied"


@pytest.mark.real
def test_genuine_wfdb_files(real_data: Path, tmp_path: Path) -> None:
    """24 files of the Challenge's sources become a dataset that is prepared."""
    (tmp_path / "rec").mkdir()
    source = real_data / "samples" / "challenge-2021"
    for file in [*source.rglob("*.hea"), *source.rglob("*.mat")]:
        shutil.copy(file, tmp_path / "rec" / file.name)
    names = sorted(p.stem for p in (tmp_path / "rec").glob("*.hea"))
    rows = [f"{name},{i % 2}" for i, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("record,even\n" + "\n".join(rows))
    made: Imported = bring(order(tmp_path))
    assert (made.table["left_out"] == "").all()
    datasets.resolve(str(tmp_path / "mine" / "card.toml"))
    copy = prepare("mine", None, tmp_path / "prepared")
    assert len(copy.index) == len(names) == len(copy.published)


def test_the_command_says_what_was_found_and_refuses_names_that_are_taken(
    here: Callable[..., "subprocess.CompletedProcess[str]"], folder: Path
) -> None:
    words = ("data", "import", "rec", "--labels", "labels.csv")
    done = here(*words, "--name", "mine", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "next: ecgbench data facts ./mine/card.toml" in done.stdout
    assert (folder / "mine" / "card.toml").is_file()
    for name, said in (
        ("ptbxl", "--name ptbxl is taken already"),
        ("PTBXL-Super", "--name PTBXL-Super is taken already"),
        ("../x", "letters, digits, _ and -"),
    ):
        done = here(*words, "--name", name, cwd=folder)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr


def test_a_file_that_is_there_twice_in_the_edited_table_is_refused(folder: Path) -> None:
    bring(order(folder))
    file = folder / "mine" / "records.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, lines[3].replace("A", "B", 1)]) + "\n")
    with pytest.raises(MissingData, match="is there twice; remove one of the lines"):
        own.table(folder / "mine" / "records.csv")
