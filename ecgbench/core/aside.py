"""Names of before; to go with their last user."""

from ecgbench.core import files

CHANGED = files.CHANGED
MARK = files.DAMAGED
set_aside = files.quarantine
say_once = files.warn_once
heard = files.warnings_to
UNPROVED = "has no recorded hash (an earlier version wrote it)"
