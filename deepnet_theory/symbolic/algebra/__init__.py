"""Symbols, powers of the depth, rational functions and the nodes of matrix expressions."""
