"""Georgia: 10,344 recordings of 10 s from the south-east of the USA, 50 diagnoses.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    georgia/g1/E00001.{hea,mat}

Six records hold samples that are marked as missing; they are quarantined. Records shorter than 10 s
are left out, as in the reference benchmark.
"""

import re
from functools import partial

from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets.indexing import challenge

CARD, MANIFEST = card("georgia"), manifest("georgia")
CODES = challenge.snomed("georgia")
read = challenge.read
index = partial(challenge.index, card=CARD, wanted=re.compile(r"E\d{5}").fullmatch)
