"""The paper unabridged: every registered model fine-tuned on every task, at random leads and at
single ones.

Run:      ecgbench run --suite paper --data DIR --out runs/paper
Takes:    laef and stmem on 2,000 records of PTB-XL: 50 h on two cores (Xeon with AVX-512), ten
          times that for the whole release; `ecgbench run --suite paper --dry-run --data DIR`
          measures it on this machine
Expect:   one fit per model and task, 100 epochs each; at 12 leads the models lie close together,
          at 1 lead those that read any subset of the leads should keep more. Where released
          weights are missing, the row starts from random ones and says so
"""

from ecgbench.cells import Request, Training
from ecgbench.ecg.draw import parse_leads

PLAN = Request(
    models=("all",),
    tasks=("all",),
    leads=parse_leads("1,2,12,I,II"),
    seeds=5,
    weights="released_or_random",
    training=Training(protocol="finetune", epochs=100),
    name="paper",
    suite="paper",
)
