"""Weights that come with the package, our own or with their authors' leave: where their file lies,
and the proof that it is the one that the card names.

`models/<model>/` of the repository holds them; a wheel carries that folder as
`ecgbench/shipped/<model>/`. Weights whose address on the card is a path under `models/` need
neither a download nor a conversion; the card's sha256 is compared at every load.
"""

import hashlib
from pathlib import Path

from ecgbench.cards.model import Weights
from ecgbench.errors import BadSetting, BadWeights

FOLDER = "models/"
"""Folder of the repository under which everything lies that is shipped."""
ROOTS = (Path(__file__).parents[1] / "shipped", Path(__file__).parents[2] / FOLDER)
"""That folder as an installed wheel has it, and as a checkout has it. In this order: beside an
installed package, any other project may have put a folder called models.
"""


def is_shipped(url: str) -> bool:
    """Whether an address on a card (`Weights.url`) is that of a file that is shipped."""
    return url.startswith(FOLDER)


def path(layout: Weights) -> Path | None:
    """Where the file of shipped weights lies; None where this installation lacks it."""
    places = (place / layout.url.removeprefix(FOLDER) for place in ROOTS)
    return next((place for place in places if place.is_file()), None)


def content(layout: Weights) -> bytes:
    """The bytes of shipped weights; BadSetting where the file is not there, BadWeights where it is
    not the one on the card.
    """
    file = path(layout)
    if file is None:
        raise missing(layout)
    try:
        read = file.read_bytes()
    except OSError as error:
        raise BadSetting(
            f"cannot read {file} ({error.strerror}); make it readable, or pass --weights random"
        ) from None
    digest = hashlib.sha256(read).hexdigest()
    if digest != layout.sha256:
        raise BadWeights(
            f"{file} is not the {layout.file} that its card names: its sha256 is {digest}, not "
            f"{layout.sha256}; {remedy(layout.url)}. "
            "To use a file of your own, pass its path to --weights"
        )
    return read


def missing(layout: Weights) -> BadSetting:
    """The one message for shipped weights that are not there."""
    return BadSetting(
        f"{layout.file} is not in this installation; {remedy(layout.url)}. Or pass --weights random"
    )


def remedy(url: str) -> str:
    """How a shipped file is had again."""
    return (
        f"it comes with ecgbench: install ecgbench again (in a checkout, run: git checkout -- "
        f"{url})"
    )
