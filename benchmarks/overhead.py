"""What a run costs beside its forward passes: `python benchmarks/overhead.py --data DIR [--limit
300]`, on genuine PTB-XL.

The run is the README's, with few records, in this process, into a temporary folder; the copy is
prepared before the clock starts, views (filter, resampling) are computed inside it. Counted as
forward: the time inside the networks. Everything else is the harness: start, signals, policies,
normalisation, heads, bootstrap, files. Target: at most 10 % of the wall time. A line of its own
says how long what was read back was compared with its hash (target: less than 3 %).
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGET, PROOFS = 0.10, 0.03


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


def timed_proofs(clock: Clock) -> None:
    """The clock runs while hashes of what is kept are made and compared: tables and recordings of
    the prepared copy, views, shards of features.
    """
    from ecgbench.inference import features
    from ecgbench.prepared import store, views

    places: list[tuple[Any, str]] = [
        (store, "sha256"),
        (store.Prepared, "proved"),
        (views, "checksum"),
        (features, "proof_of"),
    ]
    for place, name in places:
        setattr(place, name, clock.timed(getattr(place, name)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("ECGBENCH_DATA"))
    parser.add_argument("--prepared", default=None)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--models", default="laef,stmem")
    options = parser.parse_args()
    if not options.data:
        print("skipped: name the folder that holds ptbxl/ with --data DIR or ECGBENCH_DATA")
        return
    started = time.perf_counter()
    from ecgbench.cells import Folders, Request
    from ecgbench.prepared.prepare import prepare

    preparing = time.perf_counter()
    prepared = Path(options.prepared) if options.prepared else None
    prepare("ptbxl", Path(options.data), prepared)
    preparing = time.perf_counter() - preparing
    from ecgbench.benchmark import plan as planning
    from ecgbench.benchmark.engine import Setup, ask
    from ecgbench.benchmark.engines import inline
    from ecgbench.benchmark.job import Look
    from ecgbench.benchmark.progress import EventDisplay, Lines
    from ecgbench.benchmark.run import Run
    from ecgbench.ecg.draw import parse_leads
    from ecgbench.inference import network

    clock, proofs, build = Clock(), Clock(), network.build
    timed_proofs(proofs)

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
    )
    with tempfile.TemporaryDirectory() as folder:
        engine = inline.start(Setup(logs=Path(folder), patience=900, show=EventDisplay(Lines())))

        def policy(model: str, weights: str | None) -> str | None:
            return ask(engine, Look(id=model, model=model, weights=weights, contract="paper"))[
                "policy"
            ]

        planned = planning.plan(planning.check(request), policy)
        done = Run(
            planned,
            Folders(data=Path(options.data), prepared=prepared, out=Path(folder)),
            Lines(),
            engine,
        )()
    wall = time.perf_counter() - started - preparing
    share = 1 - clock.seconds / wall
    print(
        f"{done.computed} cells of {options.models} on {options.limit} records, --leads {leads}: "
        f"{wall:.1f} s, "
        f"{clock.seconds:.1f} s of them inside the networks; overhead {share:.1%} (target "
        f"{TARGET:.0%})"
    )
    print(
        f"comparing what is kept with its hashes: {proofs.seconds:.2f} s, "
        f"{proofs.seconds / wall:.2%} of the run (target {PROOFS:.0%})"
    )
    sys.exit(share > TARGET or proofs.seconds > PROOFS * wall)


if __name__ == "__main__":
    main()
