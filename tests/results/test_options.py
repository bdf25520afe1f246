"""What a reader asks of reports: names as they are known, margins, and pairs of patients."""

from pathlib import Path

import pytest

from ecgbench.errors import BadSetting
from ecgbench.results.options import chosen, margins, pairs


def test_names_are_found_however_they_are_spelled() -> None:
    assert chosen("ST-MEM, laef", ["laef", "stmem"], "--baseline") == ("stmem", "laef")
    assert chosen("", ["laef"], "--baseline") == ()
    with pytest.raises(BadSetting, match=r"--baseline merl: .* laef"):
        chosen("merl", ["laef"], "--baseline")


@pytest.mark.parametrize("text", ["0", "0.6", "a", "nan"])
def test_margins_that_mean_nothing(text: str) -> None:
    with pytest.raises(BadSetting, match=r"--set report\.margins="):
        margins(text)


def test_patients_of_a_chain_of_pairs_are_one(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(
        "dataset,record,patient,split,other dataset,other record,other patient,other split,"
        "shift,correlation\n"
        "chapman,r1,p1,test,ningbo,s1,q1,train,0,1\n"
        "ningbo,s1,q1,train,ningbo,s9,q2,test,0,1\n"
        "chapman,r7,p7,test,ningbo,s7,q7,test,0,1\n"
    )
    found = pairs(file)
    one = {found[p] for p in (("chapman", "p1"), ("ningbo", "q1"), ("ningbo", "q2"))}
    other = {found[p] for p in (("chapman", "p7"), ("ningbo", "q7"))}
    assert (len(one), len(other), len(one | other)) == (1, 1, 2)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for name in ("other.csv", "gone.csv"):
        with pytest.raises(BadSetting, match=name):
            pairs(tmp_path / name)
