"""`ecgbench doctor`: what this machine offers, and whether every model runs on it."""
