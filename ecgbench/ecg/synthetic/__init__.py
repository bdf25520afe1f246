"""Recordings of hearts that never beat: a moving dipole and the conditions that change it."""
