"""What copies take on disk, and that removing what is spare costs time alone."""

import sys
from pathlib import Path

import pytest

from ecgbench.cli import main
from ecgbench.data import disk
from ecgbench.data.prepare import prepare
from ecgbench.data.views import View
from ecgbench.models import laef


def test_views_and_copies_of_other_versions_are_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = prepare("demo", None, tmp_path, limit=20)
    (first,) = disk.copies(tmp_path)
    assert (first.dataset, first.records, first.views, first.current) == ("demo", 20, 0, True)
    assert first.signals >= 20 * 12 * 5000 * 2
    assert not list(disk.spare(tmp_path))

    name = str(copy.index["record"][0])
    before = View(copy, laef.CARD.contracts[0]).get(name)
    ((folder, count),) = disk.spare(tmp_path)
    assert folder == copy.folder / "views"
    assert count >= before.nbytes
    assert not list(disk.spare(tmp_path, ("ptbxl",)))

    old = tmp_path / "ptbxl" / "abc"
    old.mkdir(parents=True)
    (old / "signal.i16").write_bytes(bytes(10_000))
    (old / "copy.json").write_text('{"layout": 0}')
    assert [c.current for c in disk.copies(tmp_path)] == [True, False]

    def typed(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["ecgbench", "data", *words, "--prepared", str(tmp_path)])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code
        return capsys.readouterr().out

    assert "ptbxl" in typed("ls")
    assert str(old) not in typed("prune", "demo")
    said = typed("prune")
    assert str(old) in said
    assert "--yes" in said
    assert old.exists()
    assert "freed in" in typed("prune", "--yes")
    assert not old.exists()
    assert not (copy.folder / "views").exists()
    assert "nothing to free" in typed("prune")
    again = View(prepare("demo", None, tmp_path, limit=20), laef.CARD.contracts[0]).get(name)
    assert again.tobytes() == before.tobytes()
