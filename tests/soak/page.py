"""The table of docs/explanation/reliability.md: what came of every fault, by family, and the
names of those that went wrong.
"""

import os
import platform
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import ecgbench
from tests.soak.row import BAD, GOOD, Outcome, Verdict

LAST = Path(__file__).with_name("last.md")
COLUMNS: tuple[Outcome, ...] = (*GOOD, *BAD)


def table(verdicts: Sequence[Verdict], seconds: float, of: int = 0) -> str:
    """Counts, then the rows that went wrong. of: how many rows there are, where some were tried."""
    families = dict.fromkeys(v.family for v in verdicts)
    counts = {f: Counter(v.outcome for v in verdicts if v.family == f) for f in families}
    counts["all"] = sum(counts.values(), Counter())
    sample = f" of {of:,}, drawn at random" if of > len(verdicts) else ""
    lines = [
        f"{len(verdicts):,} faults{sample}, {time.strftime('%Y-%m-%d', time.gmtime())}, ecgbench "
        f"{ecgbench.__version__}, Python {platform.python_version()}, {_machine()}, "
        f"{seconds / 60:.0f} min:",
        "",
        f"| family | injected | {' | '.join(COLUMNS)} |",
        f"|---|{'---:|' * (1 + len(COLUMNS))}",
    ]
    for family, count in counts.items():
        numbers = " | ".join(str(count[outcome]) for outcome in COLUMNS)
        lines.append(f"| {family} | {sum(count.values())} | {numbers} |")
    return "\n".join([*lines, "", *_wrong(verdicts)]) + "\n"


def _wrong(verdicts: Sequence[Verdict]) -> list[str]:
    wrong = sorted((v for v in verdicts if v.outcome in BAD), key=lambda v: v.id)
    if not wrong:
        return ["No fault went wrong."]
    told = [f"- `{v.id}`: {v.outcome}. {_plain(v.why)}".rstrip() for v in wrong]
    return [f"{len(wrong)} faults went wrong:", "", *told]


def _plain(text: str) -> str:
    """One short line without what Markdown would read as its own; folders of the soak are cut."""
    line = re.sub(r"/\S*/rows/[0-9a-f]{16}", "…", " ".join(text.split()))
    line = re.sub(r"[0-9a-f]{12,}", "…", line)
    return re.sub(r"[<>|`*_\[\]]", " ", line)[:160]


def _machine() -> str:
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"model name\s*: (.*)", info.read_text())):
        model = found[1].strip()
    return f"{os.cpu_count()} cores ({model})"


def write(verdicts: Sequence[Verdict], seconds: float) -> None:
    """The file that the page shows."""
    LAST.write_text(table(verdicts, seconds), encoding="utf-8")
