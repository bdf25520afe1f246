"""What makes recordings of a dataset ready to use: checked once, kept whole, cut to a subset,
prepared per contract.
"""
