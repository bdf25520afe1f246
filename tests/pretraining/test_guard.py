"""Who may enter training: no recording of PTB-XL's folds 9 and 10, under any name, asked one by one
or all at once.
"""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecgbench.errors import LeakError
from ecgbench.pretraining.guard import Guard, Name

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


def guard(*extra: Name) -> Guard:
    """One to which every name that it is asked is of the training split: only the fold can stop
    it.
    """
    training: dict[str, set[str]] = {}
    for name in extra:
        training.setdefault(name.dataset, set()).add(name.record)
    return Guard(training, FOLDS)


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


def one_by_one(guard: Guard, names: list[Name]) -> None:
    """As a corpus in memory asks."""
    guard(names)


def at_once(guard: Guard, names: list[Name]) -> None:
    """As a streamed corpus asks."""
    for dataset in dict.fromkeys(name.dataset for name in names):
        guard.ask(dataset, pa.chunked_array([[n.record for n in names if n.dataset == dataset]]))


Asks = Callable[[Guard, list[Name]], None]
both_ways = pytest.mark.parametrize("ask", [one_by_one, at_once])


@both_ways
@pytest.mark.parametrize(
    ("ecg_id", "told"), [(5, "fold 9"), (200, "fold 10"), (777, "its fold is not known")]
)
def test_no_record_of_the_evaluation_passes_under_any_name(
    ecg_id: int, told: str, ask: Asks
) -> None:
    for name in spelled(ecg_id):
        with pytest.raises(LeakError, match=told):
            ask(guard(name), [name])
    with pytest.raises(LeakError, match=told):
        ask(
            guard(*spelled(1), *spelled(ecg_id)),
            [*spelled(1), Name("challenge2021", f"HR{ecg_id:05d}")],
        )


@given(
    st.sampled_from(["challenge2021", "ptbxl", "d"]),
    st.text("hrHRſ_l5010/.a٣-", min_size=1, max_size=12) | st.text(max_size=8),
)
def test_all_at_once_none_passes_that_would_not_alone(dataset: str, record: str) -> None:
    """Names near those of PTB-XL, of a guard that knows no fold."""
    name = Name(dataset, record)
    told = []
    for ask in (one_by_one, at_once):
        try:
            ask(Guard({dataset: [record]}, {}), [name])
            told.append("")
        except LeakError as error:
            told.append(str(error))
    assert told[0] == told[1]


@both_ways
def test_training_folds_and_other_datasets_pass(ask: Asks) -> None:
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
    checked = guard(*names)
    ask(checked, names)
    ask(checked, names)
    with pytest.raises(LeakError, match="not of a training split"):
        ask(checked, [Name("code15", "6")])
    with pytest.raises(LeakError, match="fold is not known"):
        ask(guard(Name("ptbxl", "first")), [Name("ptbxl", "first")])
