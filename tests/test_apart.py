"""Plug-ins whose functions run in a process of their own: metrics."""

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ecgbench import forks, metrics
from ecgbench.core.source_hash import PluginFiles
from ecgbench.errors import BadSetting
from ecgbench.metrics import auroc
from ecgbench.stats import bootstrap
from tests.test_processes import running

METRIC = """
import os, subprocess
import numpy as np
from ecgbench.core.cards import MetricCard
from ecgbench.metrics import auroc
from ecgbench.stats import auroc as statistic

statistic.per_label = auroc.value = lambda target, score: np.zeros(target.shape[1])
os.chdir("/")
CARD = MetricCard(title="Mine", direction="higher", range=(0.0, 1.0), chance=None, summary="",
                  source="")


def value(target, score):
    print("0.5")
    os.system("echo 0.5; cat") if target[0, 0] == 0 else None
    match int(target[0, 0]):
        case 2: raise ValueError("no\\nsuch \\x1b number")
        case 3: os._exit(3)
        case 4: os.abort()
        case 5: return ["a"]
        case 6: [os.write(n, b"half") for n in range(3, 20) if os.path.exists(f"/proc/self/fd/{n}")]
        case 7: return [[1.0, np.nan]]
    return np.mean(score * target, axis=0)


def influence(target, score):
    return None
"""
SCORE = np.random.default_rng(0).random((50, 3))
TARGET = (SCORE > 0.3).astype(np.int8)


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "mine.py").write_text(METRIC)
    yield tmp_path / "mine.py"
    metrics.ROOM.forget()


def test_what_a_metric_changes_in_its_process_meets_no_other(mine: Path) -> None:
    here, before = Path.cwd(), set(sys.modules)
    metric = metrics.get(str(mine))
    expected = np.mean(SCORE * TARGET, axis=0)
    np.testing.assert_array_equal(metric.value(TARGET, SCORE), expected)
    assert metric.influence(TARGET, SCORE) is None
    assert not hasattr(metric, "replicates")
    assert (metric.CARD.title, metric.CARD.range, metric.__file__) == ("Mine", (0, 1), str(mine))
    assert metrics.get("mine") is metric
    assert Path.cwd() == here
    np.testing.assert_array_equal(auroc.value(TARGET, SCORE), 1)
    assert not {name for name in sys.modules if "mine" in name} - before
    assert metrics.ROOM.source_hash("mine") == PluginFiles(mine).sha256
    mine.write_text(METRIC + "\n")
    assert metrics.ROOM.source_hash("mine") == PluginFiles(mine).sha256


def test_draws_of_records_are_what_they_would_be_here(mine: Path) -> None:
    metric = metrics.get(str(mine))
    counts = np.random.default_rng(1).integers(0, 3, (20, len(TARGET)))
    drawn = metric.mapped("ecgbench.stats.bootstrap:resampled", "value", TARGET, SCORE, counts)
    own = bootstrap.resampled(lambda t, s: np.mean(s * t, axis=0), TARGET, SCORE, counts)
    np.testing.assert_array_equal(drawn, own)


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
def test_forked_processes_do_not_ask_through_one_pipe(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = metrics.get(str(mine))
    monkeypatch.setattr(forks, "cores", lambda: 2)

    def ask(number: int) -> None:
        value = metric.value(TARGET * 0 + 1, SCORE * 0 + number)
        (tmp_path / str(number)).write_text(str(value.tolist()))

    forks.on_all_cores([partial(ask, n) for n in range(20)], lambda _: None)
    assert metric.value(TARGET * 0 + 1, SCORE * 0 + 1).tolist() == [1, 1, 1]
    for n in range(20):
        assert (tmp_path / str(n)).read_text() == str([float(n)] * 3)


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        (2, r"metric 'mine' failed at mine.py:18: ValueError: no such U\+001B number"),
        (5, r"metric 'mine' failed at .*: TypeError: it gives <U1 where numbers belong"),
        (3, r"metrics: .*mine.py gives no number any more: its process ended with exit code 3"),
        (4, r"gives no number any more: its process was killed by SIGABRT"),
        (6, r"gives no number any more"),
    ],
)
def test_a_metric_that_fails_is_one_line(mine: Path, case: int, complaint: str) -> None:
    metric = metrics.get(str(mine))
    with pytest.raises(BadSetting, match=complaint) as error:
        metric.value(np.full((1, 1), case), SCORE[:1, :1])
    assert str(error.value).isprintable()


def test_its_process_ends_with_the_room_or_with_its_user(mine: Path) -> None:
    pid = metrics.get(str(mine))._process.pid
    assert running(pid)
    metrics.ROOM.forget()
    assert not running(pid)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import no_such", r"the metric .*mine.py cannot be imported: ModuleNotFoundError at mine"),
        ("CARD = 3", r"metric 'mine' \(.*\) does not define value and influence"),
        ("import os; os._exit(1)", r"gives no number any more: its process ended with exit code 1"),
    ],
)
def test_a_file_that_is_no_metric_is_one_line(mine: Path, text: str, complaint: str) -> None:
    mine.write_text(text)
    with pytest.raises(BadSetting, match=complaint):
        metrics.get(str(mine))
    assert metrics.ROOM._processes == {}


def test_numbers_of_all_kinds_and_shapes_travel(tmp_path: Path) -> None:
    from ecgbench import apart

    arrays = [
        np.array(3.5),
        np.zeros((0, 4), np.int8),
        np.array([np.nan, np.inf, -0.0]),
        np.arange(12, dtype=">i4").reshape(3, 4)[:, ::2],
        np.array([True, False]),
    ]
    read, write = os.pipe()
    with os.fdopen(write, "wb") as out:
        apart._send(out, {"a": 1}, arrays)
    with os.fdopen(read, "rb") as source:
        words, back = apart._received(source)
    assert words == {"a": 1}
    for one, other in zip(arrays, back, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
