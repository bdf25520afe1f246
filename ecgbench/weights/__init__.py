"""Files of weights: read without running anything, converted, proved, kept, shipped and shared."""
