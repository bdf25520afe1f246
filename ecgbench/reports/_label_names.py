"""Full names of labels, as the tables in datasets/labels tell them."""

import re
from functools import cache

from ecgbench.datasets._labels import table

_MEMBERS = "members:"
_MOST = 5
"""Members of a class that are named one by one where the class has no name of its own."""


@cache
def full_names(task: str) -> dict[str, str]:
    """Label -> its full name, of a task; nothing of a task whose labels no table names.

    >>> full_names("ptbxl_super")["MI"], full_names("ptbxl_sub")["ILBBB"]
    ('Myocardial infarction', 'incomplete left bundle branch block')
    >>> full_names("code15_known")["RBBB"], full_names("no such task")
    ('right bundle branch block', {})
    """
    words = task.split("_")
    for end in range(len(words), 0, -1):  # a task of known labels only has those of its whole
        name = "_".join(words[:end])
        try:
            rows = table(name) if re.fullmatch("[a-z0-9_]+", name) else ()
        except FileNotFoundError:
            continue
        named = {row["code"]: row["name"] for row in rows if "code" in row and "name" in row}
        return {code: _full(code, name) for code, name in named.items()}
    return {}


def _full(code: str, name: str) -> str:
    own, _, members = name.partition(_MEMBERS)
    if own.strip(" ;") or not members:
        return own.strip(" ;")
    single = {row["scp_code"]: row["description"] for row in table("ptbxl_scp")}
    known = [single.get(member, member) for member in members.split()]
    if code in single and len(known) > 1:
        return f"{single[code]} and related codes"
    return ", ".join(known) if len(known) <= _MOST else f"{len(known)} diagnoses"
