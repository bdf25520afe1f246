"""The lowest floor: what every room above it uses."""
