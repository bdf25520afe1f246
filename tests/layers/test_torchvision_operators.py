"""timm beside a torchvision whose library can be loaded, and beside one whose cannot: each in a
process of its own.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from ecgbench.errors import BadSetting
from ecgbench.layers import torchvision_operators

LOADS = """import torch
library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
"""A torchvision that defines its operators before it describes them, as where its library loads."""
AFTER = """
print(len(torchvision_operators._declared), hasattr(torch.ops.torchvision, "nms"))
"""


def said(code: str, *path: Path) -> str:
    code = (
        f"import sys, torch\nsys.path[:0] = {list(map(str, path))}\n"
        f"from ecgbench.layers import torchvision_operators\n{code}{AFTER}"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.long
def test_operators_are_declared_where_torchvision_cannot_be_imported_without() -> None:
    """The one that is installed here, whichever it is."""
    alone = """
try:
    import torchvision
    print(True, end=" ")
except RuntimeError:
    print(False, end=" ")
torchvision_operators._import_torchvision()
"""
    assert said(alone) in ("False 1 True", "True 0 True")


@pytest.mark.long
@pytest.mark.parametrize(
    ("init", "expected"),
    [
        (LOADS, "0 True"),
        ("import torch\n", "1 True"),
    ],
)
def test_only_where_they_are_not_there(init: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    describe = (
        "@torch.library.register_fake('torchvision::nms')\n"
        "def nms(dets, scores, iou_threshold):\n    return dets\n"
    )
    (tmp_path / "torchvision" / "__init__.py").write_text(init + describe)
    assert said("torchvision_operators._import_torchvision()", tmp_path) == expected


def test_without_the_extra_one_line_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    torchvision_operators.import_timm.cache_clear()
    with pytest.raises(BadSetting, match=r"pip install 'ecgbench-leads\[timm\]'") as caught:
        torchvision_operators.import_timm()
    assert "\n" not in str(caught.value)
