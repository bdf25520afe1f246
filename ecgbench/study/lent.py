"""What others measured: a run folder with export.json, which `ecgbench runs export` and `ecgbench
read TABLE` write. It holds predictions and facts; no recording, no weights, nothing that goes on.

    export.json   format, by (who measured it), made (when), version (of ecgbench), cells
                  (identity -> hash of its DONE), proof
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecgbench.core.files import facts_of, put_proved
from ecgbench.core.folders import document
from ecgbench.errors import BadSetting

FILE = "export.json"
FORMAT = 1
MARK = "not run here"
"""What stands with every row that others measured."""


def write(run: Path, facts: Mapping[str, Any]) -> None:
    """Mark a folder as an export; WriteError."""
    put_proved(run / FILE, {"format": FORMAT, **facts})


def read(run: Path) -> dict[str, Any]:
    """Content of export.json; empty where a folder is a run of this machine. BadSetting."""
    if not (run / FILE).exists():
        return {}
    again = "ask for another export, or write it again: ecgbench runs export RUN --to FOLDER"
    try:
        found = facts_of(document(run / FILE))
    except (ValueError, BadSetting):
        found = {}
    if "by" not in found or not isinstance(found.get("cells"), dict):
        raise BadSetting(f"{run / FILE} is not as it was written; {again}")
    if (made := found.get("format")) != FORMAT:
        raise BadSetting(f"{run} is an export of format {made}, and this reads {FORMAT}; {again}")
    return found
