"""Recordings from outside through a run: what its fits predict for them, and how often they are
right.
"""
