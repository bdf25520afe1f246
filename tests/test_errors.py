"""Errors a user meets: one line, the nearest names, and whole after a journey between processes."""

import pickle

import pytest

from ecgbench import errors
from ecgbench.errors import EcgbenchError, UnknownName, named

KINDS = [
    e
    for e in vars(errors).values()
    if isinstance(e, type) and issubclass(e, EcgbenchError) and e is not UnknownName
]


def told(name: str, known: list[str], hint: str = "") -> str:
    return str(UnknownName("model", name, known, hint))


def test_every_error_is_the_users_to_mend_and_prints_what_it_was_given() -> None:
    assert len(KINDS) >= 6
    for kind in KINDS:
        assert (
            str(kind("--leads 13: a count of leads is 1 to 12"))
            == "--leads 13: a count of leads is 1 to 12"
        )


@pytest.mark.parametrize(
    ("name", "known", "hint", "expected"),
    [
        (
            "leaf",
            ["laef", "stmem"],
            "",
            "unknown model 'leaf'; did you mean laef? Known: laef, stmem",
        ),
        (
            "leaf",
            ["laef", "stmem"],
            "Or a path",
            "unknown model 'leaf'; did you mean laef? Known: laef, stmem. Or a path",
        ),
        ("xyz", ["laef"], "", "unknown model 'xyz'. Known: laef"),
        ("xyz", ["laef"], "Or a path", "unknown model 'xyz'. Known: laef. Or a path"),
        ("LAEFF", ["laef"], "", "unknown model 'LAEFF'; did you mean laef? Known: laef"),
        ("xyz", [f"label{i}" for i in range(30)], "Or a path", "unknown model 'xyz'. Or a path"),
        ("xyz", [f"label{i}" for i in range(30)], "", "unknown model 'xyz'."),
        (
            "sinuss",
            ["sinus", *(f"label{i}" for i in range(30))],
            "Or a path",
            "unknown model 'sinuss'; did you mean sinus? Or a path",
        ),
        ("a\nb", ["laef"], "", "unknown model 'a\\nb'. Known: laef"),
    ],
)
def test_unknown_names(name: str, known: list[str], hint: str, expected: str) -> None:
    assert told(name, known, hint) == expected


def test_known_names_may_come_from_a_generator_in_their_own_spelling() -> None:
    error = UnknownName("lead", "avR ", (n for n in ("I", "aVR")))
    assert str(error) == "unknown lead 'avR '; did you mean aVR? Known: I, aVR"


@pytest.mark.parametrize(
    "error",
    [*(k("why") for k in KINDS), UnknownName("model", "leaf", ["laef"], "Or a path")],
    ids=repr,
)
def test_errors_survive_the_way_back_from_another_process(error: EcgbenchError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)


@pytest.mark.parametrize(
    "name", ["difflib", "named", "Iterable", "annotations", "__doc__", "no such thing"]
)
def test_a_name_that_is_no_error_of_ours_is_the_base_of_them_all(name: str) -> None:
    error = named(name, "why")
    assert type(error) is EcgbenchError
    assert str(error) == "why"
