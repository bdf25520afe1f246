"""ecgbench: how much of an ECG model's skill survives when only some leads are measured.

    import ecgbench

    study = ecgbench.run("laef", "demo", leads="1,2,12", out="runs/demo")  # as `ecgbench run`
    study = ecgbench.read("runs/demo")          # a run: study.main, study.compare, study.plot, ...
    ecgbench.predict("runs/demo", "ecgs", leads="I")   # its fits on recordings in files
    ecgbench.embed("laef", "ecgs", leads="I")   # features of recordings in files
    ecgbench.load("ptbxl_super", leads="I")     # recordings as a torch dataset
    ecgbench.load_model("laef").embed(signal, fs=500)  # features of arrays

    from ecgbench import models
    net = models.get("laef").build()

On the command line: `ecgbench --help`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ecgbench.api import embed, load, load_model, predict, read, run

__version__ = "0.3.0"
__all__ = ["__version__", "embed", "load", "load_model", "predict", "read", "run"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # what they need takes a second to import
        return getattr(import_module("ecgbench.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
