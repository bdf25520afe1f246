"""ecgbench: how much of an ECG model's skill survives when only some leads are measured.

    from ecgbench import models
    net = models.get("laef").build()

The command line is the other door: `ecgbench --help`.
"""

__version__ = "0.1.0"
