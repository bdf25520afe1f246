"""What a person requests of an import."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from ecgbench.core.files import sha256_of
from ecgbench.data.own import found, records
from ecgbench.ecg.readers.said import Said


@dataclass(frozen=True, kw_only=True)
class Order:
    """Recordings, their table of labels, and how both are to be read."""

    folder: Path
    """Of the recordings."""
    labels: Path
    name: str
    """Of the dataset, its task and its card file."""
    to: Path
    """Folder that receives card file and records.csv."""
    said: Said = field(default_factory=Said)
    columns: tuple[str, ...] = ()
    """Of the table: those that are labels; where none is named, those of 0 and 1."""
    positive: str | None = None
    """The word that is 1 in a column of words; all others are 0."""
    partial: bool = False
    """Whether records of the table without a file are left out."""
    match_zeros: bool = False
    """Whether a record is found where zeros in front of its number were lost."""
    overwrite: bool = False
    """Whether what was edited by hand is written anew; patients stay in their splits."""
    of_run: bool = False
    """Whether `to` lies in the folder of a run."""

    @property
    def elsewhere(self) -> str:
        """The option that names another folder."""
        return "--out" if self.of_run else "--to"

    @property
    def card(self) -> Path:
        """The card file."""
        return self.to / f"{self.name}.py"

    def fingerprint(self) -> str:
        """The hash of all that an import rests on; no recording is read."""
        files = sorted(found.walk(self.folder, (self.labels, self.to)))
        stats = [
            (str(f), s.st_size, s.st_mtime_ns, s.st_ctime_ns)
            for f in files
            if f.exists() and (s := f.stat())
        ]
        written = [sha256_of(f) for f in (self.labels, self.card, self.to / records.FILE)]
        how = repr((self.said, self.columns, self.positive, self.partial, self.match_zeros))
        rests_on = [str(self.folder.resolve()), written, how, stats]
        return hashlib.sha256(json.dumps(rests_on).encode()).hexdigest()
