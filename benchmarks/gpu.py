"""What this project does on a GPU, learned by one command in a few minutes.

    python benchmarks/gpu.py --minutes 8 --to OUT        (also: make gpu)
    python benchmarks/gpu.py --device cpu --small --to OUT    the same on a small scale, to try it

The parts run in order of value, each in a process of its own with a budget of time: what fails,
hangs or fills the memory costs that part alone. Rows are kept as they come. OUT gets gpu.json and
gpu.md (written anew after every part), one log and, where it failed, one traceback a part; what was
not reached is listed. A checkout is enough: signals are drawn at random, and recordings are the
synthetic demo.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import gpu_parts

Row = dict[str, Any]
SMALLEST = 10.0
"""Seconds below which a part is not begun."""


def main() -> None:
    """Run all parts, or in a child process one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, help="folder for what was learned")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the script")
    parser.add_argument("--small", action="store_true", help="small batches and few models")
    parser.add_argument("--only", help="parts, separated by commas: " + ",".join(gpu_parts.PARTS))
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.to is None:
        parser.error("--to OUT: where to write what was learned")
    elif options.part:
        _child(options)
    else:
        sys.exit(_all(options))


def _all(options: argparse.Namespace) -> int:
    """Each part with its share of the time that is left; 1 where one failed."""
    options.to.mkdir(parents=True, exist_ok=True)
    chosen = options.only.split(",") if options.only else list(gpu_parts.PARTS)
    end, outcome = time.monotonic() + 60 * options.minutes, {}
    for place, name in enumerate(chosen):
        left = end - time.monotonic()
        shares = [gpu_parts.PARTS[n].share for n in chosen[place:]]
        # what an earlier part left over goes to the next ones
        budget = left * shares[0] / sum(shares)
        started = time.monotonic()
        state = _one(options, name, max(budget, SMALLEST)) if left > SMALLEST else "not reached"
        seconds = time.monotonic() - started
        outcome[name] = {"state": state, "seconds": round(seconds, 1), "rows": _rows(options, name)}
        print(f"{name}: {state}, {len(outcome[name]['rows'])} rows, {seconds:.0f} s", flush=True)
        _write(options, outcome)
    print(f"see {options.to / 'gpu.md'}")
    return int(any(part["state"].startswith("failed") for part in outcome.values()))


def _one(options: argparse.Namespace, name: str, seconds: float) -> str:
    """Run a part in a process of its own: "done", "stopped after ..." or "failed: ..."."""
    command = [sys.executable, __file__, "--to", str(options.to), "--device", options.device]
    command += ["--part", name, "--minutes", str(seconds / 60)]
    command += ["--small"] if options.small else []
    (options.to / f"{name}.jsonl").unlink(missing_ok=True)
    (options.to / f"{name}.error.txt").unlink(missing_ok=True)
    with (options.to / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"stopped after its {seconds:.0f} s; the rows are those before that"
        finally:
            # what the part started goes with it
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    error = options.to / f"{name}.error.txt"
    if error.exists():
        return f"failed: {error.read_text().strip().splitlines()[-1]}"
    return "done" if code == 0 else f"failed: exit code {code}, see {name}.log"


def _child(options: argparse.Namespace) -> None:
    where = gpu_parts.Where(
        device=options.device,
        small=options.small,
        folder=options.to.resolve(),
        until=time.monotonic() + 60 * options.minutes,
    )
    try:
        with (options.to / f"{options.part}.jsonl").open("a") as rows:
            for row in gpu_parts.PARTS[options.part].rows(where):
                rows.write(json.dumps(row) + "\n")
                rows.flush()
    except Exception:
        (options.to / f"{options.part}.error.txt").write_text(traceback.format_exc())
        traceback.print_exc()
    # threads of a library that crashed are not waited for
    sys.stdout.flush()
    os._exit(0)


def _rows(options: argparse.Namespace, name: str) -> list[Row]:
    file = options.to / f"{name}.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:  # cut off when its process was stopped
            break
    return rows


def _write(options: argparse.Namespace, outcome: dict[str, Row]) -> None:
    (options.to / "gpu.json").write_text(json.dumps(outcome, indent=1) + "\n")
    parts = [f"# ecgbench on {options.device}\n"]
    for name, part in outcome.items():
        parts.append(f"## {gpu_parts.PARTS[name].title}\n")
        if part["state"] != "done":
            parts.append(f"**{part['state']}**\n")
        parts.append(_table(part["rows"]))
    lacking = [n for n in gpu_parts.PARTS if n not in outcome]
    if lacking:
        parts.append(f"Not asked for, or not begun yet: {', '.join(lacking)}.\n")
    (options.to / "gpu.md").write_text("\n".join(parts))


def _table(rows: list[Row]) -> str:
    """Rows as Markdown, one table for each set of columns."""
    text, columns = [], []
    for row in rows:
        if list(row) != columns:
            columns = list(row)
            text += ["", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        text.append(f"| {' | '.join(_shown(v) for v in row.values())} |")
    return "\n".join(text) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value).replace("|", "/").replace("\n", " ")


if __name__ == "__main__":
    main()
