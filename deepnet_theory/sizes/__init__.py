"""The algebra of sizes: what a branch, a residual equation and an update make of sizes in depth.

Standard library and NumPy. ``monomial`` is the value, ``laws`` the folds, ``rule`` the one linear
solve, ``table`` what follows from a rule, ``growth`` how a text grows in the depth, ``layers`` what
constants of any origin do in depth, ``exponents`` whose they are.
"""
