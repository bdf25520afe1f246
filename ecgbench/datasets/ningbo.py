"""Ningbo: 34,905 recordings of 10 s from Ningbo First Hospital, 68 diagnoses.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    ningbo/g1/JS20000.{hea,mat}

JS00001 to JS10646 are Chapman. One record is called S23074. Records with samples that are marked as
missing (97) are quarantined.
"""

import re
from functools import partial

from ecgbench.datasets.indexing import challenge

CARD = challenge.card(
    "ningbo",
    "Ningbo",
    folder="ningbo",
    paper=68,
    records=34_905,
    seconds=10.0,
    country="China",
    cautions=(
        "atrial fibrillation is coded as atrial flutter throughout (0 against 7,615 records)",
        "about 1,480 records have leads of zeros, most of them V1 to V6",
    ),
)
CODES = challenge.snomed("ningbo")
MANIFEST = challenge.manifest("ningbo", 4_210_000_000)
read = challenge.read


def _ours(record: str) -> bool:
    """Chapman's records have lower numbers."""
    named = re.fullmatch(r"J?S(\d{5})", record)
    return named is not None and int(named[1]) > 10_646


index = partial(challenge.index, card=CARD, wanted=_ours)
