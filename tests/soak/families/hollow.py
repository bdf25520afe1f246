"""Studies with nothing, little or only failures in them, and each report of them by itself."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from ecgbench import reports
from ecgbench.study.store import Store
from tests.soak.place import Place, removed
from tests.soak.row import Row


def _without(*names: str) -> Callable[[Place], None]:
    def empty(place: Place) -> None:
        for name in names:
            removed(place.out.glob(name))

    return empty


def _failed(place: Place) -> None:
    _without("cells")(place)
    store = Store(place.out)
    for cell in store.existing_plan().cells:
        store.give_reason(cell, "failed", "it broke\n\x1b[31m<b>here</b>")


HOLLOW: dict[str, Callable[[Place], None]] = {
    "no cell": _without("cells"),
    "one cell": _without("cells/*/twin", "cells/*/*/I"),
    "one model": _without("cells/*/twin"),
    "one set of leads": _without("cells/*/*/12"),
    "failures only": _failed,
    "no features": _without("features"),
    "no people": _without("people"),
    "no commands": _without("invocations"),
    "nothing but a plan": _without("[!p]*", "people"),
}

TELLS = {
    "no commands": "none is noted",
    "no people": "does not hold them as they were written",
}
"""Words of the page's sentence about what is not there."""


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """Every hollow study with the whole page and with each report alone."""
    for how in HOLLOW:
        act = partial(_report, how, ())
        yield Row("hollow", f"{how}, whole page", "study", act, of=TELLS.get(how, ""))
        for name in reports.names():
            act = partial(_report, how, ("--only", name))
            yield Row("hollow", f"{how}, {name} alone", "study", act, check=_page)


def _report(how: str, only: tuple[str, ...], place: Place) -> None:
    HOLLOW[how](place)
    place.mark()
    place.report(*only)


def _page(place: Place) -> str:
    return "" if (place.folder / "report" / "index.html").exists() else "no page"
