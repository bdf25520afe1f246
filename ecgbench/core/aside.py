"""Files of ours that are not as they were written: each is named, and moved out of the way for the
one that its user makes anew.

What is named goes to the log `ecgbench.core.aside`, which prints on standard error where nobody
listens.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ecgbench.core.text import visible

MARK = ".damaged"
"""How the name of a file or folder ends that was set aside; a later one takes its place."""
CHANGED = "is not as it was written"
UNPROVED = "has no recorded hash (an earlier version wrote it)"
_LOG = logging.getLogger(__name__)
_SAID: set[Path] = set()
"""Files of which this process has said that a part is wrong."""


def set_aside(path: Path, why: str = CHANGED, then: str = "what it held is computed again") -> None:
    """Give a file or folder the name of one that is not used, and say so. Where that cannot be done
    (another process did, or the disk is read-only), its user must not use it all the same.
    """
    kept, where = path.with_name(path.name + MARK), "it is not used"
    with suppress(OSError):
        if kept.is_dir() and not kept.is_symlink():
            shutil.rmtree(kept)
        os.replace(path, kept)
        where = f"set aside as {kept.name}"
    _LOG.warning("%s", visible(f"{path} {why}; {where}, and {then}"))


def say_once(path: Path, text: str) -> None:
    """Say of a file that a part of it is wrong; of one file once in a process, or a spoilt disk
    would fill a log. What else is wrong in it is treated alike.
    """
    if path not in _SAID:
        _SAID.add(path)
        _LOG.warning("%s", visible(f"{path}: {text}"))


class _Listener(logging.Handler):
    """Passes what is said on."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(record.getMessage())


@contextmanager
def heard(tell: Callable[[str], None]) -> Iterator[None]:
    """What is said inside goes to `tell`, line by line."""
    listener = _Listener(tell)
    _LOG.addHandler(listener)
    try:
        yield
    finally:
        _LOG.removeHandler(listener)
