"""Steps of a training on a terminal, or in a log."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecgbench.pretraining.curve import Listener


def shown(stage: str, note: Callable[[str], None]) -> "Listener":
    """One line that is overwritten on a terminal, else a line every 15 s."""
    from ecgbench.pretraining.curve import Report, at_intervals

    if not sys.stderr.isatty():
        return at_intervals(lambda line: note(f"{stage}, {line}"))
    last = 0.0

    def listen(report: Report) -> None:
        nonlocal last
        ends = report.step == report.steps
        if ends or time.monotonic() - last > 0.3:
            last = time.monotonic()
            sys.stderr.write(f"\r\x1b[2K{stage}, {report}" + ("\n" if ends else ""))
            sys.stderr.flush()

    return listen
