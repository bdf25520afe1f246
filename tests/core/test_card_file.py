"""The card that is read without importing a model is the card that its file has."""

import subprocess
import sys

from ecgbench import models
from ecgbench.core.card_file import card_of

READ = """
from ecgbench import models
import sys
cards = {name: models.ROOM.card(name) for name in models.names()}
assert "torch" not in sys.modules
"""


def test_cards_are_read_without_torch() -> None:
    subprocess.run([sys.executable, "-c", READ], check=True)


def test_a_card_is_that_of_its_module() -> None:
    for name in filter(models.ROOM.built_in, models.names()):
        module = models.get(name)
        assert card_of(f"ecgbench.models.{name}").title == module.CARD.title
        assert models.ROOM.card(name) == module.CARD
