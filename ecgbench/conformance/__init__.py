"""Promises every citizen keeps; the tests and `ecgbench check` call the same functions."""
