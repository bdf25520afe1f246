"""What a run costs beside its forward passes: `python benchmarks/overhead.py --data DIR [--limit
300] [--protocol linear]`, on genuine PTB-XL.

The run is the README's, with few records, in this process, into a temporary folder; the copy is
prepared before the clock starts, views (filter, resampling) are computed inside it. Counted as
forward: the time inside the networks. Everything else is the harness: start, signals, policies,
normalisation, heads, bootstrap, files. Target: at most 10 % of the wall time.

Then what it costs to know that files are what was written: the time inside hashes of what is kept,
as a share of the run (target: less than 3 % of one of protocol `linear`); the same command again,
which compares all that it finds.
"""

import argparse
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGET, HASHING = 0.10, 0.03


class Clock:
    """Adds up the time inside the outermost of its functions."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - started

        return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("ECGBENCH_DATA"))
    parser.add_argument("--prepared", default=None)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--models", default="laef,stmem")
    parser.add_argument("--protocol", choices=("probe", "linear"), default="probe")
    options = parser.parse_args()
    if not options.data:
        print("skipped: name the folder that holds ptbxl/ with --data DIR or ECGBENCH_DATA")
        return
    started = time.perf_counter()
    from ecgbench.cards.cell import Training
    from ecgbench.cards.plan import Folders, Request
    from ecgbench.data.prepare import prepare
    from ecgbench.ecg.draw import parse_leads

    preparing = time.perf_counter()
    prepared = Path(options.prepared) if options.prepared else None
    prepare("ptbxl", Path(options.data), prepared)
    preparing = time.perf_counter() - preparing
    from ecgbench.evaluate import network
    from ecgbench.study import plan as planning
    from ecgbench.study.jobs import Execution
    from ecgbench.study.progress import Terminal
    from ecgbench.study.run import run

    clock, hashing, build = Clock(), Clock(), network.build
    for name in ("sha256", "blake2b", "file_digest"):
        setattr(hashlib, name, hashing.timed(getattr(hashlib, name)))

    def timed_build(*args: Any, **kwargs: Any) -> network.Network:
        built = build(*args, **kwargs)
        for name in ("forward", "embed_leads", "per_lead", "encode"):
            if hasattr(built.module, name):
                setattr(built.module, name, clock.timed(getattr(built.module, name)))
        return built

    network.build = timed_build
    leads = "1,2,12,I,II,I+II"
    request = Request(
        models=tuple(options.models.split(",")),
        tasks=("ptbxl_super",),
        leads=parse_leads(leads),
        weights="random",
        limit=options.limit,
        training=Training(protocol=options.protocol),
    )
    with tempfile.TemporaryDirectory() as folder:
        requests, execution = [planning.check(request)], Execution(engine="inline")
        folders = Folders(data=Path(options.data), prepared=prepared, out=Path(folder))
        done = run(requests, folders, execution, Terminal(bars=False))
        wall, hashed = time.perf_counter() - started - preparing, hashing.seconds
        again = time.perf_counter()
        found = run(requests, folders, execution, Terminal(bars=False))
        again = time.perf_counter() - again
    share = 1 - clock.seconds / wall
    print(
        f"{done.computed} cells of {options.models} on {options.limit} records, --leads {leads}: "
        f"{wall:.1f} s, "
        f"{clock.seconds:.1f} s of them inside the networks; overhead {share:.1%} (target "
        f"{TARGET:.0%})"
    )
    print(
        f"protocol {options.protocol}: {hashed:.2f} s inside sha256, {hashed / wall:.2%} of the "
        f"run (target {HASHING:.0%}); the same command again: {again:.1f} s, "
        f"{hashing.seconds - hashed:.2f} s of them inside sha256, {found.reused} of "
        f"{done.computed} cells compared and kept"
    )
    sys.exit(share > TARGET or hashed / wall > HASHING)


if __name__ == "__main__":
    main()
