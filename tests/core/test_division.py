"""What `--folds` says, and how plans keep it."""

from dataclasses import replace

import pytest

from ecgbench.cards.plan import Plan
from ecgbench.core.division import Division
from ecgbench.errors import BadSetting


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2", "--folds 2: 3 to 20 folds"),
        ("21", "--folds 21: 3 to 20 folds"),
        ("5,5", "'5'; one number"),
        ("ptb=5,ptb=10", "'ptb=10'; one number"),
        ("5,ptb=10", "'5'; one number"),
        ("ptb=2", "'ptb=2'; one number"),
        ("ptb=", "'ptb='; one number"),
        ("=5", "'=5'; one number"),
        ("many", "'many'; one number"),
        ("-5", "'-5'; one number"),
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
