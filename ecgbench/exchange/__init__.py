"""Results from hand to hand: what one person exports, another reads, checks and sets beside a run.

`export` writes a folder (see exchange/export.py), `card` lines for the model card of a hub;
`opened` reads what a folder holds.
"""

from ecgbench.exchange.export import export
from ecgbench.exchange.model_card import card
from ecgbench.exchange.opened import opened

__all__ = ["card", "export", "opened"]
