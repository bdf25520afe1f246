"""Names of before; to go with their last user."""

from ecgbench.core import files

facts_of = files.facts_of
proved = files.proved
seal_bytes = files.put_hashed
seal = files.put_proved
unsealed_bytes = files.read_hashed
unsealed = files.read_proved
PROOF = files.PROOF
