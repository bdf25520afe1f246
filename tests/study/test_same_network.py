"""A network of one's own that is another one than its state dict says is never scored with an old
head.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ecgbench.errors import BadSetting
from ecgbench.prediction.predict import predict
from ecgbench.results.study import read

START = """
"Kernels that are no parameters"
import numpy as np, random, torch
from pathlib import Path
from torch import nn
from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.leads import LEADS
from ecgbench.models import Features
from ecgbench.weights import load
CARD = ModelCard(
    title="Kernels", summary="kernels", paper="none", origin="here", licence="MIT",
    contracts=(InputContract(name="paper", fs=100, seconds=2.5, leads=LEADS, unit="mV",
        filter=None, normalisation="none", fill="before", policy="zero", absent="0 mV"),),
    native=False, groups={"early": ("scale",), "late": ()},
)

class Kernels(nn.Module):
    def __init__(self, kernels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.kept = [torch.as_tensor(np.asarray(kernels), dtype=torch.float32)]

    def forward(self, signal, measured):
        x = torch.conv1d(signal, self.kept[0]).relu() * self.scale
        return Features(x.mean(2))
"""


def write(place: Path, kernels: np.ndarray) -> Path:
    place.mkdir(exist_ok=True)
    np.savez(place / "weights.npz", k=kernels)
    return place / "weights.npz"


def kernels(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(8, 12, 9)).astype("<f4")


@pytest.mark.long
def test_weights_outside_the_state_dict_are_in_the_key(
    tmp_path: Path, typed: Callable[..., int]
) -> None:
    adapter = tmp_path / "own" / "kernels.py"
    adapter.parent.mkdir()
    given = "np.load(weights)['k']"
    adapter.write_text(f"{START}\ndef build(weights=None):\n    return Kernels({given})\n")
    run, scores = tmp_path / "run", []
    for seed in (1, 2):
        file = write(tmp_path / "files", kernels(seed))
        words = ("--models", str(adapter), "--weights", f"kernels={file}")
        assert typed(run, *words) == 0
        assert typed(tmp_path / f"fresh{seed}", *words) == 0
        of = run, tmp_path / f"fresh{seed}"
        scores.append([float(read(p).main["value"].iloc[0]) for p in of])
    assert scores[0][0] == scores[0][1] != scores[1][0] == scores[1][1]
    # the head of the second file on the network of the first
    write(tmp_path / "files", kernels(1))
    with pytest.raises(BadSetting, match="weights_file"):
        predict(run, tmp_path / "nowhere", model=str(adapter))


FILE = "np.load(Path(__file__).parent / '../beside/weights.npz')['k']"
COMPUTED = "__import__('importlib').import_module('con' 'stants').K"
ELSEWHERE = {
    "a folder beside, at import": f"K = {FILE}\ndef build(weights=None): return Kernels(K)",
    "a module whose name is computed": f"def build(weights=None): return Kernels({COMPUTED})",
    "each time it computes": f"""
class Late(Kernels):
    def forward(self, signal, measured):
        self.kept = [torch.as_tensor({FILE})]
        return super().forward(signal, measured)

def build(weights=None): return Late(0)
""",
    "the environment": """
def build(weights=None):
    seed = int(__import__('os').environ['SEED'])
    return Kernels(np.random.default_rng(seed).normal(size=(8, 12, 9)))
""",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_what_a_network_reads_elsewhere_makes_its_results_new(
    kind: str, tmp_path: Path, typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or, where no file says what has changed, the results make room and a run says why."""
    adapter = tmp_path / "own" / "kernels.py"
    adapter.parent.mkdir()
    adapter.write_text(f"{START}\n{ELSEWHERE[kind]}\n")
    run, values = tmp_path / "run", {}
    for seed in (1, 2):
        write(tmp_path / "beside", kernels(seed))
        code = f"import numpy\nK = numpy.random.default_rng({seed}).normal(size=(8, 12, 9))\n"
        adapter.with_name("constants.py").write_text(code)
        monkeypatch.setenv("SEED", str(seed))
        ended = []
        for out in (tmp_path / f"fresh{seed}", run):
            sys.modules.pop("constants", None)  # as in a new process
            ended.append(typed(out, "--models", str(adapter)))
        assert ended == [0, kind == "the environment" and seed == 2]
        values[seed] = [read(out).main["value"].iloc[0] for out in (run, tmp_path / f"fresh{seed}")]
    assert values[1][0] == values[1][1] != values[2][1]
    assert np.isnan(values[2][0]) if ended[1] else values[2][0] == values[2][1]


REMEMBERED = {
    "network": ("x.mean(2) * (1 if next(COUNT) < 60 else 2)", "return np.nan_to_num(signal)"),
    "policy": ("x.mean(2)", "return np.where(np.isnan(signal), next(COUNT), signal)"),
    "fitted policy": ("x.mean(2)", "state['n'] += 1; return np.nan_to_num(signal)"),
    "mask": ("x.mean(2)", "measured[:] = False; return 0 * np.nan_to_num(signal)"),
}


@pytest.mark.parametrize("kind", REMEMBERED)
def test_what_remembers_or_moves_what_it_is_given_has_no_number(
    kind: str, tmp_path: Path, typed: Callable[..., int]
) -> None:
    given, filled = REMEMBERED[kind]
    count = "import itertools\nimport numpy as np\nCOUNT = itertools.count()\n"
    network = START.replace("x.mean(2)", given).replace("import numpy as np, ", f"{count}import ")
    built = "def build(weights=None): return Kernels(np.ones((8, 12, 9)))"
    learns = "def fit(signals, leads): return {'n': np.zeros(1)}\n" if "fitted" in kind else ""
    policy = f"{learns}def fill(signal, measured, state=None): {filled}\n"
    files = {"kernels.py": f"{network}\n{built}\n", "filled.py": f"'A policy.'\n{count}{policy}"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    words = "--models", str(tmp_path / "kernels.py"), "--policy", str(tmp_path / "filled.py")
    assert typed(tmp_path / "run", *words, "--leads", "I", "--protocol", "probe") == 1
    assert read(tmp_path / "run").main["value"].isna().all()


def test_what_a_network_switches_while_it_computes_ends_with_its_job(
    tmp_path: Path, typed: Callable[..., int]
) -> None:
    built, files = "def build(weights=None): return Kernels(np.ones((8, 12, 9)))", []
    switch = "        torch.set_default_dtype(torch.float64)\n        x = torch.conv1d"
    switched = START.replace("        x = torch.conv1d", switch)
    for name, text in {"first": switched, "next": START}.items():
        files.append(tmp_path / f"{name}_kernels.py")
        files[-1].write_text(f"{text}\n{built}\n")
    typed(tmp_path / "run", "--models", ",".join(map(str, files)))
    made = read(tmp_path / "run").main.set_index("model")["value"]
    assert np.isfinite(made["next_kernels"])
    assert torch.get_default_dtype() == torch.float32
