"""What a report may read: store, scores, comparisons."""
