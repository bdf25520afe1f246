"""From published files to arrays."""
