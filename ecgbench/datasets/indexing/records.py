"""Files of records: what reads that of a row, headers below a folder, rows of HDF5 files."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ecgbench.cards.dataset import DatasetCard
from ecgbench.ecg.recording import Recording
from ecgbench.errors import MissingData


def reader(
    of: Callable[..., Recording], *facts: Any, **more: Any
) -> Callable[[Path, Mapping[str, Any]], Recording]:
    """The `read` of a collection whose rows name a file: `of(path, record, patient, *facts)`."""

    def read(root: Path, row: Mapping[str, Any]) -> Recording:
        """One record in the unit of the card; BadRecord where its file cannot be trusted."""
        return of(root / row["path"], row["record"], row["patient"], *facts, **more)

    return read


def headers(
    root: Path, card: DatasetCard, wanted: Callable[[Path], object], shape: str = ".hea"
) -> dict[str, Path]:
    """Path in an index (without suffix) -> header, of those below `root` that are wanted;
    MissingData where there is none. shape: of their names, in words.
    """
    there = [f for f in sorted(root.rglob("*.hea")) if f.is_file() and wanted(f)]
    if not there:
        raise MissingData(
            f"no header ({shape}) of {card.title} below {root}; download it from {card.url}"
        )
    return {file.relative_to(root).with_suffix("").as_posix(): file for file in there}


def places(files: Iterable[Path], url: str, *arrays: str) -> dict[str, list[tuple[Any, ...]]]:
    """Exam -> the places at which HDF5 files hold it: name of the file, its row, and the values of
    further arrays there. MissingData where a file lacks exam_id or another array.
    """
    import h5py

    names, found = ("exam_id", *arrays), defaultdict[str, list[tuple[Any, ...]]](list)
    for file in files:
        try:
            with h5py.File(file, "r") as part:
                columns = [part[name][()].ravel().tolist() for name in names]
        except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise MissingData(
                f"{file} does not hold {' and '.join(names)} ({type(error).__name__}); download "
                f"it again from {url}"
            ) from error
        for row, (exam, *own) in enumerate(zip(*columns, strict=False)):
            text = exam.decode("utf-8", "replace") if isinstance(exam, bytes) else str(exam)
            found[text].append((file.name, row, *own))
    return found
