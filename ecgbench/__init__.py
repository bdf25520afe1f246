"""ecgbench: how much of an ECG model's skill survives when only some leads are measured.

    from ecgbench import models
    net = models.get("laef").build()

    import ecgbench
    study = ecgbench.read("runs/demo")          # a finished run: study.main, study.labels, ...
    ecgbench.predict("runs/demo", "ecgs", leads="I")   # its fits on recordings in files
    ecgbench.embed("laef", "ecgs", leads="I")

On the command line: `ecgbench --help`.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "read":  # reading results loads pandas, which `ecgbench --help` does without
        from ecgbench.results.study import read

        return read
    if name in ("predict", "embed"):
        return getattr(import_module("ecgbench.results.predict"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
