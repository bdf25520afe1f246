"""Randomness named by words: the same words give the same numbers on any machine, in any order of calls.

There is no global seed. What is left out of the words is shared: the sampler of leads does not name the model,
so every model sees the same leads.
"""

import hashlib

import numpy as np


def seed_of(*words: str | int) -> int:
    """A 64-bit seed from words. Types count: 1 and "1" differ.

    >>> seed_of("leads", 0, "00001") == seed_of("leads", 0, "00001")
    True
    >>> seed_of("leads", 0) == seed_of("leads", "0")
    False
    """
    text = "\x1f".join(f"{type(w).__name__}:{w}" for w in words)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def rng(*words: str | int) -> np.random.Generator:
    """A numpy generator (PCG64) seeded by words, e.g. `rng("leads", seed, record)`."""
    return np.random.Generator(np.random.PCG64(seed_of(*words)))
