"""`make soak`: every fault, or those whose name holds some words; `python -m tests.soak --help`.

What came of each is kept in runs/soak: a soak that was stopped goes on from there, as long as the
code is the same. A whole one writes its table into last.md, which
docs/explanation/reliability.md shows.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy: a process of one thread can be copied

from ecgbench.core.seeds import rng
from tests.soak import page
from tests.soak.bases import MADE
from tests.soak.row import BAD, Verdict
from tests.soak.runner import Home, Studies, carry_out, families, prepare_process, rows

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Exit code 1 where a row went wrong."""
    asked = _asked()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    prepare_process()
    home = _home(asked.home)
    studies = Studies(home)
    if not asked.families:
        studies.make(MADE, asked.workers)
    every = rows(studies, asked.families.split(",") if asked.families else families())
    wanted = [row for row in every if asked.words in row.id]
    if asked.sample:
        drawn = rng("soak", "sample", asked.seed).permutation(len(wanted))[: asked.sample]
        wanted = [wanted[i] for i in drawn]
    if not wanted:
        sys.exit(f"no fault has {asked.words!r} in its name")
    done = {v.id: v for v in _kept(home)}
    left = [row for row in wanted if row.id not in done]
    counts = Counter(done[row.id].outcome for row in wanted if row.id in done)
    for verdict in carry_out(home, left, asked.workers):
        done[verdict.id] = verdict
        with _results(home).open("a") as out:
            out.write(json.dumps(asdict(verdict)) + "\n")
        counts[verdict.outcome] += 1
        if verdict.outcome in BAD:
            print(f"\r{verdict.outcome}: {verdict.id}: {verdict.why}", flush=True)
        _progress(counts, len(wanted))
    found = [done[row.id] for row in wanted]
    seconds = time.monotonic() - began
    print(f"\n{page.table(found, seconds, len(every))}")
    if len(found) == len(every) and not asked.families:
        page.write(found, seconds)
        shutil.rmtree(home.folder)
    sys.exit(any(v.outcome in BAD for v in found))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("words", nargs="?", default="", help="part of a family's or row's name")
    parser.add_argument("--families", default="", help=f"only these: {', '.join(families())}")
    parser.add_argument("--sample", type=int, default=0, help="so many rows, drawn at random")
    parser.add_argument("--seed", default="0", help="of the sample")
    parser.add_argument("--workers", type=int, default=2, help="rows at once")
    parser.add_argument("--home", type=Path, default=ROOT / "runs" / "soak", help="its folder")
    return parser.parse_args()


def _home(folder: Path) -> Home:
    """The folder of a soak of this code; what another code left there is removed."""
    mark, now = folder / "code", _code()
    if not mark.exists() or mark.read_text() != now:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        mark.write_text(now)
    return Home(folder)


def _code() -> str:
    files = [*(ROOT / "ecgbench").rglob("*"), *(ROOT / "tests").rglob("*.py")]
    hashes = hashlib.sha256()
    for file in sorted(f for f in files if f.is_file() and f.suffix != ".pyc"):
        hashes.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return hashes.hexdigest()


def _results(home: Home) -> Path:
    return home.folder / "results.jsonl"


def _kept(home: Home) -> Iterator[Verdict]:
    if _results(home).exists():
        for line in _results(home).read_text().splitlines():
            yield Verdict(**json.loads(line))


def _progress(counts: Counter[str], total: int) -> None:
    done, wrong = sum(counts.values()), sum(counts[o] for o in BAD)
    end = "\r" if sys.stdout.isatty() else "\n"
    if end == "\r" or done % 50 == 0:
        print(f"{done} of {total} faults, {wrong} went wrong", end=end, flush=True)


if __name__ == "__main__":
    main()
