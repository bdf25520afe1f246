"""Import of your own recordings: a folder of files and a table of labels become a dataset,
`mine/mine.py` and `mine/records.csv`, both editable.
"""
