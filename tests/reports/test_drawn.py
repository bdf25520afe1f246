"""Pictures that are kept: the same bytes, not drawn twice, and never those of another figure."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecgbench.reports import Figure, drawn

pytestmark = pytest.mark.rendered


def _line(values: Any, sheet: Any) -> None:
    sheet.subplots().plot(np.asarray(values, float))


FIGURE = Figure(name="line", draw=partial(_line, [1.0, 2.0]), caption="A line.", size=(2, 2))


def test_a_picture_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = drawn(FIGURE, tmp_path)
    assert first == drawn(FIGURE, None)
    monkeypatch.setattr("ecgbench.reports._drawn.pictures", None)
    assert drawn(FIGURE, tmp_path) == first


@pytest.mark.parametrize(
    "other",
    [
        {"draw": partial(_line, [1.0, 2.0000000000000004])},
        {"draw": partial(_line, (1.0, 2.0, 3.0))},
        {"draw": partial(_line, np.array([1.0, 2.0], np.float32))},
        {"draw": partial(_line, pd.DataFrame({"a": [1.0, 2.0]}))},
        {"caption": "Another."},
        {"size": (2, 2.5)},
    ],
)
def test_whatever_it_is_drawn_from_makes_it_another(tmp_path: Path, other: dict[str, Any]) -> None:
    drawn(FIGURE, tmp_path)
    drawn(replace(FIGURE, **other), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_picture_is_drawn_again(tmp_path: Path) -> None:
    first = drawn(FIGURE, tmp_path)
    (file,) = tmp_path.iterdir()
    drawn(replace(FIGURE, caption="another"), tmp_path)
    (another,) = (each for each in tmp_path.iterdir() if each != file)
    kept = file.read_bytes()
    spoilt = [kept[:-1], b"", b"{}\nx", b"[]\n", kept + b"x", b"[" * 100_000 + b"\n"]
    spoilt += [another.read_bytes(), kept.replace(b'"sizes": {', b'"sizes": {"gif": 0, ')]
    for content in spoilt:
        file.write_bytes(content)
        assert drawn(FIGURE, tmp_path) == first
        assert file.read_bytes() == kept


def test_a_figure_that_holds_what_is_not_seen_is_drawn_every_time(tmp_path: Path) -> None:
    for end in (2.0, 3.0):
        value = [1.0, end]
        made = replace(FIGURE, draw=lambda sheet, value=value: _line(value, sheet))
        assert drawn(made, tmp_path) == drawn(made, None)
        hidden = replace(FIGURE, draw=lambda sheet: _line(value, sheet))  # noqa: B023
        assert drawn(hidden, tmp_path) == drawn(hidden, None)
