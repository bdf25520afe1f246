"""Evaluation of one model on one dataset: features, protocols, predictions."""
