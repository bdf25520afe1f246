"""PTB-XL superclasses at the paper's lead counts and at the leads of hand-held devices.

Run:      ecgbench run --suite ptbxl --data DIR --out runs/ptbxl
Takes:    ST-MEM does 7 windows/s on one core (Xeon with AVX-512): 17,600 of the 19,128 that 2,000
          records need took 41 min; ten times that for the whole release
Expect:   with random weights macro AUROC well above chance at twelve leads and falling with the
          number of leads; the comparison of the models means something only with pre-trained
          weights
"""

from ecgbench.core.cells import Request
from ecgbench.ecg.draw import parse_leads

PLAN = Request(
    models=("laef", "stmem"),
    tasks=("ptbxl_super",),
    leads=parse_leads("1,2,12,I,II,I+II"),
    seeds=5,
    weights="released_or_random",
    name="ptbxl",
    suite="ptbxl",
)
