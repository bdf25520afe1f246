"""Files that carry the hash of their content, because a later process computes with what they say.

`unsealed`: one that was altered, or ends early, is set aside, and who asks is told that there is
none. `facts_of`: for those that people read too, and that are not simply made again.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from ecgbench.core.aside import set_aside
from ecgbench.core.files import put

PROOF = "proof"
"""Entry of an object of JSON that holds the hash of all its others."""
_BYTES = hashlib.sha256().digest_size


def seal(path: Path, value: dict[str, Any]) -> None:
    """Write JSON durably and atomically; WriteError names `path`."""
    text = json.dumps(value, separators=(",", ":"))
    put(path, f"{_sha(text)}\n{text}\n")


def unsealed(path: Path) -> dict[str, Any] | None:
    """What `seal` wrote; None where there is no such file, or another one."""
    try:
        proof, _, text = path.read_text(encoding="utf-8").partition("\n")
        if proof == _sha(text := text.removesuffix("\n")):
            return dict(json.loads(text))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        pass
    set_aside(path)
    return None


def seal_bytes(path: Path, content: bytes) -> None:
    """Write bytes durably and atomically, behind their sha256; WriteError names `path`."""
    put(path, hashlib.sha256(content).digest() + content)


def unsealed_bytes(path: Path) -> bytes | None:
    """What `seal_bytes` wrote; None where there is no such file, or another one."""
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        whole = b""
    proof, content = whole[:_BYTES], whole[_BYTES:]
    if proof == hashlib.sha256(content).digest():
        return content
    set_aside(path)
    return None


def proved(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts, to be written as an object of JSON, with the hash of them all."""
    written = {name: value for name, value in facts.items() if name != PROOF}
    return {**written, PROOF: _of(json.loads(json.dumps(written)))}


def facts_of(whole: dict[str, Any]) -> dict[str, Any]:
    """The facts again, as JSON gave them; those of an earlier version, which wrote no hash, as they
    are. ValueError where they are not those that were written.
    """
    facts = {name: value for name, value in whole.items() if name != PROOF}
    if PROOF in whole and whole[PROOF] != _of(facts):
        raise ValueError("it is not as it was written")
    return facts


def _of(facts: dict[str, Any]) -> str:
    return _sha(json.dumps(facts, sort_keys=True, separators=(",", ":")))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
