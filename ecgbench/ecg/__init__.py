"""Floor 1, the signal: leads, the draw of leads, recordings, filters, readers."""
