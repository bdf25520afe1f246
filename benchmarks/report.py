"""The report of the paper's whole grid: 8 models, 18 tasks, 15 lead settings (1, 2 and 12 leads and
each of the twelve), 2,200 test records a task.

`python benchmarks/report.py [--folder DIR] [--records 2200] [--tasks 18]`: writes such a store,
synthetic, unless DIR holds one; then scores it and writes the full report, in a process of its own.
Targets on two cores: within 5 minutes and in less than 2.5 GB.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timer import machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

MODELS = ("laef", "ecgfounder", "ecgjepa", "stmem", "merl", "ecgfmked", "hubertecg", "ecgcpc")
LEADS = "1,2,12,I,II,III,aVR,aVL,aVF,V1,V2,V3,V4,V5,V6"
KEPT = {"1": 0.6, "2": 0.75, "12": 1.0}
"""Share of a model's skill; of a single lead: that of one."""
WRITE = """
import resource, sys, time
from pathlib import Path
from ecgbench import reports
def used(field):
    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return [getattr(resource.getrusage(who), field) for who in whose]
started = time.perf_counter()
study = reports.read(Path(sys.argv[1]))
read = time.perf_counter() - started
written = reports.write(study, Path(sys.argv[2]))
size = sum(file.stat().st_size for file in written)
busy = sum(used("ru_utime") + used("ru_stime"))
peak, of_child = (kb / 1e6 for kb in used("ru_maxrss"))
print(f"{time.perf_counter() - started:.0f} s ({busy:.0f} s busy; reading {read:.0f} s), peak "
      f"{peak:.1f} GB and {of_child:.1f} GB in each process beside it, {len(written)} files, "
      f"{size / 1e6:.0f} MB")
"""


def made(records: int, tasks: int):
    """The store's plan: as many labels a task as the cards say."""
    from ecgbench import datasets, suites
    from ecgbench.study import plan_file
    from tests.invented import Data, Made

    chosen = plan_file.load(suites.path("paper")).request().tasks[:tasks]
    data = {}
    for name in datasets.names():
        own = {t.name: len(t.labels) for t in datasets.get(name).CARD.tasks if t.name in chosen}
        if own:
            data[name] = Data(tasks=own, records=records, prevalence=0.05, title=name)
    rank = dict(zip(MODELS, (1.6, 1.5, 1.45, 1.4, 1.2, 1.0, 0.9, 0.8)))
    return Made(
        data=data,
        models=MODELS,
        leads=LEADS,
        seeds=1,
        skill=lambda model, leads: rank[model] * KEPT.get(leads, 0.6),
        validated=500,
    )


def timed(what: str, run: Path, to: Path) -> None:
    """Print what one whole report took."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE, str(run), str(to)], capture_output=True, text=True
    )
    print(f"{what}: {done.stdout.strip() or done.stderr.strip()[-600:]}", flush=True)


def main() -> None:
    """Print the time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--records", type=int, default=2200)
    parser.add_argument("--tasks", type=int, default=18)
    asked = parser.parse_args()
    from tests.invented import write

    print(machine())
    with tempfile.TemporaryDirectory() as temporary:
        run = (asked.folder or Path(temporary)) / "run"
        if not run.exists():
            started = time.perf_counter()
            write(run, made(asked.records, asked.tasks))
            print(f"written in {time.perf_counter() - started:.0f} s", flush=True)
        print(f"{len(list(run.glob('cells/*/*/*/*/DONE')))} cells")
        timed("report", run, Path(temporary) / "report")


if __name__ == "__main__":
    main()
