"""A network in a lower precision, told apart in keys and notes, and how a model computes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ecgbench import models
from ecgbench.cli.new import TEMPLATES
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.evaluate.network import build
from ecgbench.results.study import read
from ecgbench.study.store import cells_of, noted

WRITTEN = (TEMPLATES / "model.py").read_text()


def test_precision_is_part_of_the_key_and_told(typed: Callable[..., int], tmp_path: Path) -> None:
    studies = {}
    for precision in ("float32", "bf16"):
        assert typed(tmp_path / precision, "--set", f"training.precision={precision}") == 0
        studies[precision] = read(tmp_path / precision)
        assert any("computed in bf16" in note for note in map(str, studies[precision].notes)) == (
            precision == "bf16"
        )
    assert len({noted(cell)["key"] for p in studies for cell in cells_of(tmp_path / p)}) == 2
    exact, near = (float(studies[p].main["value"].iloc[0]) for p in ("float32", "bf16"))
    assert near == pytest.approx(exact, abs=0.05)


def named(tmp_path: Path, name: str, source: str) -> str:
    (tmp_path / f"{name}.py").write_text(source)
    return models.resolve(str(tmp_path / f"{name}.py"))


def test_a_network_that_raises_is_named_with_its_line(tmp_path: Path) -> None:
    start = "        x = self.second("
    name = named(tmp_path, "raises", WRITTEN.replace(start, f"        1 / 0\n{start}"))
    with pytest.raises(BadSetting, match=r"model 'raises' failed at raises\.py:\d+: Zero"):
        build(name, "random")


@pytest.mark.parametrize(
    "reads", ["pass", "net.load_state_dict(torch.load(weights), strict=False)"]
)
def test_a_file_that_does_not_reach_the_network_is_refused(reads: str, tmp_path: Path) -> None:
    """Else a table shows random weights by the name of the file."""
    body = f"    import torch\n    net = Network()\n    if weights:\n        {reads}\n"
    body += "    return net"
    start = WRITTEN.index("    return loaded(")
    source = WRITTEN[:start] + body + WRITTEN[WRITTEN.index("\n", start) :]
    name = named(tmp_path, f"deaf{len(reads)}", source)
    state = build(name, "random").module.state_dict()
    file = tmp_path / "best.pt"
    torch.save({f"module.{key}": value + 1 for key, value in state.items()}, file)
    with pytest.raises(BadWeights, match=r"best\.pt"):
        build(name, str(file))
    torch.save({key: value + 1 for key, value in state.items()}, file)
    if reads != "pass":
        assert build(name, str(file)).weights == "best.pt"


@pytest.mark.parametrize("needed", [True, False])
def test_tensors_that_stay_random_are_refused_where_a_feature_depends_on_them(
    needed: bool, tmp_path: Path
) -> None:
    """As after `strict=False` with some other names, or where a file is read into one part."""
    start = WRITTEN.index("    return loaded(")
    body = "    net = Network()\n    if weights:\n        loaded(net.first, weights, CARD)\n"
    source = WRITTEN[:start] + body + "    return net\n"
    if not needed:
        source = source.replace("self.second(self.first(signal).relu())", "self.first(signal)")
        source = source.replace("return Features(sequence=x, pooled=x.mean(1))", "return x.mean(1)")
    name = named(tmp_path, f"half{needed}", source)
    torch.save(torch.nn.Conv1d(12, 32, 10).state_dict(), tmp_path / "best.pt")
    if needed:
        with pytest.raises(BadWeights, match=r"2 tensors .*second\.weight"):
            build(name, str(tmp_path / "best.pt"))
    else:
        assert build(name, str(tmp_path / "best.pt")).weights == "best.pt"
