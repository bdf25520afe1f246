"""What the answer of a look may be: it comes from a process in which a plug-in may
have written anything.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ecgbench import adapters
from ecgbench.adapters.hide import NATIVE
from ecgbench.core.text import shortened
from ecgbench.study.job import Job, Locate, Look

FOREIGN = "its process gave an answer of another kind"
"""Why a job failed whose answer is none of those below."""
LONGEST = 2000
"""Characters of a text in an answer."""

Check = Callable[[Any], bool]


def checked(job: Job, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a job, its texts as lines that a terminal shows as they are; {"failed": why}
    where it is no answer to such a job.
    """
    forms = next((f for kind, f in _FORMS.items() if isinstance(job, kind)), ({},))
    if not any(_of_form(answer, form) for form in (*forms, _FAILED)):
        return {"failed": FOREIGN}
    return {n: shortened(v, LONGEST) if isinstance(v, str) else v for n, v in answer.items()}


def _of_form(answer: Mapping[str, Any], form: Mapping[str, Check]) -> bool:
    return answer.keys() == form.keys() and all(fits(answer[name]) for name, fits in form.items())


def _text(value: Any) -> bool:
    return type(value) is str


def _policy(value: Any) -> bool:
    return value is None or value in (NATIVE, *adapters.names())


_FAILED: Mapping[str, Check] = {"failed": _text}
_FORMS: Mapping[type[Job], tuple[Mapping[str, Check], ...]] = {
    Look: ({"policy": _policy},),
    Locate: (
        {"lacks": lambda value: value == ""},
        {"lacks": _text, "fetch": lambda value: type(value) is bool},
    ),
}
