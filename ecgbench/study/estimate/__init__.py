"""What a study will take before it is begun: `ecgbench run --dry-run`."""
