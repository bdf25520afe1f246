"""The paper unabridged: its eight models fine-tuned on its 18 tasks, at random leads and at each of
the twelve single ones. Tasks that no dataset has yet are named and left out.

Run:      ecgbench run --suite paper --data DIR --out runs/paper
Takes:    laef and stmem on 2,000 records of PTB-XL: 50 h on two cores (Xeon with AVX-512), ten
          times that for the whole release; `ecgbench run --suite paper --dry-run --data DIR`
          measures it on this machine
Expect:   one fit per model and task, 100 epochs each; at 12 leads the models lie close together,
          at 1 lead those that read any subset of the leads should keep more. The twelve single
          leads tell what mixing leads on one scale costs. Where released weights are missing, the
          row starts from random ones and says so
"""

from ecgbench.core.cells import Request, Training
from ecgbench.ecg.draw import parse_leads
from ecgbench.ecg.leads import LEADS

MODELS = ("laef", "ecgfounder", "ecgjepa", "stmem", "merl", "ecgfmked", "hubertecg", "ecgcpc")
TASKS = (
    *("code15", "ptbxl_all", "ptbxl_diag", "ptbxl_form", "ptbxl_rhythm", "ptbxl_sub"),
    *("ptbxl_super", "echonext", "cpsc2018", "cpsc_extra", "chapman", "chapman_rhythm"),
    *("georgia", "hefei", "ningbo", "ptb", "sph", "zzu"),
)
"""In the order of the paper's main table."""

PLAN = Request(
    models=MODELS,
    tasks=TASKS,
    leads=parse_leads(",".join(["1", "2", "12", *LEADS])),
    seeds=5,
    weights="released_or_random",
    training=Training(protocol="finetune", epochs=100),
    name="paper",
    suite="paper",
)
