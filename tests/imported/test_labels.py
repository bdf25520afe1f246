"""What a table of labels says, by value: labels, patients, age and sex, and what is asked for."""

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from ecgbench.data.imported import matching
from ecgbench.data.imported.labels import Labels, checked
from ecgbench.errors import BadSetting

U = -1


def given(home: Path, head: str, rows: list[str], **options: object) -> Labels:
    """A table of records r0, r1, ... with other columns, separated by |; tabs in the file."""
    file = home / "labels.csv"
    lines = [f"record|{head}", *(f"r{i}|{row}" for i, row in enumerate(rows))]
    text = "\n".join(
        "\t".join('"' + c.replace('"', '""') + '"' for c in line.split("|")) for line in lines
    )
    file.write_text(text + "\n", encoding="utf-8", newline="")
    return checked(file, **options)  # type: ignore[arg-type]


def values(made: Labels) -> dict[str, list[int]]:
    return {label: made.table[label].tolist() for label in made.labels}


U2 = ["nan", "NaN", "NA", "N/A", "null", "unknown"]
BOTH = {"AF": [1, 1, 0], "PVC": [1, 0, 1]}
WORDS = {  # cells, labels
    "comma": (["AF, PVC", "AF", "PVC"], BOTH),
    "rows": (["AF\nPVC", "AF", "PVC"], {"AF": [1, 1, 0], "PVC": [1, 0, 1]}),
    "semicolon": (["AF;PVC", "A, b; AF"], {"A, b": [0, 1], "AF": [1, 1], "PVC": [1, 0]}),
    "one": (["ST/T;", "ST/T", "SR"], {"SR": [0, 0, 1], "ST/T": [1, 1, 0]}),
    "numbers": (["8", "9", "3"], {"3": [0, 0, 1], "8": [1, 0, 0], "9": [0, 1, 0]}),
    "unknown": (["AF", *U2, "", "SR"], {"AF": [1, *[U] * 7, 0], "SR": [0, *[U] * 7, 1]}),
    "none": (["AF", "none", "NONE", "nan"], {"AF": [1, 0, 0, U]}),
    "signs": (["AF+", "AF-"], {"AF+": [1, 0], "AF-": [0, 1]}),
    "yes": (["yes", "No", "nan"], {"label": [1, 0, U]}),
    "true": (["True", "FALSE"], {"label": [1, 0]}),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_of_a_column_are_labels(tmp_path: Path, name: str) -> None:
    cells, right = WORDS[name]
    made = given(tmp_path, "label", cells)
    assert values(made) == right
    assert bool(made.notes) == any(U in one for one in right.values())


ASKED = {  # cells, part of the message
    "slash": (["AF/PVC", "SR"], "line 2: .*write 'AF; PVC' where .*'AF/PVC;'"),
    "and": (["SR", "AF and PVC"], "line 3: .*write 'AF; PVC'"),
    "blank": (["AF", "AF PVC", "PVC"], "line 3: .*write 'AF; PVC' where"),
    "another sign": (["AF; PVC", "AF, PVC"], "line 3: .*write .AF; PVC."),
    "case": (["SR", "AF", "af"], "line 4: .*'af', and another row 'AF'; write it in one way"),
    "dot": (["AF", "AF."], "line 3: .*another row 'AF'"),
    "values": (["AF=1;PVC=0", "AF=0;PVC=1"], "'AF=1' is none"),
    "-1 in words": (["AF", "-1"], "line 3: .*nothing where it is unknown"),
    "unknown beside": (["AF; nan", "AF"], "'nan' is none"),
    "missing": (["AF", "---"], "line 3: .*'---' is none"),
    "empty": (["AF", ";"], "line 3: .*';' is none"),
    "maybe": (["yes", "no", "maybe"], "line 4: .*'maybe', where 0 or 1"),
    "classes": (["0", "1", "2"], "line 4: .*'2', where 0 or 1"),
    "-1": (["0", "1", "-1"], "line 4: .*'-1', where 0 or 1 belongs .leave it blank"),
}


@pytest.mark.parametrize("name", ASKED)
def test_words_that_may_mean_two_things_are_asked_for(tmp_path: Path, name: str) -> None:
    cells, message = ASKED[name]
    with pytest.raises(BadSetting, match=message):
        given(tmp_path, "label", cells)


COLUMNS = {  # head, rows, columns, labels
    "0 and 1": ("af", ["1", "0,0", "n/a", ""], (), {"af": [1, 0, U, U]}),
    "only yes": ("af|mi", ["yes|1", "|0"], (), {"mi": [1, 0]}),
    "of a person": ("male|sex_female|age>50|mi", ["1|0|1|1", "0|1|0|0"], (), {"mi": [1, 0]}),
    "named": (
        *("Diagnosis|x", ["AF|1", "SR|0", "AF;SR|0"], ("diagnosis",)),
        {"AF": [1, 0, 1], "SR": [0, 1, 1]},
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_labels(tmp_path: Path, name: str) -> None:
    head, rows, columns, right = COLUMNS[name]
    assert values(given(tmp_path, head, rows, columns=columns)) == right


def test_tables_without_a_label_are_refused(tmp_path: Path) -> None:
    for head, cells in (("af", ["ja", "nein"]), ("label", ["", "nan"])):
        with pytest.raises(
            BadSetting, match=f"no label: .*write 0 and 1, .*line 2: {head} '{cells[0]}'"
        ):
            given(tmp_path, head, cells)


ONE = '012 and 12| 12 and 12|１２ and 12|="00012" and 12|José and Jose\u0301|Doe  J and Doe J'
TWO = "BER-001 and PAR-001|S1-001 and S2-001|001-JS and 002-MK|"
TWO += "1.05 and 105|a1 and b1|12 and 120|P10 and P1|1-12 and 11-2|A and B"
DOUBTFUL = "José and Jose|Doe,John and Doe, John|A–12 and A-12|A12. and A12|A/12 and A12"
DOUBTFUL += (
    "|P7 and p7|P-007 and P7|1,234 and 1234|1.000 and 1000|12.0 and 12|1-2 and 1_2|#12 and 12"
)
DOUBTFUL += "|1.23457E+11 and 5|1E+05 and 99999| and 1|NA and 1|none and 1|12345678901234567 and 1"
DOUBTFUL += "|P00_1 and P00_2|P00 and P00-2|P00_v1 and p00_V2|17 visit 1 and 17 visit 2|17a and 17b"
DOUBTFUL += "|P3_2021-01-05 and P3_2022-07-01|P3 pre and P3 post|P3_M0 and P3_M6|V1_P3 and V2_P3"
DOUBTFUL += "|P3.I and P3.II|P3_0mo and P3_12mo|P00v1 and P00v2|S1-P01 and S1-P02"


@pytest.mark.parametrize("cells", ONE.split("|"))
def test_spellings_of_one_patient_are_joined(tmp_path: Path, cells: str) -> None:
    made = given(tmp_path, "Subject-ID|af", [f"{cell}|1" for cell in cells.split(" and ")])
    assert made.table["patient"].nunique() == 1


@pytest.mark.parametrize("cells", TWO.split("|"))
def test_patients_that_differ_stay_two(tmp_path: Path, cells: str) -> None:
    made = given(tmp_path, "MRN|af", [f"{cell}|1" for cell in cells.split(" and ")])
    assert made.table["patient"].nunique() == 2


@pytest.mark.parametrize("cells", DOUBTFUL.split("|"))
def test_spellings_that_may_be_two_patients_are_asked_for(tmp_path: Path, cells: str) -> None:
    with pytest.raises(BadSetting, match=r"line \d: .*(may be|no patient|may have lost)"):
        given(tmp_path, "patient|af", [f"{cell}|1" for cell in cells.split(" and ")])


VISITS = "P00-baseline P00-follow-up P01-baseline|V1_P00 V2_P00 V1_P01|P00_M0 P00_M6 P01_M0|"
VISITS += "P00_1 P00_2 P01_1|S1-P01 v1,S1-P01 v2,S1-P02 v1|17a 17b 18a|P3 P3_2 P4|"
VISITS += "V1_P00 V1_P01 V2_P00|S1-P01,S1-P02,S1-P01 v2"


@pytest.mark.parametrize("cells", VISITS.split("|"))
def test_the_advised_pattern_of_visits_leaves_the_persons(tmp_path: Path, cells: str) -> None:
    rows = [f"{cell}|1" for cell in cells.split("," if "," in cells else " ")]
    with pytest.raises(BadSetting, match=r"line \d: .*line 2") as refused:
        given(tmp_path, "patient|af", rows)
    advised = re.findall(r"--patients ('[^']+'|\S+?)(?:;|$)", str(refused.value))
    for pattern, count in zip(advised, (2, 3), strict=True):
        made = given(tmp_path, "patient|af", rows, whose=shlex.split(pattern)[0])
        assert made.table["patient"].nunique() == count


def test_a_pattern_that_is_none_or_fits_not_is_refused(tmp_path: Path) -> None:
    for pattern, said in (
        ("(", "in parentheses"),
        ("P.", "in parentheses"),
        ("(P.)_1", "line 3: 'X'"),
    ):
        with pytest.raises(BadSetting, match=said):
            given(tmp_path, "patient|af", ["P1_1|1", "X|0"], whose=pattern)


def test_the_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    table = pd.DataFrame({"record": ["a", "b"], "PatientSex": ["M", "F"], "Age": [7, 8]})
    table.assign(af=[1, 0]).to_csv(tmp_path / "t.csv")
    made = checked(tmp_path / "t.csv")
    assert (made.labels, made.table["sex"].tolist()) == (("af",), ["M", "F"])
    assert made.table["age"].tolist() == ["7", "8"]


def test_splits_of_another_name_are_said_and_taken_on_demand(tmp_path: Path) -> None:
    words, ten = ["train", "train", "Test", "val"] * 5, [str(i % 10 + 1) for i in range(20)]
    ages = [str(40 + i % 10) for i in range(20)]
    rows = [f"{i % 2}|{w}|{f}|{a}" for i, (w, f, a) in enumerate(zip(words, ten, ages))]
    head = "af|Partition|strat_fold|years"
    notes = "\n".join(given(tmp_path, head, rows).notes)
    assert [w for w in head.split("|") if f"--split {w}" in notes] == ["Partition", "strat_fold"]
    made = given(tmp_path, head, rows, split="partition").table
    assert made["split"].tolist() == ["train", "train", "test", "val"] * 5
    folds = given(tmp_path, head, rows, split="strat_fold").table
    assert folds["fold"].tolist() == [i % 10 + 1 for i in range(20)]
    with pytest.raises(BadSetting, match=r"no column 'other'.*--split"):
        given(tmp_path, head, rows, split="other")


def test_columns_of_patients(tmp_path: Path) -> None:
    rows = ["a|1", "a|0", "b|1", "b|0", "c|1", "c|0"]
    for head in ("subject_id", "PatientID", "MRN", "Patient ID", "Patient_Nr.", "subject-no"):
        assert given(tmp_path, f"{head}|af", rows).table["patient"].tolist() == [*"aabbcc"]
    assert not given(tmp_path, "case|af", rows).patients_known
    with pytest.raises(BadSetting, match="'patient' and 'MRN' may both say"):
        given(tmp_path, "patient|MRN|af", ["1|7|0", "1|8|1"])


FILES = {  # names, files, --match-zeros, what is matched or the message
    "zeros": (["1"], ["00001.csv"], False, "line 0: .*no file; .*'00001.csv'.*--match-zeros"),
    "matched": (["1", "2.csv"], ["00001.csv", "a/02.csv"], True, ["00001.csv", "a/02.csv"]),
    "in names": (["rec7"], ["rec007.csv"], True, ["rec007.csv"]),
    "two files": (["1"], ["01.csv", "001.csv"], True, "may be 001.csv and 01.csv"),
    "two names": (["1", "01"], ["001.csv"], True, "001.csv is named already"),
    "exact first": (["1", "01"], ["01.csv", "1.csv"], True, ["1.csv", "01.csv"]),
    "capitals": (["a01"], ["A01.CSV"], False, ["A01.CSV"]),
    "none": (["A_12"], ["A12.csv"], False, "1 of 1 .*'A_12' .line 0.*--partial"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_names_mean(name: str) -> None:
    names, files, zeros, right = FILES[name]
    places = [f"line {i}" for i, _ in enumerate(names)]
    if isinstance(right, list):
        assert matching.matched(names, places, files, False, zeros) == right
        return
    with pytest.raises(BadSetting, match=right):
        matching.matched(names, places, files, False, zeros)


SIBLINGS = {  # files, which of them can be read, what the table names, what is taken
    "a report": ("a.txt a.xml", "a.xml", "a", "a.xml"),
    "a report of numbers": ("a.csv a.dcm", "a.csv", "a", "a.dcm"),
    "header and notes": ("a.hea a.txt", "a.hea", "a", "a.hea"),
    "named": ("a.csv a.xml", "a.csv a.xml", "a.csv", "a.csv"),
    "named in capitals": ("a.csv a.xml", "a.csv a.xml", "A.XML", "a.xml"),
    "both": ("b/a.csv b/a.xml", "b/a.csv b/a.xml", "a", "b/a.csv and b/a.xml"),
}


@pytest.mark.parametrize("name", SIBLINGS)
def test_a_recording_is_one_file(name: str) -> None:
    files, sound, named, right = SIBLINGS[name]
    how = [named], ["line 2"], files.split(), False, False, sound.split().__contains__
    if " " not in right:
        assert matching.matched(*how) == [right]
        return
    with pytest.raises(BadSetting, match=f"line 2: .*{right}"):
        matching.matched(*how)


def test_names_that_only_case_tells_apart_are_refused(tmp_path: Path) -> None:
    for head, rows in (("af|label", ["1|AF", "0|SR"]), ("label|labels", ["AF|AF", "SR|SR"])):
        with pytest.raises(BadSetting, match=r"'AF' is also '(af|AF)'; rename one"):
            given(tmp_path, head, rows)
