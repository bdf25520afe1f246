"""The generated parts of docs/reference/any_lead_audit.md, which the site takes; and their numbers:
`python tools/any_lead.py [NAME ...]` examines the built-in models, or those named, with random
weights and writes the CSV file beside that page. All of them take six minutes.
"""

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pandas as pd
from lists import table  # beside this script

from ecgbench import models
from ecgbench.check import any_lead
from ecgbench.core.text import counted
from ecgbench.profile import clock

MEASURED = Path(__file__).parents[1] / "docs" / "reference" / "any_lead_audit.csv"


def read() -> pd.DataFrame:
    """The file: `any_lead.Row`, with the machine."""
    return pd.read_csv(MEASURED, keep_default_na=False, na_values=[""])


def rows() -> list[any_lead.Row]:
    """The stored rows, by model and policy."""
    names = [field.name for field in fields(any_lead.Row)]
    return [any_lead.Row(**line) for line in read()[names].to_dict("records")]


def machines() -> str:
    """Where the numbers were measured."""
    by = read().groupby("machine")["model"].nunique()
    return "\n".join(f"- {machine}: {counted(models, 'model')}" for machine, models in by.items())


BLOCKS = {
    "any lead rows": lambda: table(*_split(any_lead.reading(rows()))),
    "any lead limb": lambda: table(*_split(any_lead.limb(rows()))),
    "any lead machines": machines,
}


def _split(lines: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    return lines[0], lines[1:]


def measure(name: str) -> pd.DataFrame:
    """The lines of one model."""
    about = clock.about("cpu")
    found = pd.DataFrame([vars(row) for row in any_lead.audit(name)])
    return found.assign(machine=f"{about['device']}, torch {about['torch']}")


def main(words: Sequence[str]) -> None:
    """Write the lines of these models anew, or those of all."""
    own = [name for name in models.names() if models.ROOM.built_in(name)]
    own += [name for name in models.ROOM.variants() if models.ROOM.card(name).weights]
    for name in map(models.resolve, words or own):
        kept = [read().query("model != @name")] if MEASURED.exists() else []
        print(name, flush=True)
        whole = pd.concat([*kept, measure(name)]).query("model in @own")
        order = whole["model"].argsort(kind="stable")
        whole.iloc[order].to_csv(MEASURED, index=False, float_format="%.6g")


if __name__ == "__main__":
    main(sys.argv[1:])
