"""From the tables and headers of a dataset as published to its index."""
