"""Acts on one model: the loop, heads, gates."""
