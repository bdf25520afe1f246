"""What holds of every collection, tried on a tiny copy of each in its true layout."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ecgbench import datasets
from ecgbench.check import datasets as conformance
from ecgbench.data.prepare import prepare
from ecgbench.datasets.indexing.tables import either
from ecgbench.errors import EcgbenchError
from tests.data import ptbxl_copy
from tests.datasets import test_brugada as brugada
from tests.datasets import test_challenge as challenge
from tests.datasets import test_chapman as chapman
from tests.datasets import test_cinc2017 as cinc2017
from tests.datasets import test_code15 as code15
from tests.datasets import test_corpora as corpora
from tests.datasets import test_cpsc2021 as cpsc2021
from tests.datasets import test_echonext as echonext
from tests.datasets import test_hefei as hefei
from tests.datasets import test_ptb as ptb
from tests.datasets import test_ribeiro_dev as ribeiro_dev
from tests.datasets import test_sph as sph
from tests.datasets import test_zzu as zzu

WHOLE: dict[str, Callable[[Path], Any]] = {
    **{name: lambda data, name=name: challenge.made(data, name) for name in challenge.COLLECTIONS},
    "cinc2017": lambda data: cinc2017.write(data / "cinc2017", list("NAO~") * 10),
    "code": corpora.code,
    "echonext": echonext.write,
    "ikem": corpora.ikem,
    "mimic_iv_ecg": corpora.mimic,
    "ptb": ptb.made,
    "ptbxl": ptbxl_copy.make,
    "ribeiro_dev": ribeiro_dev.made,
}
"""With the signals of every record."""
COPIES = WHOLE | {
    "brugada": lambda data: brugada.write(data / "brugada_huca"),
    "chapman": lambda data: chapman.write(data, list(range(77))),
    "code15": code15.make,
    "cpsc2021": cpsc2021.made,
    "hefei": lambda data: hefei.write(data, list(range(120))),
    "sph": sph.make,
    "zzu": lambda data: zzu.write(data / "zzu", [{}] * 30),
}
TABLES = (
    *("brugada", "code", "code15", "echonext", "ikem"),
    *("mimic_iv_ecg", "ptbxl", "ribeiro_dev", "sph", "zzu"),
)
"""Read from a table of values with a line of names."""
IDS = {"exam_id", "ecg_key", "patient_key", "subject_id", "patient_id", "ECG_ID", "Patient_ID"}
"""Columns that no row may leave blank."""


def root_of(name: str, data: Path) -> Path:
    COPIES[name](data)
    return data / datasets.get(name).CARD.folder


def content(name: str, root: Path) -> pd.DataFrame:
    """Whose each record is, its split and its labels, in the order of records."""
    found = datasets.get(name).index(root).sort_values("record", ignore_index=True)
    about = ("record", "patient", "split", "fold")
    return found[[column for column in found if column in about or ":" in column]]


def test_every_collection_has_a_copy() -> None:
    built_in = {name for name in datasets.names() if datasets.ROOM.built_in(name)}
    assert built_in - {*COPIES} == {"demo", "nstdb"}


@pytest.mark.parametrize("name", COPIES)
def test_whole_patients_follow_their_fold_and_labels_are_whole_numbers(
    name: str, tmp_path: Path
) -> None:
    card, found = datasets.get(name).CARD, content(name, root_of(name, tmp_path))
    assert (found.groupby("patient")["split"].nunique() == 1).all()
    for task in card.tasks:
        assert (found[task.columns].dtypes == "int8").all()
        assert found[task.columns].isin([0, 1, -1] if task.masked else [0, 1]).all(axis=None)
    if "fold" in found:
        last = {found["fold"].max(): "test", found["fold"].max() - 1: "val"}
        assert found["fold"].between(1, card.folds).all()
        assert found["split"].tolist() == [last.get(fold, "train") for fold in found["fold"]]
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    with pytest.raises((EcgbenchError, OSError)):
        datasets.get(name).index(nowhere)


@pytest.mark.parametrize("name", WHOLE)
def test_a_prepared_copy_keeps_what_every_copy_keeps(name: str, tmp_path: Path) -> None:
    root_of(name, tmp_path)
    rows = conformance.check(name, tmp_path, tmp_path / "prepared")
    assert [row for row in rows if not row["ok"]] == []
    assert len(prepare(name, tmp_path, tmp_path / "part", limit=2).index) >= 2


@pytest.mark.parametrize("name", TABLES)
def test_no_column_row_or_patient_of_a_table_is_missed(name: str, tmp_path: Path) -> None:
    root = root_of(name, tmp_path)
    (file, *_) = either(root, datasets.get(name).CARD.index_files[0])
    whole, wanted = pd.read_csv(file, dtype=str, keep_default_na=False), content(name, root)

    def refused(table: pd.DataFrame | str) -> str:
        text = table if isinstance(table, str) else table.to_csv(index=False)
        file.write_text(text, encoding="utf-8")
        try:
            same = content(name, root).equals(wanted)
        except EcgbenchError as error:
            return str(error)
        return "" if same else "another index"

    if name != "echonext":  # its order is that of the arrays
        assert refused(whole[::-1]) == ""
    for column in whole:
        said = refused(whole.drop(columns=column))
        assert said == "" or f"lacks the column {column}; download it again" in said
        if column in IDS and name != "ptbxl":
            blank = whole.assign(**{column: whole[column].mask(whole.index == 1, " ")})
            assert f"has no {column} in row 2" in refused(blank)
    assert "lacks the column" in refused("<!DOCTYPE html><html>Sign in</html>\n")
    assert "has no rows" in refused(whole[:0])
    assert "not a table" in refused("")
    assert refused(whole.to_csv(index=False) + "7\n") or name == "code"
