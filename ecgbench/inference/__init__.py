"""Acts on one model: features and predictions."""
