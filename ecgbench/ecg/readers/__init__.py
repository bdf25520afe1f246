"""Native files into recordings in millivolts, one file per format.

A format with a header (`wfdb`) tells leads, rate and unit itself; of the others a dataset tells them once, as a `Layout`.
Leads are taken by name; signals that are none of the twelve (vx, vy, vz, respiration) are left out. A file that cannot be
trusted is a BadRecord of one line, so that the other records go on.
"""
