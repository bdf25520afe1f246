"""The hypotheses of a plan file, checked against its study."""

from collections.abc import Mapping, Sequence
from typing import Any

from ecgbench import datasets
from ecgbench.cards.plan import Request
from ecgbench.core.registry import plain
from ecgbench.ecg.draw import parse_leads, settings
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.study.frozen import NON_INFERIORITY, SUPERIORITY, Hypothesis

OWN = "own 12 leads"
"""The default comparison: the model itself with all leads."""
FULL = str(len(LEADS))
PRIMARY = "primary"
"""Family of a hypothesis that names none."""
WIDEST = 0.5
_NEEDED = ("name", "kind", "model", "leads", "against")
_MORE = ("family", "tasks", "metric", "margin", "policy", "against_policy")


def hypotheses(tables: Sequence[Mapping[str, Any]], study: Request) -> tuple[Hypothesis, ...]:
    """The hypotheses in the tables `[[hypothesis]]` of a plan file, for a checked study. BadSetting
    and UnknownName name the hypothesis and the word.
    """
    if not tables:
        raise BadSetting(
            "the plan has no [[hypothesis]]; an example: ecgbench freeze --example > PLAN.toml"
        )
    found = tuple(_hypothesis(f"hypothesis {n}", t, study) for n, t in enumerate(tables, 1))
    names = [h.name for h in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadSetting(f"two hypotheses are called {twice[0]!r}; give one another name")
    return found


def _hypothesis(where: str, table: Mapping[str, Any], study: Request) -> Hypothesis:
    for word in table:
        if word not in (*_NEEDED, *_MORE):
            raise UnknownName(f"word of {where}", word, [*_NEEDED, *_MORE])
    if without := [word for word in _NEEDED if not table.get(word)]:
        raise BadSetting(f"{where} has no {' and no '.join(without)}; give it one")
    where = f"hypothesis {table['name']!r}"
    given = {word: str(value) for word, value in table.items()}
    kind: Any = _among(where, "kind", given["kind"], (SUPERIORITY, NON_INFERIORITY))
    model = _among(where, "model", given["model"], study.models)
    leads = _leads(where, given["leads"], study)
    itself = plain(given["against"]) == plain(OWN)
    other = model if itself else _among(where, "model", given["against"], study.models)
    against = _leads(where, FULL, study) if itself else leads
    if (other, against) == (model, leads):
        raise BadSetting(f"{where}: {model} at {leads} is compared with itself; name another")
    metrics = study.scoring.metrics
    return Hypothesis(
        name=given["name"],
        kind=kind,
        family=given.get("family", PRIMARY),
        metric=_among(where, "metric", given.get("metric", metrics[0]), metrics),
        tasks=_tasks(where, table.get("tasks"), study),
        model=model,
        policy=_policy(where, "policy", given, study),
        leads=leads,
        against_model=other,
        against_policy=_policy(where, "policy" if itself else "against_policy", given, study),
        against_leads=against,
        margin=_margin(where, kind, table.get("margin")),
    )


def _among(where: str, what: str, name: str, known: Sequence[str]) -> str:
    for one in known:
        if plain(one) == plain(name):
            return one
    raise UnknownName(f"{what} of {where}", name, known)


def _leads(where: str, text: str, study: Request) -> str:
    given = settings(parse_leads(text), 1)
    known = list(dict.fromkeys(s.typed for s in settings(study.leads, 1)))
    if len(given) != 1 or given[0].typed not in known:
        raise BadSetting(
            f"{where}: leads {text} is not one of the lead settings of the plan: {', '.join(known)}"
        )
    return given[0].typed


def _tasks(where: str, named: Any, study: Request) -> tuple[str, ...]:
    names = study.tasks if named is None else [named] if isinstance(named, str) else named
    chosen = tuple(_among(where, "task", str(name), study.tasks) for name in names)
    if not chosen:
        raise BadSetting(f"{where}: tasks names nothing; leave it out for all of the plan")
    every = datasets.tasks()
    if len(chosen) > 1 and (synthetic := [t for t in chosen if every[t][1].synthetic]):
        raise BadSetting(
            f"{where}: {synthetic[0]} is synthetic, and a mean over it and others says nothing; "
            f"name its tasks"
        )
    return chosen


def _policy(where: str, word: str, given: Mapping[str, str], study: Request) -> str:
    if word in given:
        return _among(where, word, given[word], study.policies)
    if len(study.policies) > 1:
        raise BadSetting(
            f"{where}: the study has the policies {', '.join(study.policies)}; say which with "
            f'{word} = "{study.policies[0]}"'
        )
    return ""


def _margin(where: str, kind: str, margin: Any) -> float | None:
    if kind == SUPERIORITY:
        if margin is not None:
            raise BadSetting(f"{where}: a margin is for {NON_INFERIORITY}; leave it out")
        return None
    if not isinstance(margin, float) or not 0 < margin < WIDEST:
        raise BadSetting(
            f"{where}: {NON_INFERIORITY} needs a margin as a fraction between 0 and {WIDEST:g}, "
            f"such as margin = 0.05, and has {margin!r}"
        )
    return margin
