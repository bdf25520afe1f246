"""Demo: the whole path on synthetic recordings, no download.

Run:      ecgbench run --models laef,stmem --leads 1,2,12
Takes:    about 2 min on two cores (Xeon with AVX-512), nearly all of it ST-MEM
Expect:   a table and a curve whose numbers mean nothing about patients: the recordings are
          generated, LAEF has the weights of this project, and ST-MEM random ones until its
          authors' are on the machine
"""

from ecgbench.core.cells import Request
from ecgbench.ecg.draw import parse_leads

PLAN = Request(
    models=("laef", "stmem"),
    tasks=("demo",),
    leads=parse_leads("1,2,12"),
    seeds=2,
    weights="released_or_random",
    name="demo",
    suite="demo",
)
