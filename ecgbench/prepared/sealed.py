"""Small files of JSON that carry the hash of their content: one that was altered, or ends early, is
none.
"""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ecgbench.files import put


def seal(path: Path, value: dict[str, Any]) -> None:
    """Write it durably and atomically; WriteError names `path`."""
    text = json.dumps(value, separators=(",", ":"))
    put(path, f"{_sha(text)}\n{text}\n")


def unsealed(path: Path) -> dict[str, Any] | None:
    """What was written; None where there is no such file, or another one."""
    with suppress(OSError, ValueError):
        proof, _, text = path.read_text(encoding="utf-8").partition("\n")
        if proof == _sha(text := text.removesuffix("\n")):
            return dict(json.loads(text))
    return None


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
