"""CPSC-Extra: 3,453 recordings that the China Physiological Signal Challenge 2018 did not use, 33
diagnoses.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    cpsc_2018_extra/g1/Q0001.{hea,mat}

Records shorter than 10 s are left out, as in the reference benchmark.
"""

import re
from functools import partial

from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets.indexing import challenge

CARD, MANIFEST = card("cpsc_extra"), manifest("cpsc_extra")
CODES = challenge.snomed("cpsc_extra")
read = challenge.read
index = partial(challenge.index, card=CARD, wanted=re.compile(r"Q\d{4}").fullmatch)
