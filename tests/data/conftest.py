"""What is read while a test runs."""

from pathlib import Path
from typing import Any

import pytest

from ecgbench.datasets import ptbxl


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The records of PTB-XL that are read from now on, by this process."""
    plain, names = ptbxl.read, []

    def counted(root: Path, row: dict[str, Any]) -> Any:
        names.append(row["record"])
        return plain(root, row)

    monkeypatch.setattr(ptbxl, "read", counted)
    return names
