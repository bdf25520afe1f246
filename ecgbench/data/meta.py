"""The files of a prepared copy, and the one that describes them: what it is, the hashes of its
tables, and its own.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ecgbench.core.files import as_json, put
from ecgbench.core.sealed import PROOF, facts_of, proved

FILE = "meta.json"
SIGNAL, GAIN, INDEX = "signal.i16", "gain.npy", "index.parquet"


def write(folder: Path, about: dict[str, Any]) -> None:
    """Write it durably and atomically; WriteError names it."""
    put(folder / FILE, as_json(proved(about)))


def read(folder: Path) -> tuple[dict[str, Any], bool]:
    """What was written, and whether with a hash: copies of earlier versions have none
    (`store.opened`). ValueError where it is something else.
    """
    whole = None
    with suppress(RecursionError):  # of brackets in brackets
        whole = json.loads((folder / FILE).read_text(encoding="utf-8"))
    if not isinstance(whole, dict) or not isinstance(whole.get("tables"), dict):
        raise ValueError(f"{folder / FILE} describes no prepared copy")
    return facts_of(whole), PROOF in whole
