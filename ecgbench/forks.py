"""Name of before; to go with its last user."""

from ecgbench.core.parallel import cores as cores
