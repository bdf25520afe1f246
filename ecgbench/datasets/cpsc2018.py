"""CPSC2018: 6,877 recordings of 6 to 144 s from eleven hospitals in China, nine rhythms and
conduction disorders.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    cpsc_2018/g1/A0001.{hea,mat}

Records shorter than 10 s are left out, as in the reference benchmark. A code that the task does not
know counts for no label.
"""

import re
from functools import partial

from ecgbench.datasets._cards import card, manifest
from ecgbench.datasets.indexing import challenge

CARD, MANIFEST = card("cpsc2018"), manifest("cpsc2018")
CODES = challenge.snomed("cpsc2018")
read = challenge.read
index = partial(challenge.index, card=CARD, wanted=re.compile(r"A\d{4}").fullmatch)
