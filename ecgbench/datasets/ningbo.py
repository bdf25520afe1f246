"""Ningbo: 34,905 recordings of 10 s from Ningbo First Hospital, 68 diagnoses.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    ningbo/g1/JS20000.{hea,mat}

JS00001 to JS10646 are Chapman. One record is called S23074. Records with samples that are marked as
missing (97) are quarantined.
"""

import re
from functools import partial

from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets.indexing import challenge

CARD, MANIFEST = card("ningbo"), manifest("ningbo")
CODES = challenge.snomed("ningbo")
read = challenge.read


def _ours(record: str) -> bool:
    """Chapman's records have lower numbers."""
    named = re.fullmatch(r"J?S(\d{5})", record)
    return named is not None and int(named[1]) > 10_646


index = partial(challenge.index, card=CARD, wanted=_ours)
