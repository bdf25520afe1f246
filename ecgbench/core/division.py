"""How records are divided into training, validation and test: what `--folds` asks for. Pure data.

--folds ptb=10,code15=20     the datasets' own splits, made with other numbers of folds
--folds reference            patients without a label in training, as in the reference benchmark
--folds 5                    cross-validation of every dataset, each record tested once
"""

from dataclasses import dataclass
from typing import Self

from ecgbench.errors import BadSetting

LEAST, MOST = 3, 20
"""Folds of a cross-validation: one is tested, one validates, the others train."""
REFERENCE = "reference"
"""Word of `--folds`."""


@dataclass(frozen=True, kw_only=True)
class Division:
    """Nothing in it: the splits as datasets publish them, or as their cards say."""

    own: tuple[tuple[str, int], ...] = ()
    """(dataset, number of folds of its own split), in the order of the names."""
    reference: bool = False
    """Whether patients without a label go to training."""
    cross: int | None = None
    """Number of folds of the cross-validation."""

    def __str__(self) -> str:
        words = [f"{name}={number}" for name, number in self.own]
        words += [REFERENCE] if self.reference else []
        return ",".join(words if self.cross is None else [str(self.cross)])

    def __bool__(self) -> bool:
        return bool(str(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `--folds` says; names of datasets are not looked up. BadSetting in one line.

        >>> str(Division.parse("reference, ptb=10")), Division.parse("3").fits
        ('ptb=10,reference', ('1/3', '2/3', '3/3'))
        """
        own: dict[str, int] = {}
        words = [word.strip() for word in text.split(",") if word.strip()]
        numbers = [word for word in words if word.isdecimal()]
        for word in words:
            name, _, number = word.rpartition("=")
            if word == REFERENCE or word in numbers:
                continue
            if not name or not number.isdecimal():
                raise BadSetting(
                    f"--folds {text}: {word!r} is neither a number of folds, NAME=NUMBER nor "
                    f"{REFERENCE}; for example --folds 5, or --folds ptb=10,{REFERENCE}"
                )
            if name in own:
                raise BadSetting(f"--folds {text}: dataset {name} is there twice; name it once")
            if int(number) < LEAST:
                raise BadSetting(
                    f"--folds {text}: a split has at least {LEAST} folds, as the last is tested, "
                    f"the one before it validates and the others train; for example {name}=5"
                )
            own[name] = int(number)
        if not words:
            raise BadSetting("--folds names nothing; leave it out for the datasets' own splits")
        if not numbers:
            return cls(own=tuple(sorted(own.items())), reference=REFERENCE in words)
        if len(words) > 1:
            raise BadSetting(
                f"--folds {text}: a cross-validation replaces the datasets' own splits; give "
                f"--folds {numbers[0]} alone, or leave {numbers[0]} out"
            )
        if not LEAST <= (cross := int(numbers[0])) <= MOST:
            raise BadSetting(
                f"--folds {text}: a cross-validation has {LEAST} to {MOST} folds, as one is "
                f"tested, one validates and the others train; for example --folds 5"
            )
        return cls(cross=cross)

    @property
    def fits(self) -> tuple[str, ...]:
        """What the folds of a cross-validation are called; none without one."""
        return tuple(f"{k + 1}/{self.cross}" for k in range(self.cross or 0))


def place(fold: str) -> tuple[int, int]:
    """Which fold of how many.

    >>> place("2/5")
    (2, 5)
    """
    number, _, of = fold.partition("/")
    return int(number), int(of)
