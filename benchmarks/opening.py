"""Opening a run of 10,000 cells, every file of it compared with its hash: `python
benchmarks/opening.py [--cells N] [--folder DIR]`.

The cells are written by hand: predictions for five labels, one file under 10,000 names, so that it
is read from the page cache; of 200 records, and of 2,198 (PTB-XL's test split), most of whose time
is sha256. Target: less than 5 s.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TARGET = 5.0
CELLS, LABELS = 10_000, 5
RECORDS = 200, 2_198
LEADS = "1-12"
SEEDS = 5


def write(folder: Path, count: int, records: int) -> int:
    """A run of about `count` cells in `folder`; returns how many."""
    import numpy as np

    from ecgbench.cards.plan import Request
    from ecgbench.core.files import as_json, as_parquet
    from ecgbench.core.folders import DONE, sha256_of
    from ecgbench.core.keys import key
    from ecgbench.ecg.draw import parse_leads, settings
    from ecgbench.study.scores import prediction_table, score_table, with_wins
    from ecgbench.study.store import Store

    drawn = list(settings(parse_leads(LEADS), SEEDS))
    asked = Request(
        models=tuple(f"m{i}" for i in range(-(-count // len(drawn)))),
        tasks=("a",),
        leads=parse_leads(LEADS),
        seeds=SEEDS,
        policies=("zero",),
        name="opening",
    )
    run = Store(folder)
    cells = run.add_request(asked).cells
    random = np.random.default_rng(0)
    target = (random.random((records, LABELS)) < 0.3).astype(np.int8)
    names = {name: [f"{name}{i:05}" for i in range(records)] for name in ("record", "patient")}
    labels = [f"L{k}" for k in range(LABELS)]
    table = prediction_table(
        {**names, "leads": ["II"] * records}, labels, random.random(target.shape), target
    )
    shared = {
        "predictions.parquet": as_parquet(with_wins(("auroc",), table)),
        "scores.parquet": as_parquet(score_table(("auroc",), table)),
    }
    for name, content in shared.items():
        (folder / name).write_bytes(content)
    hashes = {name: sha256_of(folder / name) for name in shared}
    facts = [
        run.add_facts(kind, {"name": kind, "tasks": {}, "patients": sorted(names["patient"])})
        for kind in ("models", "datasets")
    ]
    study = key(run.existing_plan().shared())
    for cell in cells:
        # as long as a genuine one
        own: dict[str, Any] = {
            "cell": cell.task,
            "model": cell.fit.model,
            "setting": str(cell.setting),
            "fit": "f" * 64,
            "identity": cell.identity,
            "contract": {f"fact {i}": "x" * 40 for i in range(30)},
        }
        about = {
            "identity": cell.identity,
            "study": study,
            "key": key(own),
            "key_facts": own,
            "fit": f"fits/a/{cell.fit.model}/{'f' * 64}",
            "model": facts[0],
            "dataset": facts[1],
            "dataset_name": "datasets",
            "features": None,
            "weights_name": "released",
            "device": "cpu",
            "code": {},
            "windows": 4.0,
            "n_records": records,
            "excluded": 0,
            "blind": 0.0,
            "finished": 0.0,
        }
        place = run.cell_folder(cell)
        place.mkdir(parents=True)
        (place / "cell.json").write_text(as_json(about))
        for name in shared:
            os.link(folder / name, place / name)
        of_cell = {**hashes, "cell.json": sha256_of(place / "cell.json")}
        (place / DONE).write_text(as_json(of_cell))
    return len(cells)


def opened(folder: Path) -> tuple[float, float]:
    """Seconds to open a run, and those that cores were busy."""
    from ecgbench.results.reader import Reader

    started, busy = time.perf_counter(), time.process_time()
    reader = Reader.of(folder)
    assert not reader.damaged
    return time.perf_counter() - started, time.process_time() - busy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--folder", type=Path, help="where to write it")
    options = parser.parse_args()
    longest = 0.0
    for records in RECORDS:
        with tempfile.TemporaryDirectory(dir=options.folder) as own:
            cells = write(Path(own) / "run", options.cells, records)
            times = [opened(Path(own) / "run") for _ in range(3)]
        wall, busy = (min(each) for each in zip(*times))
        longest = max(longest, wall)
        print(
            f"opening a run of {cells:,} cells of {records:,} records, all files compared with "
            f"their hashes: {wall:.1f} s, {busy:.1f} s busy (target {TARGET:.0f} s)"
        )
    sys.exit(longest > TARGET)


if __name__ == "__main__":
    main()
