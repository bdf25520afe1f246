"""CPSC-Extra: 3,453 recordings that the China Physiological Signal Challenge 2018 did not use, 33
diagnoses.

Part of the PhysioNet/CinC Challenge 2021 (M. A. Reyna et al., doi 10.13026/34va-7q14):

    cpsc_2018_extra/g1/Q0001.{hea,mat}

Records shorter than 10 s are left out, as in the reference benchmark.
"""

import re
from functools import partial

from ecgbench.datasets.indexing import challenge

CARD = challenge.card(
    "cpsc_extra",
    "CPSC-Extra",
    folder="cpsc_2018_extra",
    paper=33,
    records=3_453,
    seconds=15.0,
    country="China",
    min_seconds=10.0,
    cautions=("Q0400 and Q2961 hold no signal at all",),
)
CODES = challenge.snomed("cpsc_extra")
MANIFEST = challenge.manifest("cpsc_2018_extra", 660_000_000)
read = challenge.read
index = partial(challenge.index, card=CARD, wanted=re.compile(r"Q\d{4}").fullmatch)
