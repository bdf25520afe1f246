"""Preparing beside bare reading, per format: WFDB 16, HDF5, CSV and numpy.

`python benchmarks/formats.py [--records N]`: recordings of the demo (12 leads, 10 s
at 500 Hz), a fifth of N of WFDB and CSV. Bare reading is `wfdb.rdrecord`, `h5py.File`,
`pandas.read_csv` or `numpy.load` alone, in this process, without a check; preparing
reads, checks, hashes and stores, in as many processes as there are cores. A round of bare reading
comes before and after, and the ratio is to their mean, of processor time, which depends less on
what else the machine does.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import wfdb
from timer import machine

from ecgbench import datasets
from ecgbench.data.prepare import prepare
from ecgbench.data.reading import checked_row
from ecgbench.data.source import Source, rows
from ecgbench.datasets import demo
from ecgbench.ecg.leads import LEADS

TARGET = 4.0
FILES = 100
"""That the records of a format share, for writing some formats takes longer than all else; more
than a processor's nearest caches hold.
"""
SLOW = {"wfdb": 5, "csv": 5}
"""Formats of which a part of the records is enough."""
PLUG_IN = '''"""Recordings of one format."""
import pandas as pd
from ecgbench.cards.dataset import DatasetCard
from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import arrays, csv, wfdb
from ecgbench.ecg.readers.arrays import FileFormat

FORMAT = FileFormat(
    leads={leads}, fs=500.0, per_mv=1000.0, leads_first={first}, variable="{variable}"
)
CARD = DatasetCard(
    title="{name}", version="1", doi="", licence="", url="", folder="{name}", synthetic=False,
    records={count}, patients={count}, fs=500.0, seconds=10.0, leads=LEADS, index_files=(),
    tasks=(), splits="none", pretraining=True,
)


def index(root):
    names = [f"r{{i:05d}}" for i in range({count})]
    paths = [f"f{{i % {files}}}" for i in range({count})]
    return pd.DataFrame({{"record": names, "patient": names, "split": "train", "path": paths}})


def read(root, row):
    record = row["record"]
    return {reader}(root / f"{{row['path']}}{end}", record, record, {words})
'''


def _wfdb(folder: Path, name: str, steps: np.ndarray) -> None:
    wfdb.wrsamp(
        name,
        fs=500,
        units=["mV"] * 12,
        sig_name=list(LEADS),
        d_signal=steps.T,
        fmt=["16"] * 12,
        adc_gain=[1000.0] * 12,
        baseline=[0] * 12,
        write_dir=str(folder),
    )


def _hdf5(folder: Path, name: str, steps: np.ndarray) -> None:
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file["ecg"] = steps


def _bare_hdf5(folder: Path, name: str) -> Any:
    with h5py.File(folder / f"{name}.h5", "r") as file:
        return file["ecg"][()]


FORMATS: dict[str, tuple[Any, ...]] = {
    "wfdb": (_wfdb, lambda f, n: wfdb.rdrecord(str(f / n)), ".hea", ""),
    "hdf5": (_hdf5, _bare_hdf5, ".h5", "ecg"),
    "csv": (
        lambda f, n, x: np.savetxt(
            f / f"{n}.csv", x.T, "%d", ",", header=",".join(LEADS), comments=""
        ),
        lambda f, n: pd.read_csv(f / f"{n}.csv"),
        ".csv",
        "",
    ),
    "numpy": (
        lambda f, n, x: np.save(f / f"{n}.npy", x),
        lambda f, n: np.load(f / f"{n}.npy"),
        ".npy",
        "",
    ),
}
"""Writes, bare reading, suffix, variable."""


def busy(work: Callable[[], object]) -> float:
    """Processor time, s, that of processes that have ended among it."""
    used = sum(os.times()[:4])
    work()
    return sum(os.times()[:4]) - used


def measured(name: str, count: int) -> tuple[float, float, float]:
    """Seconds of bare reading, of reading and checking, and of preparing so many recordings."""
    write, bare, suffix, variable = FORMATS[name]
    names = [f"f{i % FILES}" for i in range(count)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data" / f"of_{name}"
        folder.mkdir(parents=True)
        for i, record in enumerate(names[:FILES], 1):
            signal = demo.recording(i).signal
            write(folder, record, np.rint(1000 * signal).astype(np.int16))
        plug_in = Path(place) / f"of_{name}.py"
        text = PLUG_IN.format(
            reader=f"{name}.read" if name in SLOW else f"arrays.{name}",
            leads="None" if name in SLOW else "LEADS",  # those of the file, or all in order
            first=name != "csv",
            variable=variable,
            name=f"of_{name}",
            count=count,
            files=FILES,
            end="" if name == "wfdb" else suffix,
            words="500.0" if name == "wfdb" else "FORMAT",
        )
        plug_in.write_text(text)

        def read_all() -> None:
            for record in names:
                bare(folder, record)

        def prepare_all() -> None:
            home = Path(place) / "prepared"
            copy = prepare(str(plug_in), folder.parent, home)
            assert len(copy.samples) == count, copy.left_out

        def check_all() -> None:
            source = Source.of(plug_in.stem, folder.parent)
            for row in rows(source.index):
                checked_row(source, row)

        read_all()  # into the page cache
        work = (read_all, prepare_all, check_all, read_all)
        before, prepared, checked, after = map(busy, work)
    datasets.ROOM.forget()
    return (before + after) / 2, checked, prepared


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2000)
    count = parser.parse_args().records
    print(f"{machine()}; {count} records a format; target: {TARGET:g} times bare reading")
    for name in FORMATS:
        own = count // SLOW.get(name, 1)
        alone, checked, ours = measured(name, own)
        print(
            f"  {name:6} bare {1000 * alone / own:.3f} ms a record, read and checked "
            f"{1000 * checked / own:.3f} (ratio {checked / alone:.2f}), prepared "
            f"{1000 * ours / own:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
