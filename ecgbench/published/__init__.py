"""What others have printed, as reference data: the tables of the paper that introduced LAEF, and
the scores that the reference benchmark published at 12 leads.

paper/ is "LAEF: A Lead-Agnostic ECG Foundation Model Towards Point-of-Care Diagnostics" (E. Coppola
et al.), read from its LaTeX source: main.csv (Table 1), extended.csv (all eight models),
lead_i_ii.csv (leads I and II), ablations.csv and cost.csv. AUROC x 100 as printed, with the sd over
five draws of leads; `rank` 1 red, 2 blue, 3 green; `asterisk` 1 where "not significantly worse than
the best" is printed. fmb/ is the reference benchmark, AI4HealthUOL/ecg-fm-benchmarking at commit
6367295 (arXiv 2509.25095), its file Confidence_Interval.xlsx: scores.csv, fractions with the
interval that it prints, without the tasks on MIMIC; labels.csv, how many classes its code has.
Numbers are quoted as facts, with nothing else of either; tasks and models have the names that
ecgbench gives them. Nothing here is a result of ecgbench.
"""

from ecgbench.published._claim import Claim
from ecgbench.published.claims import claims
from ecgbench.published.tables import (
    AVERAGE,
    EVALUATED_ONLY,
    FMB,
    LEAD_RANGE,
    METRIC,
    MODELS,
    PAPER,
    SOURCES,
    TASKS,
    Printed,
    Source,
    ablations,
    cost,
    extended,
    lead_i_ii,
    main,
    printed,
    source,
)

__all__ = [
    "AVERAGE",
    "EVALUATED_ONLY",
    "FMB",
    "LEAD_RANGE",
    "METRIC",
    "MODELS",
    "PAPER",
    "SOURCES",
    "TASKS",
    "Claim",
    "Printed",
    "Source",
    "ablations",
    "claims",
    "cost",
    "extended",
    "lead_i_ii",
    "main",
    "printed",
    "source",
]
