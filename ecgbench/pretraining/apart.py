"""Patients whose recordings only compare encoders: they are taken out of a training split, so that
neither the validation nor the test split of a task that is reported chooses a checkpoint.
"""

from ecgbench.core.seeds import seed_of
from ecgbench.data.copy import Copy
from ecgbench.datasets.indexing.tables import alike
from ecgbench.errors import BadSetting

APART = "apart"
"""Name of their split."""


def set_apart(copy: Copy, part: int) -> Copy:
    """The copy with one in `part` patients of its training split in a split of their own. Who they
    are follows from the name of the dataset and of the patient, so they are the same in any part of
    the dataset and under every seed.

    BadSetting where nobody is apart, or nobody is left.
    """

    def moved(patient: object) -> bool:
        return seed_of("compares encoders", copy.name, alike(patient)) % part == 0

    published = copy.published
    trained = published["split"] == "train"
    chosen = {p for p in published.loc[trained, "patient"].unique() if moved(p)}
    out = trained & published["patient"].isin(chosen)
    if not out.any() or not (trained & ~out).any():
        raise BadSetting(
            f"one in {part} of the {published.loc[trained, 'patient'].nunique():,} training "
            f"patients of {copy.name} to compare encoders: that leaves a split empty; name another "
            f"number (--set held_out), or compare on the validation split: --set held_out=0"
        )
    split = published["split"].mask(out, APART)
    rows = published["record"].searchsorted(copy.index["record"])
    index = copy.index.assign(split=split.to_numpy()[rows])
    said = f"one in {part} of its training patients only compare encoders"
    words = "; ".join(filter(None, (copy.division, said)))
    return copy.divided(published.assign(split=split), index, words)
