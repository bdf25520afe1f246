import pytest

from ecgbench.core.text import duration, line, visible


@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "a\u202eb", "\ud800", "\ufeffa", "a\x00b", "a\u2028b"]
)
def test_what_a_terminal_obeys_is_spelled(text: str) -> None:
    assert line(text).isprintable()
    assert "U+" in visible(text)


@pytest.mark.parametrize("seconds", [0, 9.94, 9.96, 59.5, 119.6, 3599.6, 86399.6, 1e7])
def test_a_duration_has_two_units_at_most_and_none_that_is_full(seconds: float) -> None:
    words = duration(seconds).split()
    assert len(words) in (2, 4)
    limit = {"s": 60, "min": 60, "h": 24}
    pairs = list(zip(words[::2], words[1::2], strict=True))
    assert all(float(n) < limit.get(unit, 1e9) for n, unit in pairs)
