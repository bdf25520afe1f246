"""Acts on one model and one data set: features, protocols, predictions."""
