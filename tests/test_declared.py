"""Datasets of installed packages that nobody named: not imported here, whatever they do."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ecgbench import datasets, declared, processes
from ecgbench.errors import BadSetting
from ecgbench.study import plan

TOY = Path(__file__).parent / "plugins" / "toy_csv.py"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """install(text, version): a package with the dataset `far`, whose module is `text`."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *sys.path]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def forget() -> None:
        datasets.ROOM.__dict__.pop("_installed", None)
        sys.modules.pop("far_module", None)

    def write(text: str, version: str = "1.0", about: str = "{}") -> None:
        for old in site.glob("*.dist-info"):
            old.rename(site / f"{old.name}.old")
        info = site / f"far-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: far\nVersion: {version}\n")
        (info / "entry_points.txt").write_text("[ecgbench.datasets]\nfar = far_module\n")
        (info / "direct_url.json").write_text(about)
        (site / "far_module.py").write_text(text)
        forget()

    yield write
    forget()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The datasets that were imported in a process of their own."""
    names: list[str] = []
    ask = processes.ask

    def noted(module: str, words: list[str], seconds: float) -> dict[str, object]:
        names.append(words[1])
        return ask(module, words, seconds)

    monkeypatch.setattr(processes, "ask", noted)
    return names


def test_a_plug_in_that_ends_its_process_ends_no_command(
    install: Install,
    here: Callable[..., "subprocess.CompletedProcess[str]"],
    tmp_path: Path,
) -> None:
    """Exit code 0 and not a word is what `os._exit(0)` gave."""
    install("import os\nos._exit(0)\n")
    listed = here("list", "tasks", cwd=tmp_path)
    assert listed.returncode == 0
    assert "ptbxl_super" in listed.stdout
    line = "dataset 'far' (far_module) cannot be imported: its process ended with exit code 0"
    assert line in listed.stderr
    planned = here("run", "--tasks", "nowhere", cwd=tmp_path)
    assert planned.returncode == 2
    assert "unknown task 'nowhere'" in planned.stderr


def test_one_that_never_ends_is_waited_for_once_and_told(
    install: Install,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(declared, "SECONDS", 0.5)
    monkeypatch.setattr(declared, "_LATE", {})
    install("while True: pass\n")
    for _ in range(3):
        assert "ptbxl_super" in plan.all_tasks()
    assert asked == ["far"]
    assert capsys.readouterr().err.count("no answer within 0.5 s") == 1


def test_nobody_names_it_and_it_is_not_imported(install: Install, asked: list[str]) -> None:
    """Its tasks are known all the same, and importing waits until one of them is asked for."""
    install(TOY.read_text())
    tasks = plan.all_tasks()
    assert tasks.owners["toy"] == "far"
    assert plan.resolve_tasks(["ptbxl-super", "TOY"]) == ["ptbxl_super", "toy"]
    assert "far_module" not in sys.modules
    assert tasks["toy"][2].name == "toy"
    assert "far_module" in sys.modules
    assert asked == ["far"]


def test_it_is_asked_once_for_each_version(
    install: Install, asked: list[str], tmp_path: Path
) -> None:
    install(TOY.read_text())
    assert declared.of(datasets.ROOM, "far").tasks == ("toy",)
    assert declared.of(datasets.ROOM, "far").tasks == ("toy",)
    assert len(asked) == 1
    renamed = TOY.read_text().replace('name="toy"', 'name="other"')
    install(renamed, "2.0")
    assert declared.of(datasets.ROOM, "far").tasks == ("other",)
    assert len(asked) == 2
    for number, spoilt in enumerate(('{"tasks": [1', "another"), 3):
        for kept in (tmp_path / "cache").rglob("*.sealed"):
            kept.write_text(kept.read_text().replace("other", spoilt))
        assert declared.of(datasets.ROOM, "far").tasks == ("other",)
        assert len(asked) == number


def test_a_package_that_is_edited_in_place_is_asked_every_time(
    install: Install, asked: list[str]
) -> None:
    install(TOY.read_text(), about=json.dumps({"dir_info": {"editable": True}}))
    for _ in range(2):
        assert declared.of(datasets.ROOM, "far").tasks == ("toy",)
    assert len(asked) == 2


def test_two_datasets_with_one_task_name_are_refused(install: Install) -> None:
    install(TOY.read_text().replace('name="toy"', 'name="PTBXL-Super"'))
    with pytest.raises(BadSetting, match="datasets ptbxl and far both have a task 'PTBXL-Super'"):
        plan.all_tasks()


def test_a_task_that_is_gone_since_is_one_line(install: Install) -> None:
    install(TOY.read_text())
    tasks = plan.all_tasks()
    (Path(sys.path[0]) / "far_module.py").write_text(
        TOY.read_text().replace('name="toy"', 'name="other"')
    )
    with pytest.raises(BadSetting, match="the dataset far has no task 'toy' any more"):
        tasks["toy"]
