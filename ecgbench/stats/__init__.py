"""Floor 0, statistics: arrays in, numbers out; nothing of ECG or of this project's types."""
