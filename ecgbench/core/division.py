"""How records are divided into training, validation and test: what `--folds` asks for. Pure data.

--folds ptb=10,code15=20     the datasets' own splits, made with other numbers of folds
--folds reference            patients without a label in training, as in the reference benchmark
--folds 5                    cross-validation of every dataset, each record tested once
--folds device=5             the same, by recorder: the four commonest, then all others
"""

from dataclasses import dataclass
from typing import Self

from ecgbench.errors import BadSetting

LEAST, MOST = 3, 20
"""Folds of a cross-validation: one is tested, one validates, the others train."""
REFERENCE, DEVICE = "reference", "device"
"""Words of `--folds`."""
OFFICIAL = "official"
"""The dataset's own splits; the fold of a fit on them."""


@dataclass(frozen=True, kw_only=True)
class Division:
    """Without a field: the splits as published, or as the cards say."""

    own: tuple[tuple[str, int], ...] = ()
    """(dataset, number of folds of its own split), sorted by name."""
    reference: bool = False
    """Whether patients without a label go to training."""
    cross: int | None = None
    """Number of folds of the cross-validation."""
    by: str = ""
    """DEVICE: a fold is what one recorder recorded."""

    def __str__(self) -> str:
        words = [f"{name}={number}" for name, number in self.own]
        words += [REFERENCE] if self.reference else []
        crossed = f"{self.by}={self.cross}" if self.by else str(self.cross)
        return ",".join(words if self.cross is None else [crossed])

    def __bool__(self) -> bool:
        return bool(str(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The value of `--folds`; names of datasets are not looked up. BadSetting in one line.

        >>> str(Division.parse("reference, ptb=10")), Division.parse("3").fits
        ('ptb=10,reference', ('1/3', '2/3', '3/3'))
        """
        if text in ("", OFFICIAL):
            return cls()
        words = [word.strip() for word in text.split(",") if word.strip()]
        by, equals, number = words[0].rpartition("=") if len(words) == 1 else ("", "", "")
        if number == DEVICE:  # alone
            by, number = DEVICE, "5"
        if number.isdecimal() and (by == DEVICE or not equals):
            if not LEAST <= int(number) <= MOST:
                raise BadSetting(f"--folds {text}: {LEAST} to {MOST} folds, for example --folds 5")
            return cls(cross=int(number), by=by)
        own: dict[str, int] = {}
        for word in [word for word in words if word != REFERENCE]:
            name, _, number = word.rpartition("=")
            if not name or not number.isdecimal() or int(number) < LEAST or name in own:
                raise BadSetting(
                    f"--folds {text}: {word!r}; one number (--folds 5), or of each data set once "
                    f"its own, {LEAST} or more, and {REFERENCE}: --folds ptb=10,{REFERENCE}"
                )
            own[name] = int(number)
        if not words:
            raise BadSetting("--folds names nothing; leave it out for the datasets' own splits")
        return cls(own=tuple(sorted(own.items())), reference=REFERENCE in words)

    @property
    def fits(self) -> tuple[str, ...]:
        """Names of the folds of a cross-validation; none without one."""
        before = f"{self.by} " if self.by else ""
        return tuple(f"{before}{k + 1}/{self.cross}" for k in range(self.cross or 0))


def fold_number(fold: str) -> tuple[int, int]:
    """Number of a fold, and the number of folds.

    >>> fold_number("2/5"), fold_number("device 1/4")
    ((2, 5), (1, 4))
    """
    number, _, of = fold.rpartition(" ")[2].partition("/")
    return int(number), int(of)
