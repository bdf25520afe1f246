"""Demo: the whole path on synthetic recordings, no download.

Run:      ecgbench run --models laef,stmem --leads 1,2,12
Takes:    about 2 min on two cores (Xeon with AVX-512), nearly all of it ST-MEM
Expect:   a table and a curve whose numbers mean nothing about patients: the recordings are generated and, until released
          weights are on the machine, the encoders are random
"""

from ecgbench.cells import Asked

PLAN = Asked(models=("laef", "stmem"), tasks=("demo",), leads="1,2,12", seeds=2, weights="released_or_random", name="demo", suite="demo")
