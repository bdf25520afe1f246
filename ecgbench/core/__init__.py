"""The lowest floor, used by every room above it."""
