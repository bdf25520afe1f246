"""Promises every plug-in keeps; the tests and `ecgbench check` call the same functions."""
