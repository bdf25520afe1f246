"""The paper's ablations: studies of cells that differ in one choice each, trained and probed alike
at any budget.
"""
