"""Native files into recordings in millivolts, one file per format.

A format with a header (`wfdb`) gives leads, rate and unit itself; for the others a dataset gives
them once, as a `FileFormat`. Leads are taken by name; signals that are none of the twelve (vx, vy,
vz, respiration) are left out. A file that cannot be trusted is a BadRecord of one line, so that the
other records go on.
"""
