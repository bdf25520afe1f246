"""A tutorial as a notebook: its text and commands, without outputs. `tools/site.py` writes it."""

import json
import re
import textwrap
from pathlib import Path

FENCE = re.compile(r'^ *```(bash|python) exec="1"([^\n]*)\n(.*?)^ *```$', re.MULTILINE | re.DOTALL)
TOLD = re.compile(r"^print\((.*)\)$", re.MULTILINE)
"""In a block that the page runs and does not show, what is printed is Markdown."""
BEGIN = """\
import os
import sys

from IPython.display import Markdown, display

os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
"""
"""The commands are those of the Python of the notebook, in an activated environment or not."""


def notebook(page: Path) -> str:
    """JSON of a notebook (format 4.5) with a cell for each piece of text and each block."""
    text, cells, end = page.read_text(encoding="utf-8"), [_cell("code", BEGIN)], 0
    for found in FENCE.finditer(text):
        cells.append(_cell("markdown", text[end : found.start()]))
        cells.append(_cell("code", _code(found[1], found[2], textwrap.dedent(found[3]))))
        end = found.end()
    cells.append(_cell("markdown", text[end:]))
    kept = [cell | {"id": f"cell-{n}"} for n, cell in enumerate(cells) if cell["source"]]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    whole = {"cells": kept, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _code(language: str, options: str, code: str) -> str:
    if language == "bash":
        return "%%bash\nset -eo pipefail\n" + code
    if "source=" in options:
        return code
    return TOLD.sub(r"display(Markdown(\1))", code)


def _cell(kind: str, text: str) -> dict[str, object]:
    more = {"execution_count": None, "outputs": []} if kind == "code" else {}
    lines = text.strip().splitlines(keepends=True)
    return {"cell_type": kind, "metadata": {}, "source": lines} | more
