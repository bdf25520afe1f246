"""Import of your own recordings: a folder of files and a table of labels become a dataset,
`mine/card.toml` and `mine/records.csv`, both editable.
"""
