"""Building blocks that several networks share."""
