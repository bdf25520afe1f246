"""Whether bf16 gains time here."""

import pytest
import torch

from ecgbench.profiling import rough


def test_it_warns_where_bf16_is_slower_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {torch.bfloat16: 9.0, torch.float32: 5.0}
    monkeypatch.setattr(rough, "_seconds", times.__getitem__)
    assert "take 1.8 times as long" in rough.warning("cpu", ["float32", "bf16"])
    assert rough.warning("cuda", ["bf16"]) == rough.warning("cpu", ["float32"]) == ""
    times[torch.bfloat16] = 5.5
    assert rough.warning("cpu", ["bf16"]) == ""


@pytest.mark.usefixtures("one_thread")
def test_more_work_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [rough._seconds(kind) for kind in (torch.bfloat16, torch.float32)]
    monkeypatch.setattr(rough, "ROWS", 20 * rough.ROWS)
    after = [rough._seconds(kind) for kind in (torch.bfloat16, torch.float32)]
    assert all(4 * small < large for small, large in zip(before, after))
