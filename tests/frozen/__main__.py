"""The numbers of the whole program, through its command line, against the CSV files beside this.

    python -m tests.frozen            compare: one line for each number that moved, and exit code 1
    python -m tests.frozen --write    write the files anew

ECGBENCH_REAL_DATA names the genuine recordings; without it the files of REAL are left out.

A number may differ from the frozen one by RELATIVE of itself, or ABSOLUTE: on one make of processor
two runs agree to the last bit, on another the last bits of float32 differ, and a few optimiser
steps raise that to about 1e-5 of a probability. An AUROC moves in steps (of 1e-3 and more here), so
it is equal or has moved. Where an AUROC moved and its probabilities hold, two of them were tied.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
NARROW = HERE.parent / "narrow.py"  # LAEF with 64 features: quick to pre-train
RELATIVE, ABSOLUTE = 1e-4, 1e-5

DEMO = "run --leads 1,2,12 --seeds 1"
LANES = (  # each command's name is its --out; lanes run side by side, their commands in turn
    {
        "pretrained": f"pretrain smoke --model {NARROW} --set steps=4,3",
        # released, random and pre-trained weights; p exists between trained encoders alone
        "real": f"run --tasks ptbxl_super --limit 300 --data {{data}} --models laef,merl,{NARROW}"
        " --weights laef=released,merl=random,narrow=pretrained/encoder.safetensors"
        " --leads 1,2,12,I,II,I+II --seeds 1",
        "report": "report real --figures png",
    },
    {
        "probe": f"{DEMO} --models laef,stmem --limit 12",
        "linear": f"{DEMO} --models laef,merl --limit 12 --protocol linear",
        "finetune": "run --leads 2 --seeds 1 --models laef,merl --limit 12 --protocol finetune"
        " --set training.epochs=2 --set training.batch=4",
        "profile": "profile --no-timing --models laef,merl,ecgcpc --leads 1,12",
    },
)
OUT = {"report": "--to", "profile": "--to"}  # elsewhere --out
RUNS = ("probe", "linear", "finetune", "real")
REAL = ("real", "report")
REPORTED = ("cells", "comparisons", "cka", "cka_pairs", "cka_stability", "labels")
REPORTED += ("lead_curve", "label_map", "main_table", "non_inferiority", "best", "verdicts")

KEYS = {"task", "model", "policy", "weights", "leads", "setting", "metric", "label", "record"}
KEYS |= {"against", "first", "second", "best_model", "step", "epoch", "codes", "samples", "of"}
KEYS |= {"stage", "layer", "what", "against_model", "n_leads"}
LEFT_OUT = {"seconds", "waiting", "device", "environment", "commit", "uncommitted", "recomputed"}
LEFT_OUT |= {"key", "path", "reason", "note", "lost"}


def table(path: Path) -> pd.DataFrame:
    """A CSV file as text, without what differs from run to run."""
    found = pd.read_csv(path, dtype=str, keep_default_na=False)
    return found.drop(columns=[c for c in found if c in LEFT_OUT])


def stored(run: Path, name: str) -> pd.DataFrame:
    """All of a run's scores.parquet or predictions.parquet: cells/TASK/MODEL/SETTING/KEY/name."""
    found = []
    for path in (run / "cells").rglob(name):
        task, model, setting = path.relative_to(run / "cells").parts[:3]
        own = pd.read_parquet(path)
        own = own.drop(columns=[c for c in own if c.startswith(("target:", "wins:"))])
        found.append(own.assign(task=task, model=model, setting=setting))
    return pd.concat(found)


def curves(out: Path, pattern: str) -> pd.DataFrame:
    """The curves of a training, each under the folder that names it."""
    found = sorted(out.glob(pattern))
    return pd.concat([table(p).assign(of="/".join(p.relative_to(out).parts[:3])) for p in found])


def frozen(work: Path, name: str) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    """What is frozen of the command `name`: names of files, and how each is read."""
    out = work / name
    if name in RUNS:
        yield f"{name}_scores", partial(stored, out, "scores.parquet")
        yield f"{name}_predictions", partial(stored, out, "predictions.parquet")
    if name in ("linear", "finetune"):
        yield f"{name}_curves", partial(curves, out, "fits/*/*/*/log.csv")
    if name == "pretrained":
        yield f"{name}_curves", partial(curves, out, "stage*/curve.csv")
        yield f"{name}_dynamics", partial(table, out / "report/dynamics.csv")
        yield f"{name}_elbow", partial(table, out / "report/elbow.csv")
    if name == "profile":
        yield name, partial(table, out / "cost.csv")
    if name == "report":
        for one in REPORTED:
            yield f"{name}_{one}", partial(table, out / f"{one}.csv")


def run(work: Path, data: Path | None, lane: dict[str, str]) -> None:
    """The commands of a lane in `work`, one thread each; all that they said is in NAME.log."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("ECGBENCH")}
    env |= {"OMP_NUM_THREADS": "1", "ECGBENCH_PREPARED": str(work / "prepared")}
    env["PYTHONPATH"] = str(HERE.parents[1])
    for name, words in lane.items():
        if data is None and name in REAL:
            continue
        line = [*words.format(data=data).split(), OUT.get(name, "--out"), name]
        line += ["--set", "run.report=no"] if line[0] == "run" else []
        done = subprocess.run(
            [sys.executable, "-m", "ecgbench", *line],
            cwd=work,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        (work / f"{name}.log").write_text(done.stdout)
        assert done.returncode == 0, f"ecgbench {' '.join(line)}:\n{done.stdout[-3000:]}"


def made(work: Path, data: Path | None) -> dict[str, pd.DataFrame]:
    """Every command run in the empty folder `work`: tables by name. `data` holds ptbxl/."""
    with ThreadPoolExecutor(len(LANES)) as pool:
        list(pool.map(partial(run, work, data), LANES))
    names = [n for lane in LANES for n in lane if data is not None or n not in REAL]
    return {file: tidy(read()) for n in names for file, read in frozen(work, n)}


def tidy(found: pd.DataFrame) -> pd.DataFrame:
    """Key columns first, rows sorted by them, all as the text of a CSV file."""
    keys = [c for c in found if c in KEYS]
    found = found[keys + [c for c in found if c not in KEYS]]
    text = found.map(lambda v: "" if v is None or v != v else str(v))
    return text.sort_values(keys).reset_index(drop=True)


def moved(name: str, old: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """A line for each row and column that is gone or new, and for each value that moved."""
    keys = [c for c in old if c in KEYS]
    lost = [f"{name}: column {c} is {w}" for c, w in differing(old.columns, new.columns)]
    if set(keys) - set(new):
        return lost
    before, after = ({tuple(r[keys]): r for _, r in t.iterrows()} for t in (old, new))
    if (len(before), len(after)) != (len(old), len(new)):
        return [*lost, f"{name}: two rows have one name ({', '.join(keys)})"]
    lost += [f"{name}: row {' '.join(r)} is {w}" for r, w in differing(before, after)]
    return lost + [
        f"{name}: {' '.join(key)}: {c}: {row[c]} -> {after[key][c]}"
        for key, row in before.items()
        if key in after
        for c in old
        if c in new and not near(row[c], after[key][c])
    ]


def differing(old: object, new: object) -> list[tuple[object, str]]:
    return [(x, "gone") for x in old if x not in new] + [(x, "new") for x in new if x not in old]


def near(old: str, new: str) -> bool:
    try:
        return old == new or bool(np.isclose(float(new), float(old), RELATIVE, ABSOLUTE))
    except ValueError:
        return False


def unpacked(data: Path, to: Path) -> Path:
    """Genuine PTB-XL recordings in `to`/ptbxl, as published."""
    packs = sorted((data / "ptbxl" / "pack500").glob("*.xz"))
    assert packs, f"no packs in {data}/ptbxl/pack500"
    tool = data.parent / "tools" / "ecgpack.py"
    subprocess.run([sys.executable, str(tool), str(to / "ptbxl"), *map(str, packs)], check=True)
    for name in ("ptbxl_database.csv", "scp_statements.csv"):
        shutil.copyfile(data / "ptbxl" / name, to / "ptbxl" / name)
    return to


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen")
    parser.add_argument("--write", action="store_true", help="write the files anew")
    write, named = parser.parse_args().write, os.environ.get("ECGBENCH_REAL_DATA")
    if not named:
        print(f"left out: {', '.join(REAL)} (ECGBENCH_REAL_DATA names the genuine recordings)")
    with tempfile.TemporaryDirectory() as place:
        data = unpacked(Path(named).resolve(), Path(place) / "data") if named else None
        tables = made(Path(place), data)
    lines = []
    for name, new in tables.items():
        if write:
            new.to_csv(HERE / f"{name}.csv", index=False)
        else:
            lines += moved(name, table(HERE / f"{name}.csv"), new)
    rows = sum(len(t) for t in tables.values())
    print(*lines, f"{len(tables)} files, {rows} rows: {len(lines)} differences", sep="\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
