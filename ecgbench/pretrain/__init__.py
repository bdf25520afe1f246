"""How LAEF is made: recipes of two stages, and the paper's ablations, which are recipes with one
changed choice each.
"""
