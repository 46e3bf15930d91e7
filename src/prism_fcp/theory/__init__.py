"""Formulas of the paper, named by its labels, and what can be said beyond them."""
