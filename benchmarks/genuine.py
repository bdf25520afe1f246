"""What the benchmarks on genuine recordings share: where these lie, and their prepared copy."""

import argparse
import os
import sys
from pathlib import Path

from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare
from ecgbench.errors import MissingData


def arguments(description: str | None) -> argparse.ArgumentParser:
    """--data (else ECGBENCH_REAL_DATA or ECGBENCH_DATA) and --prepared."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    usual = os.environ.get("ECGBENCH_REAL_DATA") or os.environ.get("ECGBENCH_DATA")
    parser.add_argument("--data", type=Path, default=usual)
    parser.add_argument("--prepared", type=Path, help="default: a temporary folder")
    return parser


def copy_of(name: str, options: argparse.Namespace, folder: str) -> Copy:
    """The prepared copy of a dataset below --data, in `folder` where --prepared names none; says
    that nothing is measured, and ends, where the dataset is not there.
    """
    try:
        return prepare(name, options.data and Path(options.data), options.prepared or Path(folder))
    except MissingData as error:
        print(f"skipped: {error}")
        sys.exit(0)
