"""The algebra of sizes: what a branch, a residual equation and an update make of sizes in depth.

Standard library only. ``monomial`` is the value, ``laws`` the three folds, ``rule`` the one linear
solve, ``table`` what follows from a rule, ``layers`` and ``schemes`` sizes that depend on the
layer's index. SymPy proves the same by another road in ``symbolic``.
"""
