"""Every kind of file that is kept only to save time, damaged in every way; then what would use it:
prepared copies, views, features, fits and checkpoints of a run that was stopped, and
encoders of one that was fine-tuned.
"""

from collections.abc import Iterator, Mapping

from tests.soak.families.results import damaged
from tests.soak.place import Place
from tests.soak.row import Row


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """A run from nothing on a damaged copy, and runs that go on with damaged features, fits and
    checkpoints.
    """
    for base, part in (
        ("nothing", "prepared"),
        ("features", "run/features"),
        ("fits", "run/fits"),
        ("stopped", "run/checkpoints"),
    ):
        place = bases[base]
        yield from damaged("caches", base, place, place.folder / part, ("run",))
    tuned = bases["tuned"]
    yield from damaged("caches", "tuned", tuned, tuned.out, within="fits/.*/encoder")
    study = bases["study"]
    yield from damaged("caches", "study", study, study.prepared)
