"""Plug-ins that know a recording again: what they gave is computed again where they cannot."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench.results.study import read

TINY = Path(__file__).parents[1] / "tiny.py"
PADDED = f"""
"Tiny, which keeps recordings of all leads"
import importlib.util
spec = importlib.util.spec_from_file_location("tiny_itself", {str(TINY)!r})
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)
CARD = tiny.CARD
seen = {{}}

class Keeps(tiny.Tiny):
    def forward(self, signal, measured):
        signal = signal.clone()
        for window in signal:
            leads = [i for i in range(12) if window[i].any()]
            if len(leads) > 10:
                seen.update({{window[i].numpy().tobytes(): window.clone() for i in leads}})
            elif leads:
                window[:] = seen.get(window[leads[0]].numpy().tobytes(), window)
        return super().forward(signal, measured)

def build(weights=None):
    return Keeps()
"""
NATIVE = """
"Any leads; its embeddings are of a window and a lead, and it keeps them"
import dataclasses, importlib.util
import torch
spec = importlib.util.spec_from_file_location("tiny_itself", TINY)
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)
contract = dataclasses.replace(tiny.CARD.contracts[0], policy="native", absent="masked")
CARD = dataclasses.replace(tiny.CARD, native=True, contracts=(contract,), dim=8)
seen = {}

class Keeps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 8, 25, stride=10)

    def embed_leads(self, signal):
        flat = signal.flatten(0, 1)[:, None]
        tokens = self.conv(flat).mean(2).unflatten(0, signal.shape[:2])
        for window in tokens:
            if window.isfinite().all():
                seen.update({lead.numpy().tobytes(): window.clone() for lead in window})
        return tokens

    def encode(self, tokens, measured):
        from ecgbench.models import Features

        pooled = []
        for window, own in zip(tokens, measured):
            window = window[own]
            window = seen.get(window[0].numpy().tobytes(), window) if KEEPS else window
            pooled.append(window.mean(0))
        return Features(tokens.flatten(2), torch.stack(pooled))

    def forward(self, signal, measured):
        return self.encode(self.embed_leads(signal), measured)

def build(weights=None):
    return Keeps()
"""


@pytest.mark.parametrize(
    ("plug_in", "words"),
    [
        (PADDED, ("--policy", "mean,zero")),
        (NATIVE.replace("TINY", repr(str(TINY))).replace("KEEPS", "True"), ()),
    ],
    ids=["padded", "embeddings"],
)
def test_a_plug_in_that_knows_a_recording_again_has_no_number(
    typed: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plug_in: str,
    words: tuple[str, ...],
) -> None:
    """The recordings of all leads that it keeps are those of test records, which it sees again
    with lead I alone.
    """
    monkeypatch.delenv("ECGBENCH_RECOMPUTE")
    (tmp_path / "keeps.py").write_text(plug_in)
    model, out = str(tmp_path / "keeps.py"), tmp_path / "run"
    assert typed(out, "--models", model, "--leads", "12,I", *words) == 1
    (disqualified,) = (out / "disqualified").glob("*.json")
    reason = json.loads(disqualified.read_text())["reason"]
    assert reason.startswith("keeps: features of few leads differ by ")
    assert "in a process that has seen no other recordings" in reason


def test_an_honest_plug_in_is_said_to_have_been_computed_again(
    typed: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in = NATIVE.replace("TINY", repr(str(TINY))).replace("KEEPS", "False")
    monkeypatch.delenv("ECGBENCH_RECOMPUTE")
    (tmp_path / "honest.py").write_text(plug_in)
    model, out = str(tmp_path / "honest.py"), tmp_path / "run"
    assert typed(out, "--models", model, "--leads", "12,I") == 0
    study = read(out)
    assert study.cells["recomputed"].tolist() == [True, True]
    assert not any("computed again" in note for note in study.notes)


def test_a_run_that_left_it_out_says_so(typed: Callable[..., int], tmp_path: Path) -> None:
    assert typed(tmp_path / "run") == 0
    assert any(
        "no feature of this plug-in was computed again" in n for n in read(tmp_path / "run").notes
    )
