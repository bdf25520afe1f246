"""What `--folds` says, and how plans keep it."""

from dataclasses import replace

import pytest

from ecgbench.core.cells import Plan
from ecgbench.core.division import Division
from ecgbench.errors import BadSetting


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1", "--folds 1: a cross-validation has 3 to 20 folds"),
        ("2", "one is tested, one validates and the others train; for example --folds 5"),
        ("21", "--folds 21: a cross-validation has 3 to 20 folds"),
        ("5,5", "give --folds 5 alone"),
        ("ptb=5,ptb=10", "dataset ptb is there twice"),
        ("5,ptb=10", "replaces the datasets' own splits; give --folds 5 alone"),
        ("reference,5", "give --folds 5 alone, or leave 5 out"),
        ("ptb=2", "at least 3 folds"),
        ("ptb=", "'ptb=' is neither a number of folds, NAME=NUMBER nor reference"),
        ("=5", "'=5' is neither"),
        ("many", "'many' is neither"),
        ("-5", "'-5' is neither"),
        (" , ", "names nothing"),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_line(text: str, said: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Division.parse(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["3", "20", "ptb=10", "code15=20,ptb=10,reference", "reference"])
def test_it_reads_what_it_prints_and_shares_a_folder_with_no_other(text: str) -> None:
    assert str(Division.parse(text)) == text
    plain = Plan(name="n", cells=())
    assert replace(plain, division=Division.parse(text)).shared() != plain.shared()
