"""Age, sex, device, site and pacing in one spelling, whatever a dataset's table says."""

from pathlib import Path

import numpy as np
import pandas as pd

from ecgbench.data.people import people
from ecgbench.data.prepare import prepare
from ecgbench.study.people import COLUMNS


def test_what_a_table_says_is_read_in_the_order_of_the_index(
    fake_ptbxl: Path, tmp_path: Path
) -> None:
    table = fake_ptbxl / "ptbxl" / "ptbxl_database.csv"
    lines = table.read_text().splitlines()
    lines[1] = lines[1].replace(",60.0,0,", ",300.0,1.0,")
    lines[2] = lines[2].replace(",60.0,1,", ",,,")
    lines[3] = lines[3].replace("{'NST_'", "{'PACE': 100.0, 'NST_'")
    table.write_text("\n".join(lines) + "\n")
    raw = pd.read_csv(table, dtype=str, keep_default_na=False)
    raw.loc[2, "static_noise"] = " , II,III"
    raw.to_csv(table, index=False)
    copy = prepare("ptbxl", fake_ptbxl, tmp_path / "prepared")
    found = people(copy)
    assert tuple(found) == COLUMNS
    assert found["record"].tolist() == copy.index["record"].tolist()
    by_record = found.set_index("record")
    assert by_record["age"].tolist()[0] == 90.0  # 300: over 89
    assert np.isnan(by_record["age"].iloc[1])
    assert by_record["age"].iloc[2] == 60.0
    assert by_record["sex"].tolist()[:4] == ["female", "", "male", "female"]
    assert set(zip(found["device"], found["site"])) == {("CS-12", "0")}
    assert by_record["paced"].tolist()[:4] == ["no", "no", "yes", "no"]
    assert by_record["noted"].tolist()[:4] == ["no", "no", "yes", "no"]


def test_a_dataset_that_says_nothing_leaves_everything_unknown(tmp_path: Path) -> None:
    found = people(prepare("demo", None, tmp_path, limit=10))
    assert found["age"].isna().all()
    assert (found[["sex", "device", "site", "paced", "noted"]] == "").all(axis=None)
