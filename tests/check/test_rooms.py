"""Every policy and every dataset keeps its promises; and one that does not is found out."""

from pathlib import Path

import pytest

from ecgbench import datasets, policies
from ecgbench.check import datasets as sets
from ecgbench.check import policies as checks
from ecgbench.errors import BadSetting


@pytest.mark.parametrize("name", policies.names())
def test_policies(name):
    assert [row for row in checks.check(name) if not row["ok"]] == []


@pytest.mark.parametrize(
    ("body", "caught_by"),
    [
        ("return signal", "fills every hidden lead"),
        ("return np.where(np.isnan(signal), np.random.rand(*signal.shape), signal)", "the same"),
        ("return np.where(measured[:, None], 2 * signal, 0)", "fills every hidden lead"),
    ],
)
def test_a_bad_policy_is_caught(tmp_path: Path, body, caught_by):
    file = tmp_path / "bad.py"
    file.write_text(
        f'"""Bad."""\nimport numpy as np\n\ndef fill(signal, measured, state=None):\n    {body}\n'
    )
    try:
        broken = [row["name"] for row in checks.check(str(file)) if not row["ok"]]
    finally:
        policies.ROOM.forget()  # the room outlives the test
    assert any(name.startswith(caught_by) for name in broken)


def test_demo_dataset(tmp_path: Path):
    assert [row for row in sets.check("demo", prepared=tmp_path) if not row["ok"]] == []


def test_ptbxl(fake_ptbxl: Path):
    assert [row for row in sets.check("ptbxl", data=fake_ptbxl) if not row["ok"]] == []


def test_a_data_set_whose_task_is_there_already_stands_in_nobody_elses_way(
    tmp_path: Path,
) -> None:
    file = tmp_path / "twice.py"
    demo = Path(str(datasets.get("demo").__file__)).read_text()
    file.write_text(demo)
    datasets.resolve(str(file))
    with pytest.raises(BadSetting, match="both have a task"):
        datasets.tasks()
    assert "demo" in datasets.tasks()
    datasets.ROOM.forget()
