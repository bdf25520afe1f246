"""Recordings of one's own as a dataset: a folder of files and a table of labels become a card file
and a table, `mine/mine.py` and `mine/records.csv`, which a person may edit.
"""
