"""What a model costs: FLOP, memory and time against the number of leads."""
