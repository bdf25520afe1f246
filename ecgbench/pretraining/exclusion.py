"""Which recordings of the corpora must stay out of pre-training: those that evaluation may see,
under whatever name they come.
"""

from collections import Counter
from collections.abc import Sequence

from ecgbench.data.copy import Copy
from ecgbench.pretraining.guard import PTBXL, TRAINING_FOLDS, Name, ecg_id_of, folds_of, is_ptbxl


class Exclusion:
    """Says of each training recording whether it may be used, and counts why others may not.

    Out are recordings of a patient of a validation or test split, or of one who is set apart; such
    recordings of PTB-XL, and all of its folds 9 and 10, under the names of another dataset; and
    those with the very samples of one of them in any dataset (hash of what is stored). The guard of
    the corpus still looks at all that are left, and raises where PTB-XL's own index is at odds with
    its folds.
    """

    def __init__(self, prepared: Sequence[Copy]) -> None:
        self.reasons: Counter[str] = Counter()
        """"id", "patient", "signal" -> recordings left out."""
        self._facts = {
            p.name: dict(zip(p.index["record"], zip(p.index["patient"], p.index["sha256"])))
            for p in prepared
        }
        out = {p.name: p.index[p.index["split"] != "train"] for p in prepared}
        self._patients = {name: set(rows["patient"]) for name, rows in out.items()}
        self._signals = {s for rows in out.values() for s in rows["sha256"]}
        self._held_out = set[int]()
        for published in (p.published for p in prepared if p.name == PTBXL):
            folds = folds_of(published)
            self._held_out |= {i for i, fold in folds.items() if fold not in TRAINING_FOLDS}
            self._held_out |= {*folds_of(published[published["split"] != "train"])}

    def __call__(self, name: Name) -> bool:
        """Whether a recording may enter pre-training."""
        patient, sha256 = self._facts[name.dataset][name.record]
        if name.dataset != PTBXL and is_ptbxl(name) and ecg_id_of(name) in self._held_out:
            self.reasons["id"] += 1
        elif patient in self._patients[name.dataset]:
            self.reasons["patient"] += 1
        elif sha256 in self._signals:
            self.reasons["signal"] += 1
        else:
            return True
        return False
